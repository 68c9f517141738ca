"""Runs ``kernelyard selftest`` on this host in a process of its own: the portal imports no torch and no cheat."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from agentcore.judge.service import judge_environment
from agentcore.selftest.report import SelfTestReport
from agentcore.vocabulary import HardwareName
from portal.devices.record import read_report

LAST_LINES = 8


class CannotRun(RuntimeError):
    """The self-test could not be run here; the message says why."""


def run_selftest(
    hardware: HardwareName, *, deadline_s: float, corpus: Path | None = None,
    say: Callable[[str], object] = lambda _line: None,
) -> SelfTestReport:
    """The report of a whole run on this host. Raises CannotRun, also where it does not end by the deadline.

    ``say`` gets every line as it comes; ``corpus`` is another one than the checkout's.
    """
    if settings.SANDBOX == "none":
        raise CannotRun("KERNELYARD_SANDBOX is none, and the cheat corpus is never run without a sandbox")
    cache = Path(settings.CACHE_DIR)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kernelyard-selftest-") as directory:
        out = Path(directory) / "selftest.json"
        command = [
            sys.executable, "-m", "agentcore.cli", "selftest", "--hardware", hardware.value, "--json", str(out),
            "--cache-dir", str(cache), "--sandbox", settings.SANDBOX,
        ]
        if corpus is not None:
            command += ["--corpus", str(corpus)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=judge_environment(), start_new_session=True,
        )
        expired = threading.Event()

        def stop() -> None:
            expired.set()
            _kill(process)

        timer = threading.Timer(deadline_s, stop)
        timer.daemon = True
        timer.start()
        last: deque[str] = deque(maxlen=LAST_LINES)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last.append(line.decode("utf-8", "replace").rstrip("\n"))
                say(last[-1])
            status = process.wait()
        finally:
            timer.cancel()
            _kill(process)
        if out.is_file():
            return read_report(out)
        if expired.is_set():
            raise CannotRun(f"the self-test did not end within {deadline_s:.0f} s and was stopped")
        raise CannotRun(f"kernelyard selftest ended with status {status}: {' '.join(last)[-2000:]}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The whole session, so that neither judge nor runner outlives the one that asked."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

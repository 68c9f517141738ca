"""A process that has loaded Django and the factories once and forks: each piece of code gets a process of its own.

Starting Python and Django takes half a second of a core, a fork some milliseconds. What is forked has no database
connection yet, shares no open file with its siblings, and is killed and waited for by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
_MOST_CODE_BYTES = 1 << 17


class Forked:
    """One forked process: as much of `subprocess.Popen` as the tests use, with text pipes."""

    def __init__(self, pid: int, stdin: IO[str] | None, stdout: IO[str], stderr: IO[str], status: int) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self.returncode: int | None = None
        self._status = status

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(os.read(self._status, 20)))
            os.close(self._status)
        return self.returncode

    def communicate(self, text: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Its output and errors to the end, after ``text`` was written to it; then waits for at most ``timeout`` s."""
        if self.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(text)
                self.stdin.close()
        said = self.stdout.read()
        self.wait(timeout)
        self.stderr.seek(0)
        return said, self.stderr.read()

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()
        self.wait()
        self.stderr.close()


class Warm:
    """The process to fork from, in one environment. Start it once, close it last."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", str(Path(__file__)), str(theirs.fileno())],
                cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )

    def fork(self, code: str, *, stdin: int = subprocess.DEVNULL) -> Forked:
        """Run ``code`` with ``sys``, ``json`` and ``make`` (the factories) at hand. ``stdin`` is DEVNULL or PIPE."""
        out_here, out_there = os.pipe()
        status_here, status_there = os.pipe()
        in_there, in_here = os.pipe() if stdin == subprocess.PIPE else (os.open(os.devnull, os.O_RDONLY), -1)
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  read and closed by whoever waits
        try:
            socket.send_fds(self._socket, [f"{code}\n".encode()], [in_there, out_there, errors.fileno(), status_there])
            pid = int(self._socket.recv(20) or 0)
        finally:
            for descriptor in (in_there, out_there, status_there):
                os.close(descriptor)
        assert pid, f"Django did not load: exit code {self._process.wait()}; its words are on standard error"
        writer = os.fdopen(in_here, "w") if in_here >= 0 else None
        return Forked(pid, writer, os.fdopen(out_here), errors, status_here)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(timeout=30)


def _serve(channel: socket.socket) -> None:
    import django

    django.setup()
    from tests.portal import factories

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        code, descriptors, _, _ = socket.recv_fds(channel, _MOST_CODE_BYTES, 4)
        if not code:
            return
        if os.fork() == 0:
            _watch(channel, code.decode(), descriptors, {"sys": sys, "json": json, "make": factories})
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(channel: socket.socket, code: str, descriptors: list[int], names: dict[str, object]) -> None:
    """Forks once more, says the process's id, and later how it ended; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, status = descriptors
    pid = os.fork()
    if pid == 0:
        channel.close()
        os.close(status)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _run(code, names)
    for descriptor in standard:
        os.close(descriptor)
    channel.send(str(pid).encode())
    channel.close()
    os.write(status, str(os.waitpid(pid, 0)[1]).encode())
    os._exit(0)


def _run(code: str, names: dict[str, object]) -> None:
    from django.db import connections

    result = 0
    random.seed()
    try:
        exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__", **names})
    except BaseException:
        traceback.print_exc()
        result = 1
    connections.close_all()
    os._exit(result)


if __name__ == "__main__":
    # Not from this file's directory: `tests` is found at the root, as in every process of a deployment.
    sys.path[0] = str(ROOT)
    _serve(socket.socket(fileno=int(sys.argv[1])))

"""Running `manage.py quickstart` as a user does, in a home of its own, and finding what a run left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def processes_of(home: Path) -> list[str]:
    """Command lines of every running process that carries ``home`` in its environment or arguments."""
    mark, found = str(home).encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            command = entry.joinpath("cmdline").read_bytes()
            if mark in command or mark in entry.joinpath("environ").read_bytes():
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        except (OSError, IndexError):
            continue
    return found


@dataclass
class Run:
    process: subprocess.Popen[str]
    home: Path
    lines: list[str] = field(default_factory=list)

    def until(self, condition: Callable[[str], bool], timeout_s: float = 120.0) -> str:
        """Read lines until one satisfies ``condition``."""
        deadline = time.monotonic() + timeout_s
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if condition(line):
                return line
            assert time.monotonic() < deadline, "\n".join(self.lines)
        raise AssertionError("it ended first:\n" + "\n".join(self.lines))

    def interrupt(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def rest(self) -> list[str]:
        """What it printed after the last line that was read."""
        assert self.process.stdout is not None
        return self.process.stdout.read().splitlines()

    def result(self) -> dict[str, Any]:
        """Wait for the end, demand success, and read the last line."""
        output, _ = self.process.communicate(timeout=240)
        self.lines += output.splitlines()
        assert self.process.returncode == 0, "\n".join(self.lines)
        return json.loads(self.lines[-1])


@pytest.fixture
def quickstart(tmp_path: Path, lay_cpu_rates: Callable[[Path], Path]) -> Iterator[Callable[..., Run]]:
    home, runs = tmp_path / "home", []
    lay_cpu_rates(home / "cache")

    def start(*arguments: str, environment: dict[str, str] | None = None) -> Run:
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("KERNELYARD_", "DJANGO_"))}
        variables |= {"KERNELYARD_HOME": str(home), "PYTHONUNBUFFERED": "1"} | (environment or {})
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A run in a shell's background ignores SIGINT and would hand that down: Ctrl-C could not be tried.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(
            [sys.executable, "manage.py", "quickstart", *arguments], cwd=ROOT, env=variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
        run = Run(process, home)
        runs.append(run)
        return run

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
            run.process.wait(timeout=30)

"""Child processes that end with us, whatever ends us: each in its own session, all gone after `Supervisor.stop`.

The terminal's Ctrl-C reaches only this process, which then stops the children in order. If this process is killed
outright, the kernel sends its children SIGTERM; what they leave behind while we live becomes our child (a subreaper)
and is killed at the end. Not for restarting anything: a child that dies is the caller's news.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
# Run by a bare interpreter before the program itself: a preexec_fn is not safe once there are threads.
_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(slots=True)
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    stop_signal: int

    def running(self) -> bool:
        return self.process.poll() is None

    def last_words(self, lines: int = 12) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])
        return ""


class Supervisor:
    """Starts children and ends them all. Use as a context manager, from the main thread."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []
        logs.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        stop_signal: int = signal.SIGTERM,
        output: Path | None = None,
    ) -> Child:
        """Start ``command``; its errors (and output, unless ``output`` names another file) go to ``<name>.log``."""
        log = self._logs / f"{name}.log"
        with log.open("ab") as errors, (output.open("ab") if output else contextlib.nullcontext(errors)) as written:
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", _LAUNCHER, str(os.getpid()), *command],
                cwd=cwd, env=dict(environment), stdin=subprocess.DEVNULL, stdout=written, stderr=errors,
                start_new_session=True,
            )
        child = Child(name, process, log, stop_signal)
        self._children.append(child)
        return child

    def stop(self, grace_s: float = 5.0) -> None:
        """Ask every child to end, the last started first; after ``grace_s`` seconds kill what is left, orphans too."""
        for child in reversed(self._children):
            if child.running():
                # The main process alone: django-q2 hangs when its whole group is signalled.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.process.pid, child.stop_signal)
        deadline = time.monotonic() + grace_s
        while any(child.running() for child in self._children) and time.monotonic() < deadline:
            time.sleep(0.05)
        _kill_descendants()
        for child in self._children:
            child.process.wait()
        self._children.clear()


def _kill_descendants(patience_s: float = 5.0) -> None:
    """Kill every process below this one until none is left; ends are reaped as they come."""
    deadline = time.monotonic() + patience_s
    while (found := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        with contextlib.suppress(ChildProcessError):
            # Orphans that came to us have no Popen object; those that have one tolerate being reaped here.
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants(root: int) -> list[int]:
    """The ids of all processes below ``root`` that still run (zombies aside), from /proc; empty where there is none."""
    children: dict[int, list[int]] = {}
    states: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # pid (name) state ppid …; the name may hold anything, so split after its last parenthesis.
            state, parent = entry.joinpath("stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            children.setdefault(int(parent), []).append(int(entry.name))
            states[int(entry.name)] = state
    found, queue = [], [root]
    while queue:
        for pid in children.get(queue.pop(), []):
            queue.append(pid)
            if states[pid] != "Z":
                found.append(pid)
    return found

"""Temporary directories that do not outlive their owner for ever, and the removal of those whose owner was killed.

The owner holds a lock on its directory, which the kernel releases when the process dies: a process id could belong to
another process by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def locked_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """A fresh directory in ``parent`` whose name begins with ``prefix``, removed at the end."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name:
        # Not inherited: a child that outlives this process does not keep the directory.
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(descriptor)


def sweep_directories(parent: Path, prefix: str, older_than_s: float) -> list[str]:
    """Remove the directories of that prefix that nobody holds and that are older than ``older_than_s`` seconds. Returns
    their names.

    The age leaves alone what was made a moment ago and is not locked yet, and a child that ends after its owner.
    """
    removed = []
    for directory in sorted(parent.glob(f"{prefix}*")):
        try:
            # O_NOFOLLOW: a link of this name is not ours, and neither is what it leads to.
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if time.time() - os.fstat(descriptor).st_mtime <= older_than_s:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            with contextlib.suppress(OSError):
                shutil.rmtree(directory)
                removed.append(directory.name)
        finally:
            os.close(descriptor)
    return removed


@contextmanager
def unwound_on_sigterm() -> Iterator[None]:
    """Inside, SIGTERM ends this process by SystemExit, so that context managers clean up, where it would end at once.

    Does nothing outside the main thread, or where the signal is handled already.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough, and the next must not stop the cleaning up
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

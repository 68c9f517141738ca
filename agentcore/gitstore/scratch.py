"""Directories for the length of one push, inside the repository, and the removal of those whose owner was killed.

The owner holds a lock on its directory, which the kernel releases when the process dies: a process id could belong to
another process by then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "kernelyard-push-"


@contextmanager
def scratch_directory(repository: Path) -> Iterator[Path]:
    """A fresh directory in ``repository``, removed at the end."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=repository) as name:
        # Not inherited: a git that outlives this process does not keep the directory.
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(descriptor)


def sweep(repository: Path, older_than_s: float) -> list[str]:
    """Remove the directories that nobody holds and that are older than ``older_than_s`` seconds. Returns their names.

    The age leaves alone what was made a moment ago and is not locked yet, and a git that ends after its server.
    """
    removed = []
    for directory in sorted(repository.glob(f"{_PREFIX}*")):
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

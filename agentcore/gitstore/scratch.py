"""Directories for the length of one push, inside the repository, and the removal of those whose owner was killed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from agentcore.scratch import locked_directory, sweep_directories

_PREFIX = "kernelyard-push-"


def scratch_directory(repository: Path) -> AbstractContextManager[Path]:
    """A fresh directory in ``repository``, removed at the end."""
    return locked_directory(repository, _PREFIX)


def sweep(repository: Path, older_than_s: float) -> list[str]:
    """Remove those that nobody holds and that are older than ``older_than_s`` seconds. Returns their names."""
    return sweep_directories(repository, _PREFIX, older_than_s)

"""The only place that touches git: repositories, refs, attempts, notes, push policy and publishing.

Start at `AttemptsRepository` and `SolutionsRepository`. Not for HTTP (the portal's ``githttp``) and not for work.

The names below are imported when they are first asked for: the hook of a push needs few of them, and is waited for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcore.gitstore.attempts import AttemptsRepository
    from agentcore.gitstore.index import SolutionEntry
    from agentcore.gitstore.mirror import AttemptsMirror, Unreachable
    from agentcore.gitstore.process import GitStoreError, clean_environment
    from agentcore.gitstore.records import SYSTEM, CommitRecord, Identity, with_trailers
    from agentcore.gitstore.repository import MAIN, Lost, TreeEntry
    from agentcore.gitstore.solutions import Publication, SolutionsRepository
    from agentcore.vocabulary import AttemptRef

__all__ = [
    "MAIN",
    "SYSTEM",
    "AttemptRef",
    "AttemptsMirror",
    "AttemptsRepository",
    "CommitRecord",
    "GitStoreError",
    "Identity",
    "Lost",
    "Publication",
    "SolutionEntry",
    "SolutionsRepository",
    "TreeEntry",
    "Unreachable",
    "clean_environment",
    "with_trailers",
]

_HOME = {
    "agentcore.gitstore.attempts": ("AttemptsRepository",),
    "agentcore.gitstore.index": ("SolutionEntry",),
    "agentcore.gitstore.mirror": ("AttemptsMirror", "Unreachable"),
    "agentcore.gitstore.process": ("GitStoreError", "clean_environment"),
    "agentcore.gitstore.records": ("SYSTEM", "CommitRecord", "Identity", "with_trailers"),
    "agentcore.gitstore.repository": ("MAIN", "Lost", "TreeEntry"),
    "agentcore.gitstore.solutions": ("Publication", "SolutionsRepository"),
    "agentcore.vocabulary": ("AttemptRef",),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        module = next((module for module, names in _HOME.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(module), name)
        return value

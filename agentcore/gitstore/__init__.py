"""The only place that touches git: repositories, refs, attempts, notes, push policy and publishing.

Start at `AttemptsRepository` and `SolutionsRepository`. Not for HTTP (the portal's ``githttp``) and not for work.
"""

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

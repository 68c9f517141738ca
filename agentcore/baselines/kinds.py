"""The kinds of baseline. Each is a candidate in language ``torch``, judged like any other."""

from __future__ import annotations

from enum import StrEnum

COMPILE_LIMIT_S = 180.0
"""How long torch.compile may take for one shape: its first call. Autotuning tries some twenty kernels per product."""


class BaselineKind(StrEnum):
    """Where a baseline's source comes from. The slug is the last part of its branch; it never changes."""

    EAGER = "eager"
    COMPILE = "compile"
    HAND = "hand"
    AGENT = "agent"
    LIBRARY = "library"

    @property
    def slug(self) -> str:
        """The last part of ``attempts/<problem>/torch/baseline/<slug>``."""
        return "hand-optimised" if self is BaselineKind.HAND else self.value

    @property
    def label(self) -> str:
        """In a few words, for tables and as the subject of its commit."""
        return {
            "eager": "The reference, run eagerly",
            "compile": "The reference under torch.compile (max-autotune)",
            "hand": "The hand-optimised PyTorch baseline",
            "agent": "PyTorch optimised by a single agent",
            "library": "A library call",
        }[self.value]

    @property
    def file(self) -> str:
        """The file beside a problem that holds its source; '' where the source is made or comes from an agent."""
        return {"hand": "baseline.py", "library": "library.py"}.get(self.value, "")

    @property
    def first_call_limit_s(self) -> float | None:
        """What the first call for a shape may take, where that is more than any kernel is given."""
        return COMPILE_LIMIT_S if self is BaselineKind.COMPILE else None

    @classmethod
    def of_slug(cls, slug: str) -> BaselineKind | None:
        """The kind whose branches end in ``slug``; None for any other name."""
        return next((kind for kind in cls if kind.slug == slug), None)


DEFAULT_KINDS = (BaselineKind.EAGER, BaselineKind.HAND)
"""What is measured where nobody says: the kinds that need no compiler, in seconds."""

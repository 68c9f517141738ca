"""Device memory of dead runners, kept for the next, so that a workload's buffers lie in the same place every time.

Where they lie decides how fast some kernels are: on an H200 one that reads 50 MB of weights in 25 µs takes 27.5 µs in
some places and 32 in others, marks included. Never given to the runner that had it: that may have mapped it as it
likes, and what was an output may become an input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from agentcore.judge.buffers import Shared

Memory = TypeVar("Memory", bound="Shared")
Label = tuple[str, ...]
"""Whose memory it is: the same for the same buffer of the same workload, so that no other takes its place."""
MOST_PIECES = 256
"""Each has a descriptor open, of which a process may have a thousand or so."""


class KeptMemory(Generic[Memory]):
    """Pieces by label, at most ``limit_bytes`` and MOST_PIECES of them, those kept last."""

    def __init__(self, allocate: Callable[[int], Memory], limit_bytes: int) -> None:
        """``allocate`` gives a new piece of at least so many bytes, or raises RuntimeError."""
        self._allocate, self.limit_bytes = allocate, limit_bytes
        self._pieces: dict[Label, Memory] = {}

    def take(self, label: Label, nbytes: int) -> Memory:
        """The piece that was kept under that label, unless it is too small; a new one where there is none. Raises what
        ``allocate`` raises.
        """
        kept = self._pieces.pop(label, None)
        if kept is not None and kept.size >= nbytes:
            return kept
        if kept is not None:
            kept.close()
        try:
            return self._allocate(nbytes)
        except RuntimeError:
            if not self._pieces:
                raise
            self.clear()  # it may be what the device lacks
            return self._allocate(nbytes)

    def keep(self, pieces: Mapping[Label, Memory]) -> None:
        """Keep pieces that nothing looks at any more."""
        for label, memory in pieces.items():
            if (earlier := self._pieces.pop(label, None)) is not None:
                earlier.close()
            self._pieces[label] = memory
        held = sum(memory.size for memory in self._pieces.values())
        while held > self.limit_bytes or len(self._pieces) > MOST_PIECES:
            memory = self._pieces.pop(next(iter(self._pieces)))
            held -= memory.size
            memory.close()

    def clear(self) -> None:
        """Free them all."""
        while self._pieces:
            self._pieces.popitem()[1].close()

"""How many distinct elements of a buffer a set of strided views covers. Plain geometry, no tensors.

Used to count the bytes of an input that its readers need, each once, however often and through whichever slices,
transpositions and expansions they read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_MAX_EXACT = 1 << 28
"""Buffers beyond this many elements are not marked one by one; their largest view is taken instead."""


@dataclass(frozen=True, slots=True)
class View:
    """Elements ``offset + Σ index·stride`` of a buffer. Strides of 0 repeat elements; negative ones do not occur."""

    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, offset: int, size: Sequence[int], stride: Sequence[int]) -> View:
        """Normalised: without dimensions of one element or of stride 0, and with adjacent dimensions merged."""
        if 0 in size:
            return cls(0, (0,), (1,))
        dims = sorted(((st, sz) for sz, st in zip(size, stride, strict=True) if sz > 1 and st != 0), reverse=True)
        merged: list[tuple[int, int]] = []
        for step, count in dims:
            if merged and merged[-1][0] == step * count:
                merged[-1] = (step, merged[-1][1] * count)
            else:
                merged.append((step, count))
        return cls(offset, tuple(count for _, count in merged), tuple(step for step, _ in merged))

    @property
    def count(self) -> int:
        """Elements addressed; an upper limit of the distinct ones where dimensions overlap."""
        total = 1
        for size in self.size:
            total *= size
        return total

    @property
    def is_overlapping(self) -> bool:
        """True where two indices may address one element (a sliding window, for one)."""
        reach = 0
        for step, count in sorted(zip(self.stride, self.size, strict=True)):
            if step <= reach:
                return True
            reach += step * (count - 1)
        return False


def distinct_elements(buffer_elements: int, views: Iterable[View]) -> int:
    """A lower bound of the distinct elements covered by ``views``; exact up to 2**28 elements of buffer."""
    found = set(views)
    largest = 0
    for view in found:
        if not view.is_overlapping:
            largest = max(largest, view.count)
    if largest >= buffer_elements or not found:
        return min(largest, buffer_elements)
    if len(found) == 1 and largest:
        return largest
    if buffer_elements > _MAX_EXACT:
        return largest
    marks = np.zeros(buffer_elements, dtype=np.bool_)
    for view in found:
        if view.count:
            window = np.lib.stride_tricks.as_strided(marks[view.offset :], view.size, view.stride, writeable=True)
            window[...] = True
    return int(np.count_nonzero(marks))

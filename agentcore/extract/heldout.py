"""Shapes between those that the example calls showed, to judge a kernel on shapes that it was not shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

MOST = 3


def held_out(seen: Iterable[dict[str, int]]) -> list[dict[str, int]]:
    """Up to ``MOST`` axis values, each between two neighbours of ``seen`` on all axes together, and uneven.

    All axes move together, so that relations between them (as many keys as queries, at least) hold on the way. None
    where there is nothing between.
    """
    known = [dict(values) for values in seen]
    if len(known) < 2 or not known[0]:
        return []
    found: list[dict[str, int]] = []
    pairs = sorted(itertools.pairwise(known), key=lambda pair: -_distance(*pair))
    for part in (0.5, 0.3, 0.8):
        for low, high in pairs:
            values = {axis: _between(low[axis], high[axis], part) for axis in low}
            if values not in known and values not in found:
                found.append(values)
            if len(found) == MOST:
                return found
    return found


def _distance(low: dict[str, int], high: dict[str, int]) -> float:
    return sum(abs(high[axis] - low[axis]) / max(1, low[axis]) for axis in low)


def _between(low: int, high: int, part: float) -> int:
    value = round(low + (high - low) * part)
    # An odd number is no multiple of a tile; both ends stay out.
    odd = value | 1
    return odd if min(low, high) < odd < max(low, high) else value

"""Which configuration to try next: coordinate search around the best one, with random restarts.

A pure function of what has been tried, so that a resumed search goes on where the record ends. Not for running or
measuring anything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from agentcore.agents.tunables import Configuration, Tunable, configuration

EXHAUSTIVE_LIMIT = 4096
"""Spaces up to this size are enumerated to find what is left; larger ones are sampled."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next configuration and, in words, why: the reason becomes the attempt's hypothesis."""

    configuration: Configuration
    reason: str


def propose(
    tunables: Sequence[Tunable],
    best: Configuration,
    tried: Set[Configuration],
    rng: random.Random,
) -> Proposal | None:
    """The next untried configuration, or None when every one has been tried.

    Neighbours of ``best`` come first (one parameter, one step in its declared list; then one parameter, any other
    value), the parameters in random order; when all of those are known, a random untried configuration restarts
    the search elsewhere.
    """
    by_name = {tunable.name: tunable for tunable in tunables}
    order = sorted(by_name)
    rng.shuffle(order)
    values = dict(best)
    for adjacent_only in (True, False):
        for name in order:
            for value in _alternatives(by_name[name], values[name], adjacent_only, rng):
                candidate = configuration({**values, name: value})
                if candidate not in tried:
                    return Proposal(candidate, f"{name} {values[name]} -> {value} may be faster than the best so far")
    untried = _random_untried(tunables, tried, rng)
    if untried is None:
        return None
    return Proposal(untried, f"random restart at {describe(untried)}: every change of one parameter is known")


def describe(chosen: Configuration) -> str:
    """``A=1 B=2``: a configuration for messages."""
    return " ".join(f"{name}={value}" for name, value in chosen)


def _alternatives(tunable: Tunable, value: str, adjacent_only: bool, rng: random.Random) -> list[str]:
    choices = tunable.choices
    if value not in choices:
        return list(choices)
    position = choices.index(value)
    if adjacent_only:
        near = [choices[i] for i in (position + 1, position - 1) if 0 <= i < len(choices)]
        rng.shuffle(near)
        return near
    return sorted((c for c in choices if c != value), key=lambda c: abs(choices.index(c) - position))


def _random_untried(
    tunables: Sequence[Tunable], tried: Set[Configuration], rng: random.Random
) -> Configuration | None:
    size = 1
    for tunable in tunables:
        size *= len(tunable.choices)
    if size <= EXHAUSTIVE_LIMIT:
        left = [candidate for candidate in _all(tunables) if candidate not in tried]
        return rng.choice(left) if left else None
    for _ in range(1000):
        candidate = configuration({t.name: rng.choice(t.choices) for t in tunables})
        if candidate not in tried:
            return candidate
    return next((candidate for candidate in _all(tunables) if candidate not in tried), None)


def _all(tunables: Sequence[Tunable], chosen: Mapping[str, str] | None = None) -> Iterator[Configuration]:
    chosen = chosen or {}
    if not tunables:
        yield configuration(chosen)
        return
    for choice in tunables[0].choices:
        yield from _all(tunables[1:], {**chosen, tunables[0].name: choice})

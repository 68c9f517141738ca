"""What lies around the counted calls of a GPU batch: as much as without a candidate, or work is hidden there.

A candidate may write its own marks where and when it likes, but every counted call lies between two distances that only
the judge's own kernels should fill. Compared with a calibration in a runner that never loaded a candidate. Before a
counted call everything else has finished and the cache has been cleared by the judge, so that no write-back of earlier
results excuses a late begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentcore.judge.cuda_batches import BatchTimes
from agentcore.judge.statistics import interquartile_mean

HIDDEN_GAP_US, HIDDEN_ALWAYS_US, HIDDEN_OPENING_US, HIDDEN_RATIO = 1.0, 2.0, 6.0, 0.02
"""How late a pair's second begin mark may be after the first end mark, how late every first begin mark may be after its
gate opened, and how late they may be on average, since a gate is slow to open at times; µs, and a share of the call's
own time on top."""
FLUSH_SHARE = 0.8
"""How much of what a gate's opening and a flush take without a candidate must be seen."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Without a candidate, around a call that wrote as many bytes; µs, named as in BatchTimes."""

    opening: float
    gap: float

    @classmethod
    def of(cls, times: BatchTimes) -> Expected:
        return cls(interquartile_mean(times.openings), interquartile_mean(times.gaps))


def hidden_work(times: BatchTimes, expected: Expected) -> tuple[list[str], str]:
    """(what is wrong, one line saying how late marks were). ``times`` must hold at least one pair."""
    share = HIDDEN_RATIO * interquartile_mean(times.latencies)
    opening = interquartile_mean(times.openings)
    late, always = opening - expected.opening, min(times.openings) - expected.opening
    after = interquartile_mean(times.gaps) - expected.gap
    wrong: list[str] = []
    if after > HIDDEN_GAP_US + share:
        wrong.append(f"the next begin mark comes {after:.2f} µs late after an end mark: work is hidden behind it")
    if late > HIDDEN_OPENING_US + share or always > HIDDEN_ALWAYS_US + share:
        wrong.append(
            f"begin marks come {late:.2f} µs late, {always:.2f} µs at least, after a gate opens: work is hidden before"
            " them"
        )
    if opening < FLUSH_SHARE * expected.opening:
        wrong.append(
            f"clearing the cache before a call took {opening:.1f} µs, without a candidate {expected.opening:.1f} µs: it"
            " was tampered with"
        )
    line = (
        f"against the calibration: gate to begin mark {late:+.2f} µs, at least {always:+.2f} µs, end mark to next begin"
        f" mark {after:+.2f} µs"
    )
    return wrong, line

"""What lies between the calls of a GPU batch: as much as without a candidate, or work is hidden there.

A candidate may write its own marks where and when it likes, but every call lies between two gaps that only the judge's
own kernels should fill. Compared with a calibration in a runner that never loaded a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentcore.judge.cuda_batches import BatchTimes
from agentcore.judge.statistics import interquartile_mean

HIDDEN_GAP_US, HIDDEN_FLUSH_US, HIDDEN_GAP_RATIO = 1.0, 4.0, 0.02
HIDDEN_ALWAYS_US, HIDDEN_OPENING_US = 2.0, 6.0
FLUSH_SHARE = 0.8
WRITE_BACK_BYTES_PER_US = 4e6
"""How much longer than calibrated the gap after an end mark may be before it counts as hidden work (a constant, and a
share of the call's own time), how much of a flush must be seen between calls, and how fast it writes back at least.
After a pause: how late every begin mark may be, and how late on average, since a gate is slow to open at times.
"""
OPENED_US, OPENED_RATIO = 2.0, 0.05
"""How much longer a call after a pause may take than the others."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Without a candidate, after a call that wrote as many bytes; µs, named as in BatchTimes."""

    gap: float
    flush_gap: float
    opening: float

    @classmethod
    def of(cls, times: BatchTimes) -> Expected:
        return cls(
            interquartile_mean(times.gaps), interquartile_mean(times.flush_gaps),
            interquartile_mean(times.flush_openings),
        )


def hidden_work(times: BatchTimes, expected: Expected, l2_bytes: int) -> tuple[list[str], str]:
    """(what is wrong, one line saying how long the gaps were). ``times`` must hold some gaps of every kind."""
    latency = interquartile_mean(times.latencies)
    share = HIDDEN_GAP_RATIO * latency
    after = interquartile_mean(times.gaps) - expected.gap
    flush = interquartile_mean(times.flush_gaps)
    flushed = flush - expected.flush_gap
    # After a pause nothing is dirty, so that no write-back excuses a late mark.
    late = interquartile_mean(times.flush_openings) - expected.opening
    always = min(times.flush_openings) - expected.opening
    longer = interquartile_mean(times.opened) - latency
    wrong: list[str] = []
    if after > HIDDEN_GAP_US + share:
        wrong.append(f"the next begin mark comes {after:.2f} µs late after an end mark: work is hidden behind it")
    # A flush also writes back what a call left dirty in the cache, temporaries included: at most the whole cache.
    if flushed > l2_bytes / WRITE_BACK_BYTES_PER_US + HIDDEN_FLUSH_US + share:
        wrong.append(f"begin marks come {flushed:.2f} µs late after a flush: work is hidden before the mark")
    if flush < FLUSH_SHARE * expected.flush_gap:
        wrong.append(
            f"clearing the cache between calls took {flush:.1f} µs, without a candidate {expected.flush_gap:.1f} µs: it"
            " was tampered with"
        )
    if late > HIDDEN_OPENING_US + share or always > HIDDEN_ALWAYS_US + share:
        wrong.append(
            f"begin marks come {late:.2f} µs late, {always:.2f} µs at least, after a gate opens: work is hidden before"
            " them"
        )
    if longer > OPENED_US + OPENED_RATIO * latency:
        wrong.append(f"calls after a pause take {longer:.2f} µs longer than the others: theirs is hidden in the gaps")
    line = (
        f"against the calibration: end mark to next begin mark {after:+.2f} µs, with a flush between {flushed:+.2f} µs,"
        f" gate to begin mark {late:+.2f} µs, at least {always:+.2f} µs; calls after a pause {longer:+.2f} µs"
    )
    return wrong, line


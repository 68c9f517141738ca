"""Medians, intervals and comparisons of latencies. Pure arithmetic over microseconds."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and its 95 % bootstrap interval, µs."""

    median: float
    low: float
    high: float


def estimate(samples: Sequence[float], *, resamples: int = 300) -> Estimate:
    """Median with a percentile-bootstrap interval (Efron 1979). One sample has no spread: low = high = it.

    Raises ValueError on no samples. Deterministic: the resampling has a fixed seed, so that a record re-read gives
    the same interval.
    """
    if not samples:
        raise ValueError("no samples to estimate a latency from")
    middle = statistics.median(samples)
    if len(samples) == 1:
        return Estimate(middle, middle, middle)
    draw = random.Random(len(samples))
    medians = sorted(statistics.median(draw.choices(samples, k=len(samples))) for _ in range(resamples))
    return Estimate(middle, medians[int(0.025 * resamples)], medians[min(resamples - 1, int(0.975 * resamples))])

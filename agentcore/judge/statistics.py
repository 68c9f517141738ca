"""Estimates and intervals of latencies. Pure arithmetic over microseconds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """An interquartile mean and its 95 % bootstrap interval, µs."""

    value: float
    low: float
    high: float


def interquartile_mean(samples: Sequence[float]) -> float:
    """The mean of the middle half: as deaf to outliers as the median, with half its variance on jittered clocks.

    Raises ValueError on no samples.
    """
    if not samples:
        raise ValueError("no samples to estimate a latency from")
    ordered = sorted(samples)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


def estimate(samples: Sequence[float], *, resamples: int = 200) -> Estimate:
    """Interquartile mean with a percentile-bootstrap interval (Efron 1979). One sample has no spread.

    Raises ValueError on no samples. Deterministic: the resampling has a fixed seed, so that a record re-read gives
    the same interval.
    """
    middle = interquartile_mean(samples)
    if len(samples) == 1:
        return Estimate(middle, middle, middle)
    draw = random.Random(len(samples))
    means = sorted(interquartile_mean(draw.choices(samples, k=len(samples))) for _ in range(resamples))
    return Estimate(middle, means[int(0.025 * resamples)], means[min(resamples - 1, int(0.975 * resamples))])

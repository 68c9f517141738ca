"""Estimates and intervals of latencies, and of means of a few repetitions. Pure arithmetic."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Estimate:
    """A middle and its 95 % interval: of latencies µs, else the unit of what was averaged."""

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


STUDENT_T_975 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201,
    12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093, 20: 2.086, 25: 2.060,
    30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980,
}
"""The 97.5 % quantile of Student's t by degrees of freedom (any table; the next smaller entry is used in between)."""

MIN_ROUNDS = 6
"""Fewest repetitions that can carry a 95 % statement: the range of n of them misses the median once in 2^(n-1)."""


def mean_interval(values: Sequence[float], *, resamples: int = 10_000) -> Estimate:
    """The mean of a few repetitions with a 95 % bootstrap interval over them, in the unit of ``values``.

    The plain percentile bootstrap (Efron 1979) is too narrow for few repetitions: it misses the n/(n-1) of the variance
    and the tails of Student's t. The *expanded* percentile interval takes quantiles further out, at
    Φ(-sqrt(n/(n-1))·t(n-1)) (Hesterberg, The American Statistician 69, 2015, 371-386). Below MIN_ROUNDS repetitions
    no resampling can reach 95 %; then it is Student's interval, whose width says so. One value has no interval: both
    limits are infinite. Raises ValueError on no values. Deterministic, as :func:`estimate` is.
    """
    count = len(values)
    if not count:
        raise ValueError("no repetitions to average")
    mean = sum(values) / count
    if count == 1:
        return Estimate(mean, -math.inf, math.inf)
    quantile = STUDENT_T_975[max(df for df in STUDENT_T_975 if df <= count - 1)]
    if count < MIN_ROUNDS:
        half = quantile * math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count)
        return Estimate(mean, mean - half, mean + half)
    draw = random.Random(count)
    means = sorted(sum(draw.choices(values, k=count)) / count for _ in range(resamples))
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * quantile)
    return Estimate(mean, means[int(tail * resamples)], means[min(resamples - 1, int((1 - tail) * resamples))])

"""What one evaluation measured, and whether another one differs from it beyond the noise.

Not for scores against the bound (``agentcore.bounds.score``): an agent that climbs needs only "is it faster, surely?".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NOISE_FLOOR = 0.01
"""Two evaluations of one kernel differ by about this much even where each one's own interval is narrower."""

_Z95 = 1.96


class Outcome(StrEnum):
    IMPROVED = "improved"
    UNPROVEN = "unproven"
    REGRESSED = "regressed"


@dataclass(frozen=True, slots=True)
class Interval:
    """A latency in microseconds, an interquartile mean, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def log_sigma(self) -> float:
        """Standard deviation of the logarithm, from the interval's width."""
        return max(0.0, math.log(self.high / self.low)) / (2 * _Z95)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The latencies of the public workloads of one passed evaluation, by workload uuid."""

    latencies: Mapping[str, Interval]

    @classmethod
    def from_evaluation(cls, evaluation: Mapping[str, Any]) -> Measurement | None:
        """Read an evaluation in the protocol's JSON; None where nothing counts (not passed, or no latency)."""
        if evaluation.get("verdict") != "passed":
            return None
        latencies = {}
        for workload in evaluation.get("workloads") or ():
            value = workload.get("latency_us")
            if workload.get("heldout") or not isinstance(value, int | float) or value <= 0:
                continue
            low, high = workload.get("latency_low_us") or value, workload.get("latency_high_us") or value
            latencies[str(workload["uuid"])] = Interval(float(value), min(low, value), max(high, value))
        return cls(latencies) if latencies else None

    @property
    def geomean_us(self) -> float:
        return _geomean(interval.value for interval in self.latencies.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """``speedup`` is old time / new time over the shared workloads, with its 95 % interval."""

    outcome: Outcome
    speedup: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.outcome} ({self.speedup:.3f}×, interval {self.low:.3f}–{self.high:.3f})"


def compare(new: Measurement, old: Measurement) -> Comparison:
    """Whether ``new`` is faster than ``old`` beyond both their noise, over the workloads both measured.

    Raises ValueError when they share none (another problem, or other workloads).
    """
    shared = sorted(new.latencies.keys() & old.latencies.keys())
    if not shared:
        raise ValueError("the two evaluations measured no workload in common")
    logs = [math.log(old.latencies[uuid].value / new.latencies[uuid].value) for uuid in shared]
    variance = sum(new.latencies[u].log_sigma ** 2 + old.latencies[u].log_sigma ** 2 for u in shared)
    mean = sum(logs) / len(shared)
    margin = max(math.log1p(NOISE_FLOOR), _Z95 * math.sqrt(variance) / len(shared))
    if mean > margin:
        outcome = Outcome.IMPROVED
    elif mean < -margin:
        outcome = Outcome.REGRESSED
    else:
        outcome = Outcome.UNPROVEN
    return Comparison(outcome, math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))


def _geomean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))

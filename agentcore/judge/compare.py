"""Whether one evaluation is faster than another: improved, unproven or regressed, or why they cannot be compared.

A ratio is old time / new time, above 1 where the new one is faster. Everything happens on logarithms, where a ratio is
a difference and a geometric mean a mean. An interval holds 95 % of

- the noise within each run, from the bootstrap interval that the evaluation stored per workload. The distances of the
  estimates from their limits are recovered and added in quadrature, upper and lower apart, so that lopsided intervals
  stay so (MOVER: Zou and Donner, Statistics in Medicine 27, 2008, 1693-1702);
- the noise from run to run (noise.py), for each of the two runs: a share of the time, an offset, the host's load.

An improvement is a ratio whose whole interval lies above 1. Over the workloads the logarithms are averaged: noise
within a run is independent from workload to workload and averages out, noise from run to run is common and does not.

Only measurements with a comparable stamp are compared: see :func:`differences`. Imports neither torch nor Django.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from agentcore.judge.noise import Z_95, delay_us, repeatability, run_limits
from agentcore.judge.result import EnvironmentStamp, EvaluationResult
from agentcore.vocabulary import Change, Language, Verdict

ASSUMED_SPREAD = 0.03
"""Relative half-width assumed for a latency that came without an interval."""

_BOUND_TO_TORCH = (Language.TORCH, Language.TRITON)
"""Languages whose kernels run or compile through the torch installation; other kernels never meet it."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One workload's latency, µs, with its 95 % interval where one was recorded."""

    us: float
    low_us: float | None = None
    high_us: float | None = None
    index: int = 0
    axes: Mapping[str, int] | None = None
    method: str = ""

    @property
    def below(self) -> float:
        """How far the lower limit lies under the estimate, as a difference of logarithms."""
        return math.log(self.us / self.low_us) if self.low_us and 0 < self.low_us <= self.us else self._assumed

    @property
    def above(self) -> float:
        """How far the upper limit lies over the estimate, as a difference of logarithms."""
        return math.log(self.high_us / self.us) if self.high_us and self.high_us >= self.us else self._assumed

    @property
    def _assumed(self) -> float:
        return math.log1p(ASSUMED_SPREAD)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a comparison needs to know of one evaluation. ``latencies`` are of the public workloads, by uuid."""

    verdict: str
    problem: str
    problem_digest: str
    language: str
    stamp: EnvironmentStamp
    latencies: Mapping[str, Latency]

    @classmethod
    def of(cls, result: EvaluationResult) -> Measured:
        """From the judge's own record."""
        return cls(
            result.verdict.value, result.problem, result.problem_digest, result.language.value, result.stamp,
            {
                w.uuid: Latency(w.latency_us, w.latency_low_us, w.latency_high_us, w.index, w.axes, w.timing_method)
                for w in result.workloads if not w.heldout and w.latency_us
            },
        )

    @classmethod
    def from_protocol(cls, evaluation: Mapping[str, Any], problem: str, language: str) -> Measured | None:
        """From an evaluation in the protocol's JSON; None where nothing counts (not passed, no latency, no hardware).

        ``problem`` and ``language`` are those of the attempt it belongs to.
        """
        if evaluation.get("verdict") != Verdict.PASSED.value:
            return None
        latencies = {}
        for workload in evaluation.get("workloads") or ():
            value = workload.get("latency_us")
            if not workload.get("heldout") and isinstance(value, int | float) and value > 0:
                latencies[str(workload["uuid"])] = Latency(
                    float(value), workload.get("latency_low_us"), workload.get("latency_high_us"),
                    workload.get("index") or 0, workload.get("axes"), workload.get("timing_method") or "",
                )
        stamp = {"hardware": evaluation.get("hardware"), **(evaluation.get("stamp") or {})}
        try:
            known = EnvironmentStamp.model_validate(stamp)
        except ValidationError:
            return None
        digest = str(evaluation.get("problem_digest") or "")
        return cls(Verdict.PASSED.value, problem, digest, language, known, latencies) if latencies else None

    @property
    def geomean_us(self) -> float:
        """The geometric mean of the latencies, µs. Raises ValueError where there are none."""
        if not self.latencies:
            raise ValueError("no latencies to average")
        return math.exp(sum(math.log(latency.us) for latency in self.latencies.values()) / len(self.latencies))


@dataclass(frozen=True, slots=True)
class WorkloadComparison:
    """One workload: ``ratio`` is ``old_us / new_us``, above 1 where the new one is faster, with its 95 % interval."""

    uuid: str
    index: int
    axes: Mapping[str, int]
    old_us: float
    new_us: float
    ratio: float
    low: float
    high: float
    change: Change


@dataclass(frozen=True, slots=True)
class Comparison:
    """``ratio`` is the geometric mean of old/new over the shared public workloads, with its 95 % interval.

    ``reasons`` say why two evaluations are incomparable; then there is no ratio. ``notes`` are differences that do not
    forbid the comparison and a reader should know.
    """

    change: Change
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    workloads: tuple[WorkloadComparison, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.ratio is None:
            return f"{self.change}: {'; '.join(self.reasons)}"
        return f"{self.change} ({self.ratio:.3f}×, interval {self.low:.3f}–{self.high:.3f})"


def compare(new: Measured, old: Measured) -> Comparison:
    """Whether ``new`` is faster than ``old`` beyond the noise of both. Neither is assumed better measured."""
    reasons = [f"the {which} one did not pass ({side.verdict})" for which, side in (("new", new), ("old", old))
               if side.verdict != Verdict.PASSED.value]
    reasons += differences(new, old)
    shared = [uuid for uuid in new.latencies if uuid in old.latencies]
    if not reasons and not shared:
        reasons.append("the two evaluations share no workload")
    if reasons:
        return Comparison(Change.INCOMPARABLE, reasons=tuple(reasons))
    pairs = [_Pair(uuid, new.latencies[uuid], old.latencies[uuid]) for uuid in shared]
    workloads = tuple(_workload(pair, _interval([pair], new.stamp, old.stamp)) for pair in pairs)
    ratio, low, high = _interval(pairs, new.stamp, old.stamp)
    return Comparison(change_of(low, high), ratio, low, high, workloads, notes=tuple(_notes(new, old, len(pairs))))


def between_runs(comparison: Comparison) -> Comparison:
    """A comparison of two evaluations of one kernel: whatever the interval, it proves no change of the kernel."""
    if comparison.change is Change.INCOMPARABLE:
        return comparison
    note = "both are the same kernel (one kernel_digest): the difference is between two runs of the machine"
    return replace(
        comparison, change=Change.UNPROVEN, notes=(note, *comparison.notes),
        workloads=tuple(replace(w, change=Change.UNPROVEN) for w in comparison.workloads),
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    uuid: str
    new: Latency
    old: Latency


def _interval(pairs: list[_Pair], new: EnvironmentStamp, old: EnvironmentStamp) -> tuple[float, float, float]:
    """The geometric mean of old/new over ``pairs`` and its limits, from all the noise there is."""
    count = len(pairs)
    mean = sum(math.log(pair.old.us / pair.new.us) for pair in pairs) / count
    known = repeatability(new)
    share = Z_95 * math.sqrt(2 * known.share**2 + (known.unit_share**2 if new.device_uuid != old.device_uuid else 0.0))
    new_above, new_below = run_limits(new, [pair.new.us for pair in pairs])
    old_above, old_below = run_limits(old, [pair.old.us for pair in pairs])
    # The ratio is too high where the old time is, or the new one too low; and the other way round.
    down = math.hypot(share, old_above, new_below, *(math.hypot(p.old.below, p.new.above) / count for p in pairs))
    up = math.hypot(share, new_above, old_below, *(math.hypot(p.old.above, p.new.below) / count for p in pairs))
    return math.exp(mean), math.exp(mean - down), math.exp(mean + up)


def differences(new: Measured, old: Measured) -> list[str]:
    """What makes the numbers of two evaluations incomparable, in words; empty where they may be compared.

    Always: problem and its version, hardware, device model, harness version, sandbox. The driver on GPUs. The number of
    threads on CPUs. The version of torch where either kernel runs or compiles through it.
    """
    a, b = new.stamp, old.stamp
    pairs: list[tuple[str, object, object]] = [
        ("problem", new.problem, old.problem),
        ("hardware", a.hardware.value, b.hardware.value),
        ("device model", a.device_name, b.device_name),
        ("harness version", a.harness_version, b.harness_version),
        ("sandbox", a.sandbox, b.sandbox),
    ]
    if new.problem == old.problem:
        pairs.insert(1, ("version of the problem", new.problem_digest[:12], old.problem_digest[:12]))
    if a.hardware.is_gpu:
        pairs.append(("driver", a.driver, b.driver))
    else:
        pairs.append(("number of threads", a.threads, b.threads))
    if {new.language, old.language} & {language.value for language in _BOUND_TO_TORCH}:
        pairs.append(("torch", a.torch, b.torch))
    return [f"another {name}: {_named(x)} against {_named(y)}" for name, x, y in pairs if x != y]


def _named(value: object) -> str:
    return str(value) if value not in ("", None) else "not recorded"


def _workload(pair: _Pair, limits: tuple[float, float, float]) -> WorkloadComparison:
    ratio, low, high = limits
    return WorkloadComparison(
        pair.uuid, pair.new.index, pair.new.axes or {}, pair.old.us, pair.new.us, ratio, low, high, change_of(low, high)
    )


def change_of(low: float, high: float) -> Change:
    """What an interval of a ratio old / new proves."""
    if low > 1:
        return Change.IMPROVED
    return Change.REGRESSED if high < 1 else Change.UNPROVEN


def _notes(new: Measured, old: Measured, shared: int) -> Iterator[str]:
    if new.stamp.device_uuid != old.stamp.device_uuid:
        yield "measured on two devices of one model: the interval allows for what such devices differ by"
    for side, which in ((new, "new"), (old, "old")):
        if len(side.latencies) != shared:
            yield f"only {shared} of the {which} one's {len(side.latencies)} workloads are shared"
    for side, which in ((new, "new"), (old, "old")):
        if delay := delay_us(side.stamp):
            load = side.stamp.host_load
            busy = f"used {load.others_share:.0%} of its cores" if load else "were not watched"
            yield f"others on the host {busy} while the {which} one was measured: up to {delay:.0f} µs are allowed for"
    if new.language == old.language and new.stamp.compiler != old.stamp.compiler:
        yield "built by different compilers: the difference may be theirs"
    methods = {w.method for side in (new, old) for w in side.latencies.values() if w.method}
    if len(methods) > 1:
        yield f"timed in different ways ({', '.join(sorted(methods))}): wall time includes launching and waiting"


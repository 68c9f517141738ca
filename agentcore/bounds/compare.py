"""Our bounds beside the benchmark's published ones and beside measured times, and what explains each difference.

A published bound behaves as 0.4 µs + max(FLOPs / peak, bytes / memory rate). Each cause below is a change of our own
numbers that would give the published one: a difference is put down to the first cause that does so within a tenth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.bounds.bound import bound_from_work
from agentcore.bounds.count import Work
from agentcore.bounds.hardware import rate_table
from agentcore.judge.result import EvaluationResult
from agentcore.problems.loading import Problem
from agentcore.problems.tensors import input_specs, output_specs
from agentcore.problems.workload import Workload
from agentcore.vocabulary import HardwareName

OFFICIAL_CONSTANT_US = 0.4
"""What the published bounds add to the larger of their two times."""

_AGREES = 0.10
_UNITS = ("fp4", "fp8", "half", "tf32", "fp32")
AGREES = "agrees within 10 %"
UNEXPLAINED_ABOVE, UNEXPLAINED_BELOW = "ours is higher, not explained", "ours is lower, not explained"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload: µs of ours and of the published bound and baseline, and why the two bounds differ."""

    problem: str
    uuid: str
    ours_us: float
    official_us: float
    baseline_us: float | None
    cause: str

    @property
    def ratio(self) -> float:
        """Ours, with the constant the published ones include, over the published one."""
        return (self.ours_us + OFFICIAL_CONSTANT_US) / self.official_us

    @property
    def is_above_baseline(self) -> bool:
        """Whether the bound exceeds the time published for a kernel."""
        return self.baseline_us is not None and self.ours_us > self.baseline_us


def compare(
    problem: Problem,
    workload: Workload,
    hardware: HardwareName,
    work: Work,
    official_us: float,
    baseline_us: float | None,
    profile: str | None = None,
) -> Comparison:
    """Set our bound of counted ``work`` beside the published one and name the cause of the difference."""
    ours = bound_from_work(problem, workload, hardware, work, profile=profile).t_sol_us
    cause = _cause(problem, workload, hardware, work, ours, official_us, profile)
    return Comparison(problem.name, workload.uuid, ours, official_us, baseline_us, cause)


def _cause(
    problem: Problem, workload: Workload, hardware: HardwareName, work: Work, ours: float, official: float,
    profile: str | None,
) -> str:  # fmt: skip
    if _near(ours, official):
        return AGREES
    higher = ours + OFFICIAL_CONSTANT_US > official
    for cause, us in _explanations(problem, workload, hardware, work, profile, higher):
        if _near(us, official):
            return cause
    if higher:
        return UNEXPLAINED_ABOVE
    for note in work.notes:
        if "mask made from content" in note or "only feed another" in note or "only indices computed" in note:
            return f"ours is lower: {note.partition(':')[0]}"
    return UNEXPLAINED_BELOW


def _near(us: float, official: float) -> bool:
    # Published numbers are rounded to a tenth of a microsecond.
    return abs(us + OFFICIAL_CONSTANT_US - official) <= max(_AGREES * official, 0.05)


def _explanations(
    problem: Problem, workload: Workload, hardware: HardwareName, work: Work, profile: str | None, higher: bool
) -> Iterator[tuple[str, float]]:
    rates = {name: rate.value for name, rate in rate_table(hardware).rates(profile).items()}
    record = bound_from_work(problem, workload, hardware, work, profile=profile)
    products = record.resource_us["products"]
    flops = sum(work.flops.values())
    moved = work.input_bytes | work.output_bytes
    specs = {**input_specs(problem, workload), **output_specs(problem, workload)}
    whole = {n: math.prod(shape) * dtype.itemsize for n, (shape, dtype) in specs.items() if shape is not None}
    wide = {n for n, (shape, dtype) in specs.items() if shape is not None and dtype.itemsize >= 4}

    def memory(sizes: dict[str, int]) -> float:
        return sum(sizes.values()) / rates["memory"] * 1e6

    def with_products(us: float) -> float:
        return max(us, products)

    def at_two_bytes(sizes: dict[str, int]) -> dict[str, int]:
        return {n: round(size / specs[n][1].itemsize * 2) for n, size in sizes.items()}

    if whole != moved:
        yield "official counts whole tensors of which a part is needed", with_products(memory(whole))
        yield "official counts whole tensors, at two bytes per element", with_products(memory(at_two_bytes(whole)))
    if wide:
        halved = {n: size // 2 if n in wide and specs[n][1].itemsize == 4 else size for n, size in moved.items()}
        yield "official counts 4-byte tensors at 2 bytes per element", with_products(memory(halved))
    yield "official counts every tensor at 2 bytes per element", with_products(memory(at_two_bytes(moved)))
    if flops:
        for unit in _UNITS:
            if unit in rates:
                us = flops / rates[unit] * 1e6
                what = f"official takes products at the {unit} rate"
                yield what, max(us, memory(moved))
                yield f"{what}, tensors at 2 bytes", max(us, memory(at_two_bytes(moved)))
        if not higher:
            if any(word in problem.reference for word in ("mask", "causal", "tril", "triu")):
                what = "official counts all products of attention that is masked by half"
                yield what, max(products * 2, memory(moved))
            if "conv" in problem.reference:
                what = "official counts convolutions directly, ours by a minimal algorithm"
                yield what, max(products * 4, memory(moved))
    if higher:
        yield "official counts the bytes alone", memory(moved)
        for name in sorted(moved, key=lambda n: -moved[n]):
            part = {n: size for n, size in moved.items() if n != name}
            what = "output" if name in work.output_bytes else "input"
            yield f"official leaves out one {what}", with_products(memory(part))
            yield f"official leaves out one {what}, others at 2 bytes", with_products(memory(at_two_bytes(part)))
        read = {n: size for n, size in moved.items() if n in work.input_bytes}
        written = {n: size for n, size in moved.items() if n in work.output_bytes}
        yield "official counts inputs alone", with_products(memory(read))
        yield "official counts outputs alone", with_products(memory(written))
        yield "official counts inputs alone, at 2 bytes", with_products(memory(at_two_bytes(read)))
        scales = {n: size for n, size in moved.items() if "scale" not in n}
        yield "official leaves out the scales", with_products(memory(scales))


def summary(comparisons: Iterable[Comparison]) -> list[tuple[str, int]]:
    """How many workloads each cause explains, most first."""
    return Counter(c.cause for c in comparisons).most_common()


@dataclass(frozen=True, slots=True)
class Headroom:
    """A measured time (µs) of one workload over its bound: what of it the hardware would need."""

    problem: str
    uuid: str
    what: str
    latency_us: float
    bound_us: float

    @property
    def factor(self) -> float:
        return self.latency_us / self.bound_us


def recorded_times(directory: Path, hardware: HardwareName) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Problem, what was measured, and µs by workload uuid, of every passed result on ``hardware`` below ``directory``.

    Files that are no evaluation results are passed over.
    """
    for file in sorted(directory.rglob("*.json")):
        try:
            result = EvaluationResult.model_validate_json(file.read_text("utf-8"))
        except ValueError:
            continue
        if result.hardware is not hardware or result.verdict != "passed":
            continue
        times = {w.uuid: w.latency_us for w in result.workloads if w.latency_us and not w.heldout}
        yield result.problem, str(file.relative_to(directory).with_suffix("")), times




"""Our bounds beside the benchmark's published ones and beside measured times; ``causes`` explains each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.bounds.bound import bound_from_work
from agentcore.bounds.causes import Case, cause, constant_us, writes_outputs
from agentcore.bounds.count import Work
from agentcore.bounds.hardware import rate_table
from agentcore.judge.result import EvaluationResult
from agentcore.problems.loading import Problem
from agentcore.problems.official import official_of
from agentcore.problems.workload import Workload
from agentcore.vocabulary import HardwareName


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload: µs of ours and of the published bound and baseline, and why the two bounds differ.

    ``constant_us``: what the published bounds of the problem include beside work. ``unlike_ours``: how the published
    kernel's time is not one of a kernel that writes each output to memory of its own, as ours must; empty if it may be.
    """

    problem: str
    uuid: str
    ours_us: float
    official_us: float
    baseline_us: float | None
    cause: str
    constant_us: float
    unlike_ours: str = ""

    @property
    def ratio(self) -> float:
        """Ours, with the constant the published ones include, over the published one."""
        return (self.ours_us + self.constant_us) / self.official_us

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
    published = official_of(problem)
    record = bound_from_work(problem, workload, hardware, work, profile=profile)
    case = Case(problem, workload, hardware, work, profile, official_us, published)
    unlike = ""
    if baseline_us is not None and record.t_sol_us > baseline_us:
        rate = rate_table(hardware).rates(profile)["memory"].value
        memory_us = record.resource_us["memory"] - work.unmoved_bytes / rate * 1e6
        without_copies = max(record.resource_us["products"], memory_us)
        if work.unmoved_bytes and without_copies <= baseline_us:
            unlike = "returns views or writes into its inputs"
        elif not writes_outputs(problem, published, rate):
            unlike = "takes less than writing the outputs does"
    constant = constant_us(published)
    return Comparison(
        problem.name, workload.uuid, record.t_sol_us, official_us, baseline_us, cause(case), constant, unlike
    )


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




"""What the numbers say: current baselines, best attempts, running best, comparisons and campaign summaries.

Reads only. An attempt's *standing* evaluation on a hardware is its newest finished measurement (a rerun supersedes what
came before, `infra_error` supersedes nothing). An improvement counts only beyond the noise of both measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import F, OuterRef, QuerySet, Subquery

from agentcore.bounds import score
from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation, WorkloadResult
from portal.problems.models import Problem

DEFAULT_NOISE = 0.03
"""Relative half-width assumed for a latency that came without a confidence interval."""


def standing_evaluations(**attempt_filter) -> QuerySet[Evaluation]:
    """The newest finished measurement of each attempt and hardware, `infra_error` aside, of the current problem."""
    newest = (
        Evaluation.objects.filter(
            attempt=OuterRef("attempt"), hardware=OuterRef("hardware"), kind=Evaluation.Kind.MEASURE,
            state=Evaluation.State.DONE,
        )
        .exclude(verdict=Verdict.INFRA_ERROR.value)
        .order_by("-finished_at", "-id")
    )
    return Evaluation.objects.filter(
        **{f"attempt__{key}": value for key, value in attempt_filter.items()},
        state=Evaluation.State.DONE,
        pk=Subquery(newest.values("pk")[:1]),
    )


def passed_evaluations(problem, hardware: str, *, digest: str | None = None, **attempt_filter) -> QuerySet[Evaluation]:
    """Standing evaluations that passed, measured on the problem as it is now (or with ``digest``)."""
    return standing_evaluations(problem=problem, **attempt_filter).filter(
        hardware=hardware,
        verdict=Verdict.PASSED.value,
        problem_digest=digest if digest is not None else problem.digest,
        latency_geomean_us__isnull=False,
    )


def current_baseline(problem, hardware: str, *, digest: str | None = None) -> Evaluation | None:
    """The fastest verified baseline of ``problem`` on ``hardware``: its times are T_b."""
    return (
        passed_evaluations(problem, hardware, digest=digest, kind=Attempt.Kind.BASELINE)
        .order_by("latency_geomean_us", "id")
        .prefetch_related("workloads")
        .first()
    )


def best_evaluation(problem, language: str, hardware: str, *, campaign=None) -> Evaluation | None:
    """The best agent's attempt: highest SOL score, or lowest latency while there is no baseline to score against."""
    wanted = {"language": language, "kind": Attempt.Kind.AGENT} | ({"campaign": campaign} if campaign else {})
    return (
        passed_evaluations(problem, hardware, **wanted)
        .order_by(F("sol_score").desc(nulls_last=True), "latency_geomean_us", "id")
        .select_related("attempt__agent", "attempt__problem")
        .first()
    )


def latest_evaluation(attempt: Attempt, hardware: str | None = None) -> Evaluation | None:
    """What to show for an attempt: the newest evaluation, with a duplicate replaced by the one it points at."""
    evaluations = attempt.evaluations.filter(kind=Evaluation.Kind.MEASURE)
    evaluations = evaluations.select_related("duplicate_of").order_by("-queued_at", "-id")
    if hardware:
        evaluations = evaluations.filter(hardware=hardware)
    newest = evaluations.first()
    return newest.duplicate_of if newest and newest.duplicate_of else newest


class Change(StrEnum):
    """How a measurement stands to an earlier one, noise included."""

    IMPROVED = "improved"
    UNPROVEN = "unproven"
    REGRESSED = "regressed"
    INCOMPARABLE = "incomparable"


@dataclass(frozen=True, slots=True)
class WorkloadComparison:
    uuid: str
    index: int
    axes: dict
    old_us: float
    new_us: float
    ratio: float
    """old / new: above 1 is faster."""
    low: float
    high: float
    change: Change


@dataclass(frozen=True, slots=True)
class Comparison:
    """``new`` against ``old`` over the public workloads; ``ratio`` is the geometric mean of old/new, with interval."""

    change: Change
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    workloads: tuple[WorkloadComparison, ...] = ()
    warnings: tuple[str, ...] = ()
    """Differences of device, harness or problem that make the comparison less than exact."""


def compare(new: Evaluation, old: Evaluation) -> Comparison:
    """Compare two evaluations. Neither side is assumed better measured: both intervals count.

    Incomparable where either did not pass or they share no workload. Different stamps are compared with a warning.
    """
    if Verdict.PASSED.value != new.verdict or Verdict.PASSED.value != old.verdict:
        return Comparison(Change.INCOMPARABLE, warnings=("only passed evaluations carry times that count",))
    before = {row.uuid: row for row in old.workloads.all() if not row.heldout and row.latency_us}
    pairs = [(row, before[row.uuid]) for row in new.workloads.all()
             if not row.heldout and row.latency_us and row.uuid in before]
    if not pairs:
        return Comparison(Change.INCOMPARABLE, warnings=("the two evaluations share no workload",))
    workloads = tuple(_compare_workload(row, earlier) for row, earlier in pairs)
    mean = sum(math.log(w.ratio) for w in workloads) / len(workloads)
    # Workloads are measured independently, so their half-widths add in quadrature.
    half = math.sqrt(sum((math.log(w.high / w.low) / 2) ** 2 for w in workloads)) / len(workloads)
    low, high = math.exp(mean - half), math.exp(mean + half)
    return Comparison(
        _change(low, high), math.exp(mean), low, high, workloads, tuple(_stamp_warnings(new, old, len(pairs)))
    )


def _compare_workload(new: WorkloadResult, old: WorkloadResult) -> WorkloadComparison:
    assert new.latency_us
    assert old.latency_us
    ratio = old.latency_us / new.latency_us
    half = math.hypot(_noise(new), _noise(old))
    low, high = ratio * math.exp(-half), ratio * math.exp(half)
    return WorkloadComparison(
        new.uuid, new.index, new.axes, old.latency_us, new.latency_us, ratio, low, high, _change(low, high)
    )


def _noise(row: WorkloadResult) -> float:
    """Half the width of the logarithm's confidence interval."""
    low, high = row.latency_low_us, row.latency_high_us
    if not low or not high or high < low:
        return math.log1p(DEFAULT_NOISE)
    return math.log(high / low) / 2


def _change(low: float, high: float) -> Change:
    if low > 1:
        return Change.IMPROVED
    return Change.REGRESSED if high < 1 else Change.UNPROVEN


def _stamp_warnings(new: Evaluation, old: Evaluation, shared: int) -> Iterable[str]:
    for name, label in (
        ("hardware", "hardware"), ("device_uuid", "device"), ("harness_version", "harness version"),
        ("problem_digest", "version of the problem"),
    ):
        if getattr(new, name) != getattr(old, name):
            yield f"measured with a different {label}"
    for evaluation in (new, old):
        if (count := sum(not row.heldout for row in evaluation.workloads.all())) != shared:
            yield f"only {shared} of {count} workloads are shared"


@dataclass(frozen=True, slots=True)
class Point:
    """One finished attempt in the history of a problem, in order of finishing."""

    evaluation_id: int
    commit: str
    agent: str
    subject: str
    at: datetime
    verdict: str
    latency_us: float | None
    speedup: float | None
    sol_score: float | None
    is_new_best: bool
    best_sol_score: float | None
    """The running best after this attempt; it moves only when an attempt improved beyond the noise."""
    best_speedup: float | None


def running_best(problem, language: str, hardware: str, *, campaign=None) -> list[Point]:
    """The history of a problem in one language on one hardware, with the best so far at each point."""
    wanted = {"language": language, "kind": Attempt.Kind.AGENT} | ({"campaign": campaign} if campaign else {})
    evaluations = (
        standing_evaluations(problem=problem, **wanted)
        .filter(hardware=hardware)
        .order_by("finished_at", "id")
        .select_related("attempt__agent")
        .defer("result")
        .prefetch_related("workloads")
    )
    points: list[Point] = []
    best: Evaluation | None = None
    for evaluation in evaluations:
        counts = (
            evaluation.verdict == Verdict.PASSED.value
            and evaluation.problem_digest == problem.digest
            and evaluation.latency_geomean_us is not None
        )
        is_new_best = counts and (best is None or compare(evaluation, best).change is Change.IMPROVED)
        if is_new_best:
            best = evaluation
        points.append(
            Point(
                evaluation.pk, evaluation.attempt.commit, evaluation.attempt.agent.name, evaluation.attempt.subject,
                evaluation.finished_at or evaluation.queued_at, evaluation.verdict, evaluation.latency_geomean_us,
                evaluation.speedup if counts else None, evaluation.sol_score if counts else None, is_new_best,
                best.sol_score if best else None, best.speedup if best else None,
            )
        )
    return points


@dataclass(frozen=True, slots=True)
class ProblemStanding:
    """Where one problem of a campaign stands: its best attempt, if any passed."""

    problem: Problem
    attempts: int
    passed: int
    best: Evaluation | None

    @property
    def speedup(self) -> float | None:
        return self.best.speedup if self.best else None

    @property
    def sol_score(self) -> float | None:
        return self.best.sol_score if self.best else None


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """The figures of a campaign. Shares are of all its problems; means are over the problems that have a score."""

    problems: tuple[ProblemStanding, ...] = ()
    attempts: int = 0
    passed: int = 0
    waiting: int = 0
    geomean_speedup: float | None = None
    median_sol: float | None = None
    share_beating_baseline: float = 0.0
    share_above_2x: float = 0.0
    scored: int = 0
    """How many problems have an attempt with a score."""


def campaign_summary(campaign) -> CampaignSummary:
    """Best attempt per problem and the campaign's figures, from a fixed number of queries."""
    problems = list(campaign.problems.order_by("name"))
    standing = (
        standing_evaluations(campaign=campaign, language=campaign.language, kind=Attempt.Kind.AGENT)
        .filter(hardware=campaign.hardware)
        .select_related("attempt__agent", "attempt__problem")
        .defer("result")
        .order_by(F("sol_score").asc(nulls_first=True), F("latency_geomean_us").desc(nulls_first=True), "-id")
    )
    best: dict[int, Evaluation] = {}
    passed: dict[int, int] = {}
    for evaluation in standing:
        problem = evaluation.attempt.problem
        if evaluation.verdict == Verdict.PASSED.value and evaluation.latency_geomean_us is not None:
            passed[problem.pk] = passed.get(problem.pk, 0) + 1
            if evaluation.problem_digest == problem.digest:
                best[problem.pk] = evaluation
    attempts: dict[int, int] = {}
    for problem_id in campaign.attempts.filter(kind=Attempt.Kind.AGENT).values_list("problem_id", flat=True):
        attempts[problem_id] = attempts.get(problem_id, 0) + 1
    rows = tuple(
        ProblemStanding(problem, attempts.get(problem.pk, 0), passed.get(problem.pk, 0), best.get(problem.pk))
        for problem in problems
    )
    figures = score.campaign_summary(
        {
            row.problem.name: score.ProblemScore(True, row.sol_score, row.speedup)
            if row.sol_score is not None and row.speedup is not None else None
            for row in rows
        }
    )
    return CampaignSummary(
        problems=rows,
        attempts=sum(attempts.values()),
        passed=sum(passed.values()),
        waiting=Evaluation.objects.filter(
            attempt__campaign=campaign, hardware=campaign.hardware,
            state__in=[Evaluation.State.QUEUED, Evaluation.State.RUNNING],
        ).count(),
        geomean_speedup=figures.geomean_speedup,
        median_sol=figures.median_sol,
        share_beating_baseline=figures.beats_baseline,
        share_above_2x=figures.above_2x,
        scored=figures.solved,
    )

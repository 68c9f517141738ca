"""What the numbers say: current baselines, best attempts and campaign summaries.

Reads only. An attempt's *standing* evaluation on a hardware is its newest finished measurement (a rerun supersedes what
came before, `infra_error` supersedes nothing). An improvement counts only beyond the noise of both measurements
(see comparisons.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from agentcore.bounds import score
from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations import baselines
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem


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


def verdict_counts(hardware: str, **attempt_filter) -> Counter[str]:
    """How many attempts ended with each verdict: that of the standing evaluation, else as `unmeasured_counts` says."""
    standing = standing_evaluations(**attempt_filter).filter(hardware=hardware)
    return unmeasured_counts(hardware, **attempt_filter) + Counter(
        dict(standing.order_by().values_list("verdict").annotate(n=Count("id")))
    )


def unmeasured_counts(hardware: str, **attempt_filter) -> Counter[str]:
    """How many attempts without a standing evaluation ended how: they were only compiled, or it was nobody's fault."""
    standing = standing_evaluations(**attempt_filter).filter(hardware=hardware)
    rest = Evaluation.objects.filter(
        **{f"attempt__{key}": value for key, value in attempt_filter.items()}, hardware=hardware,
        kind__in=[Evaluation.Kind.MEASURE, Evaluation.Kind.COMPILE], state=Evaluation.State.DONE,
    ).exclude(attempt__in=standing.values("attempt"))
    return Counter(dict(rest.order_by().values_list("verdict").annotate(n=Count("attempt", distinct=True))))


def passed_evaluations(problem, hardware: str, *, digest: str | None = None, **attempt_filter) -> QuerySet[Evaluation]:
    """Standing evaluations that passed, measured on the problem as it is now (or with ``digest``)."""
    return standing_evaluations(problem=problem, **attempt_filter).filter(
        hardware=hardware,
        verdict=Verdict.PASSED.value,
        problem_digest=digest if digest is not None else problem.digest,
        latency_geomean_us__isnull=False,
    )


def current_baseline(
    problem, hardware: str, *, digest: str | None = None, rule: Sequence[str] = ()
) -> Evaluation | None:
    """The verified baseline of ``problem`` on ``hardware`` that is the fastest as a whole, of those ``rule`` admits.

    T_b of a workload may be another one's time: see baselines.py.
    """
    found = baselines.admitted(baselines.verified_baselines(problem, hardware, digest=digest), rule)
    return found[0].evaluation if found else None


def baseline_geomean_us(best: Evaluation | None, verified: Sequence[baselines.Verified]) -> float | None:
    """The geometric mean over public workloads of T_b, µs: of those that the score of ``best`` was made with.

    Without a score, of what ``verified`` gives now. None where no workload has a T_b. A single baseline's own mean is
    another figure wherever T_b is not the same baseline's on every workload.
    """
    if best is not None and best.speedup is not None:
        times = [row.baseline_us for row in best.workloads.all() if not row.heldout and row.baseline_us]
    else:
        times = [bar.us for (_, heldout), bar in baselines.bars(verified).items() if not heldout]
    return score.geomean(times) if times else None


def best_evaluation(
    problem, language: str, hardware: str, *, campaign=None, **attempt_filter
) -> Evaluation | None:
    """The best agent's attempt: highest SOL score, or lowest latency while there is no baseline to score against."""
    wanted = {"language": language, "kind": Attempt.Kind.AGENT} | ({"campaign": campaign} if campaign else {})
    wanted |= attempt_filter
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
    problems = list(campaign.problems.order_by("name").defer("definition", "reference", "brief"))
    ended = standing_evaluations(
        campaign=campaign, language=campaign.language, kind=Attempt.Kind.AGENT
    ).filter(hardware=campaign.hardware, verdict=Verdict.PASSED.value, latency_geomean_us__isnull=False)
    passed = dict(ended.order_by().values_list("attempt__problem").annotate(n=Count("id")))
    leading = (
        ended.filter(problem_digest=F("attempt__problem__digest"))
        .annotate(place=Window(
            RowNumber(), partition_by=[F("attempt__problem_id")],
            order_by=[F("sol_score").desc(nulls_last=True), F("latency_geomean_us").asc(), F("id").asc()],
        ))
        .filter(place=1).select_related("attempt__agent", "attempt__problem")
        .defer("result", "attempt__body", "attempt__hypothesis", "attempt__problem__definition",
               "attempt__problem__reference", "attempt__problem__brief")
    )
    best = {evaluation.attempt.problem_id: evaluation for evaluation in leading}
    attempts = dict(
        campaign.attempts.filter(kind=Attempt.Kind.AGENT).order_by().values_list("problem_id").annotate(n=Count("id"))
    )
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
            state__in=Evaluation.PENDING,
        ).count(),
        geomean_speedup=figures.geomean_speedup,
        median_sol=figures.median_sol,
        share_beating_baseline=figures.beats_baseline,
        share_above_2x=figures.above_2x,
        scored=figures.solved,
    )

"""Scores: from times, bounds and T_b to columns, with every score kept beside the T_b it was made with.

Scores are relative to baselines, so they are computed again: for one evaluation when it finishes, for all of a problem
when one of its baselines finishes, for a campaign's attempts when its rule changes (rescoring.py). The recorded results
are never touched. Not for which baseline counts (baselines.py) nor for reading (scores.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet

from agentcore.bounds.score import geomean, sol_score
from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations import baselines
from portal.evaluations.baselines import Verified
from portal.evaluations.models import Evaluation, ScoreRecord, WorkloadResult
from portal.problems.models import Problem

_BATCH = 500
_ROWS_AT_ONCE = 10_000


def score_new(evaluation: Evaluation) -> None:
    """Score a just recorded measurement; where it is a baseline, everything else of its problem too."""
    attempt = evaluation.attempt
    is_anothers = evaluation.verdict != Verdict.PASSED.value and Evaluation.objects.filter(
        duplicate_of__attempt=attempt, attempt__kind=Attempt.Kind.BASELINE, hardware=evaluation.hardware
    ).exists()  # an adopted baseline is the same program, and has just been found wrong
    if attempt.kind == Attempt.Kind.BASELINE or is_anothers:
        refresh_scores(attempt.problem, evaluation.hardware, evaluation.problem_digest)
    elif evaluation.verdict == Verdict.PASSED.value:
        with transaction.atomic():
            _one_at_a_time(attempt.problem)
            found = baselines.verified_baselines(
                attempt.problem, evaluation.hardware, digest=evaluation.problem_digest
            )
            _score([evaluation], found)


def refresh_scores(problem, hardware: str, digest: str | None = None, **attempt_filter) -> int:
    """Score every passed evaluation of ``problem`` on ``hardware`` against the baselines as they are; returns how many.

    ``attempt_filter`` leaves attempts out, such as ``campaign=…``.
    """
    count, last = 0, 0
    while done := refresh_some(problem, hardware, last, digest, **attempt_filter):
        count, last = count + len(done), done[-1]
    return count


def refresh_some(problem, hardware: str, after: int, digest: str | None = None, **attempt_filter) -> list[int]:
    """As refresh_scores, for the next few evaluations above number ``after``; their numbers, none at the end.

    One short transaction, whatever there is to score: so many that their workloads are some thousands.
    """
    digest = digest if digest is not None else problem.digest
    rows: QuerySet[Evaluation] = Evaluation.objects.filter(
        **{f"attempt__{key}": value for key, value in attempt_filter.items()}, pk__gt=after,
        attempt__problem=problem, hardware=hardware, kind=Evaluation.Kind.MEASURE, problem_digest=digest,
        state=Evaluation.State.DONE, verdict=Verdict.PASSED.value,
    ).select_related("attempt__problem", "attempt__campaign").defer(
        "result", "attempt__body", "attempt__hypothesis", "attempt__problem__definition", "attempt__problem__reference",
        "attempt__problem__brief",
    ).prefetch_related("workloads").order_by("pk")
    with transaction.atomic():
        _one_at_a_time(problem)
        some = list(rows[: max(1, min(_BATCH, _ROWS_AT_ONCE // max(1, problem.workloads.count())))])
        if some:
            _score(some, baselines.verified_baselines(problem, hardware, digest=digest))
    return [row.pk for row in some]


def _one_at_a_time(problem) -> None:
    """Wait for whoever scores ``problem`` and has not committed: else neither would see what the other adds."""
    Problem.objects.select_for_update().only("pk").get(pk=problem.pk)


@dataclass(frozen=True, slots=True)
class _Scored:
    evaluation: Evaluation
    rows: list[WorkloadResult]
    changed: list[WorkloadResult]
    rule: list[str]

    def record(self) -> ScoreRecord:
        """The score as it is kept: the figures, and per workload T_b and whose time it is."""
        workloads: list[dict[str, Any]] = [
            {
                "uuid": row.uuid, "heldout": row.heldout, "baseline_us": row.baseline_us,
                "baseline": row.baseline_id, "kind": row.baseline_kind, "sol_score": row.sol_score,
            }
            for row in self.rows
        ]
        return ScoreRecord(
            evaluation=self.evaluation, rule=self.rule, baseline=self.evaluation.baseline,
            speedup=self.evaluation.speedup, sol_score=self.evaluation.sol_score, workloads=workloads,
        )


def _score(evaluations: Sequence[Evaluation], verified: Sequence[Verified]) -> int:
    scored = [_scored(evaluation, verified) for evaluation in evaluations]
    WorkloadResult.objects.bulk_update(
        [row for each in scored for row in each.changed], ["baseline_us", "baseline", "baseline_kind", "sol_score"],
        batch_size=_BATCH,
    )
    Evaluation.objects.bulk_update(evaluations, ["baseline", "speedup", "sol_score"], batch_size=_BATCH)
    kept = _newest_records(evaluations)
    made = [each.record() for each in scored]
    ScoreRecord.objects.bulk_create(
        [record for record in made if record.says_other_than(kept.get(record.evaluation_id))], batch_size=_BATCH
    )
    return len(scored)


def _scored(evaluation: Evaluation, verified: Sequence[Verified]) -> _Scored:
    """The evaluation with its scores set, nothing saved."""
    campaign = evaluation.attempt.campaign
    rule = list(campaign.baseline_kinds) if campaign else []
    pool = baselines.comparable(evaluation, baselines.admitted(verified, rule))
    bars = baselines.bars(pool)
    rows, changed = list(evaluation.workloads.all()), []
    for row in rows:
        before = (row.baseline_us, row.baseline_id, row.baseline_kind, row.sol_score)
        bar = bars.get((row.uuid, row.heldout))
        row.baseline_us, row.baseline = (bar.us, bar.of.evaluation) if bar else (None, None)
        row.baseline_kind = bar.of.kind if bar else ""
        row.sol_score = (
            sol_score(row.latency_us, bar.us, row.t_sol_us) if bar and row.latency_us and row.t_sol_us else None
        )
        if (row.baseline_us, row.baseline_id, row.baseline_kind, row.sol_score) != before:
            changed.append(row)
    public = [row for row in rows if not row.heldout]
    evaluation.baseline = pool[0].evaluation if pool else None
    evaluation.speedup = _all(geomean, (_ratio(row) for row in public))
    evaluation.sol_score = _all(lambda found: sum(found) / len(found), (row.sol_score for row in public))
    return _Scored(evaluation, rows, changed, rule)


def _ratio(row: WorkloadResult) -> float | None:
    return row.baseline_us / row.latency_us if row.baseline_us and row.latency_us else None


def _all(figure, values: Iterable[float | None]) -> float | None:
    """The figure over the values where every one is known."""
    found = list(values)
    return figure(found) if found and None not in found else None


def _newest_records(evaluations: Sequence[Evaluation]) -> dict[int, ScoreRecord]:
    found: dict[int, ScoreRecord] = {}
    ids = [evaluation.pk for evaluation in evaluations]
    for start in range(0, len(ids), _BATCH):
        newest = (
            ScoreRecord.objects.filter(evaluation__in=ids[start:start + _BATCH]).order_by().values("evaluation")
            .annotate(newest=Max("id")).values("newest")
        )
        found |= {record.evaluation_id: record for record in ScoreRecord.objects.filter(pk__in=newest)}
    return found

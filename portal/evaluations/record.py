"""From an `EvaluationResult` to rows, and from rows to scores.

The recorded ``result`` is never edited. Scores are relative to the current baseline, so they are the one thing that is
computed again: for one evaluation when it finishes, for all of a problem when a faster baseline is verified.
Not for deciding who may write (queue.py) nor for reading (scores.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from agentcore.bounds.score import geomean, sol_score
from agentcore.judge.result import Check, EnvironmentStamp, EvaluationResult
from agentcore.vocabulary import Verdict
from portal.evaluations import scores
from portal.evaluations.models import CheckResult, Device, Evaluation, WorkloadResult
from portal.text import storable, storable_json

MESSAGE_LIMIT = 4000


def store(evaluation: Evaluation, result: EvaluationResult) -> None:
    """Write the outcome of ``evaluation``: columns, workload rows, checks, device and scores, in one transaction.

    The row's state and lease are the queue's business. Raises ValueError if the row already carries a result.
    """
    with transaction.atomic():
        written = Evaluation.objects.filter(pk=evaluation.pk, result__isnull=True).update(
            verdict=result.verdict.value,
            message=storable(result.message, MESSAGE_LIMIT),
            harness_version=storable(result.stamp.harness_version, 32),
            problem_digest=storable(result.problem_digest, 64),
            device_uuid=storable(result.stamp.device_uuid, 80),
            result=storable_json(result.model_dump(mode="json")),
            stamp=storable_json(result.stamp.model_dump(mode="json")),
            latency_geomean_us=_latency_geomean(result),
        )
        if not written:
            raise ValueError(f"evaluation {evaluation.pk} already has a result; a recorded result is never edited")
        WorkloadResult.objects.bulk_create(_workload_rows(evaluation, result))
        CheckResult.objects.bulk_create(_check_rows(evaluation, result))
        _see_device(result)
        evaluation.refresh_from_db()
        if evaluation.kind == Evaluation.Kind.MEASURE:
            _score_new(evaluation)


def refresh_scores(problem, hardware: str, digest: str | None = None) -> int:
    """Score every passed evaluation of ``problem`` on ``hardware`` against the current baseline; returns how many."""
    digest = digest if digest is not None else problem.digest
    baseline = scores.current_baseline(problem, hardware, digest=digest)
    evaluations = Evaluation.objects.filter(
        attempt__problem=problem, hardware=hardware, kind=Evaluation.Kind.MEASURE, problem_digest=digest,
        state=Evaluation.State.DONE, verdict=Verdict.PASSED.value,
    ).prefetch_related("workloads")
    count = 0
    with transaction.atomic():
        for evaluation in evaluations:
            _score(evaluation, baseline)
            count += 1
    return count


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _latency_geomean(result: EvaluationResult) -> float | None:
    """Geometric mean of the public workloads' latencies; None unless all were measured."""
    latencies = [_finite(w.latency_us) for w in result.workloads if not w.heldout]
    if not latencies or any(value is None or value <= 0 for value in latencies):
        return None
    return geomean([value for value in latencies if value])


def _workload_rows(evaluation: Evaluation, result: EvaluationResult) -> Iterable[WorkloadResult]:
    for workload in result.workloads:
        yield WorkloadResult(
            evaluation=evaluation,
            uuid=storable(workload.uuid, 64),
            index=workload.index,
            axes=storable_json(dict(workload.axes)),
            heldout=workload.heldout,
            verdict=workload.verdict.value,
            latency_us=_finite(workload.latency_us),
            latency_low_us=_finite(workload.latency_low_us),
            latency_high_us=_finite(workload.latency_high_us),
            t_sol_us=_finite(workload.bound.t_sol_us) if workload.bound else None,
        )


def _check_rows(evaluation: Evaluation, result: EvaluationResult) -> Iterable[CheckResult]:
    def row(check: Check, index: int | None) -> CheckResult:
        return CheckResult(
            evaluation=evaluation, workload_index=index, name=check.name.value, status=check.status.value,
            message=storable(check.message, MESSAGE_LIMIT),
        )

    yield from (row(check, None) for check in result.checks)
    for workload in result.workloads:
        yield from (row(check, workload.index) for check in workload.checks)


def device_fields(stamp: EnvironmentStamp) -> dict[str, str]:
    """A device's row as a result's stamp describes it, without its uuid and when it was seen."""
    return {
        "hardware": stamp.hardware.value,
        "name": storable(stamp.device_name or stamp.device_uuid, 200),
        "host": storable(stamp.host, 200),
        "driver": storable(stamp.driver, 80),
        "sandbox": storable(stamp.sandbox, 40),
    }


def _see_device(result: EvaluationResult) -> None:
    stamp = result.stamp
    if stamp.device_uuid:
        Device.objects.update_or_create(
            uuid=storable(stamp.device_uuid, 80),
            defaults={**device_fields(stamp), "last_seen_at": timezone.now()},
        )


def _score_new(evaluation: Evaluation) -> None:
    """Score a just recorded evaluation, and everything else of its problem where it moved the baseline."""
    attempt = evaluation.attempt
    baseline = scores.current_baseline(attempt.problem, evaluation.hardware, digest=evaluation.problem_digest)
    if attempt.kind == attempt.Kind.BASELINE:
        scored_by = (
            Evaluation.objects.filter(
                attempt__problem=attempt.problem, hardware=evaluation.hardware, kind=Evaluation.Kind.MEASURE,
                problem_digest=evaluation.problem_digest, verdict=Verdict.PASSED.value,
            )
            .exclude(pk=evaluation.pk).order_by().values_list("baseline_id", flat=True).distinct()
        )
        if any(pk != (baseline.pk if baseline else None) for pk in scored_by):
            refresh_scores(attempt.problem, evaluation.hardware, evaluation.problem_digest)
            return
    if evaluation.verdict == Verdict.PASSED.value:
        _score(evaluation, baseline)


def _score(evaluation: Evaluation, baseline: Evaluation | None) -> None:
    times = {w.uuid: w.latency_us for w in baseline.workloads.all() if not w.heldout} if baseline else {}
    held = {w.uuid: w.latency_us for w in baseline.workloads.all() if w.heldout} if baseline else {}
    rows = list(evaluation.workloads.all())
    ratios: list[float | None] = []
    marks: list[float | None] = []
    for row in rows:
        row.baseline_us = (held if row.heldout else times).get(row.uuid)
        row.sol_score = None
        if row.latency_us and row.baseline_us and row.t_sol_us:
            row.sol_score = sol_score(row.latency_us, row.baseline_us, row.t_sol_us)
        if not row.heldout:
            ratios.append(row.baseline_us / row.latency_us if row.baseline_us and row.latency_us else None)
            marks.append(row.sol_score)
    WorkloadResult.objects.bulk_update(rows, ["baseline_us", "sol_score"])
    Evaluation.objects.filter(pk=evaluation.pk).update(
        baseline=baseline,
        speedup=geomean([r for r in ratios if r]) if ratios and all(ratios) else None,
        sol_score=sum(m for m in marks if m is not None) / len(marks)
        if marks and all(m is not None for m in marks) else None,
    )

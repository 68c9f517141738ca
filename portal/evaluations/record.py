"""From an `EvaluationResult` to rows. The recorded ``result`` is never edited.

Not for deciding who may write (queue.py), for scores (scoring.py) nor for reading (scores.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from agentcore.bounds.score import geomean
from agentcore.judge.result import Check, EnvironmentStamp, EvaluationResult
from portal.evaluations import scoring
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
            scoring.score_new(evaluation)


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
        # A held-out workload's index is also that of another one; the message says that it is held out.
        index = None if workload.heldout else workload.index
        yield from (row(check, index) for check in workload.checks)


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

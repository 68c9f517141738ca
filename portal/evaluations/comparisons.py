"""Two evaluations compared by the rule of agentcore.judge.compare, from rows: no stored result is read.

An old time over a new one, above 1 where the new one is faster. Reads only.
"""

from __future__ import annotations

from django.db.models import QuerySet
from pydantic import ValidationError

from agentcore.judge.compare import Comparison, Latency, Measured
from agentcore.judge.compare import compare as compare_measured
from agentcore.judge.compare import differences as measured_differences
from agentcore.judge.result import EnvironmentStamp
from portal.evaluations.models import Evaluation

_HEAVY = ("result", "message", "attempt__body", "attempt__hypothesis", "attempt__problem__definition",
          "attempt__problem__reference", "attempt__problem__brief", "attempt__problem__description")


def ready(evaluations: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    """With all that :func:`compare` reads, in two queries however many there are."""
    return (
        evaluations.select_related("attempt__agent", "attempt__problem").defer(*_HEAVY).prefetch_related("workloads")
    )


def compare(new: Evaluation, old: Evaluation) -> Comparison:
    """Whether ``new`` is faster than ``old`` beyond the noise of both; incomparable with the reasons where it cannot
    be said. Held-out workloads do not count.
    """
    return compare_measured(measured(new), measured(old))


def differences(one: Evaluation, other: Evaluation) -> list[str]:
    """What makes the numbers of two evaluations incomparable, in words; empty where they may be compared."""
    return measured_differences(measured(one), measured(other))


def measured(evaluation: Evaluation) -> Measured:
    """What a comparison needs to know of an evaluation."""
    attempt = evaluation.attempt
    return Measured(
        verdict=evaluation.verdict or evaluation.state,
        problem=attempt.problem.name,
        problem_digest=evaluation.problem_digest,
        language=attempt.language,
        stamp=stamp(evaluation),
        latencies={
            row.uuid: Latency(row.latency_us, row.latency_low_us, row.latency_high_us, row.index, row.axes)
            for row in evaluation.workloads.all() if not row.heldout and row.latency_us
        },
    )


def stamp(evaluation: Evaluation) -> EnvironmentStamp:
    """The environment it was measured in; where no stamp can be read, what the columns say, the rest not recorded."""
    known = {
        "hardware": evaluation.hardware, "device_uuid": evaluation.device_uuid,
        "harness_version": evaluation.harness_version,
    }
    try:
        return EnvironmentStamp.model_validate({**known, **(evaluation.stamp or {})})
    except (ValidationError, TypeError, ValueError):
        return EnvironmentStamp.model_validate(known)

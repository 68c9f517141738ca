"""Measuring again what was measured: one evaluation, one attempt, or everything of a problem. New rows, old ones stay.

Not for who may ask: views and the admin check that.
"""

from __future__ import annotations

from django.db import transaction

from portal.attempts.models import Attempt
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.problems.models import Problem


def rerun_evaluation(evaluation: Evaluation, user) -> Evaluation:
    """Queue the attempt again, for the same on the same hardware; returns the row already waiting if there is one."""
    return _rerun(
        evaluation.attempt, evaluation.hardware, user, f"rerun of evaluation {evaluation.pk}", evaluation.kind
    )


def rerun_attempt(attempt: Attempt, user, reason: str = "rerun of the attempt") -> list[Evaluation]:
    """Queue the attempt's measurement again on every hardware it was asked to run on."""
    measured = attempt.evaluations.filter(kind=Evaluation.Kind.MEASURE)
    names = measured.order_by("hardware").values_list("hardware", flat=True).distinct()
    return [_rerun(attempt, hardware, user, reason) for hardware in names]


def rerun_problem(problem: Problem, user) -> list[Evaluation]:
    """Queue every attempt of the problem again, baselines first (after a new harness or a changed problem)."""
    attempts = problem.attempts.select_related("problem", "agent").order_by("id")
    ordered = sorted(attempts, key=lambda attempt: attempt.kind != Attempt.Kind.BASELINE)
    reason = f"rerun of {problem.name}"
    return [evaluation for attempt in ordered for evaluation in rerun_attempt(attempt, user, reason)]


def _rerun(
    attempt: Attempt, hardware: str, user, reason: str, kind: str = Evaluation.Kind.MEASURE
) -> Evaluation:
    with transaction.atomic():
        pending = attempt.evaluations.filter(hardware=hardware, kind=kind, state__in=Evaluation.PENDING)
        waiting = pending.order_by("id").first()
        if waiting is not None:
            queue.let_go_on(waiting, user)
            return waiting
        evaluation = queue.enqueue(
            attempt, hardware, kind=kind, priority=Evaluation.Priority.RERUN, reason=reason, requested_by=user
        )
        log_event(
            "evaluation.rerun", user, attempt=attempt, evaluation=evaluation, problem=attempt.problem,
            hardware=hardware, reason=reason,
        )
    return evaluation

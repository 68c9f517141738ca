"""The work queue: `Evaluation` rows are the truth about work, django-q2 messages only say "there may be work".

A worker *claims* a row with one conditional UPDATE that sets a random lease token, an expiry and raises the claim
counter. Everything it writes later is conditional on that token, so a worker that lost its lease can no longer change
anything. `reap` puts rows with an expired lease back (or, after ``EVALUATION_MAX_CLAIMS`` claims, ends them as
``infra_error``). Not for judging (worker.py) nor for turning a result into rows (record.py).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

from agentcore.judge.result import EnvironmentStamp, EvaluationResult
from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.evaluations import record
from portal.evaluations.compiling import COMPILING
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.problems.models import Problem

logger = logging.getLogger(__name__)

MESSAGE_LIMIT = 4000
_CANDIDATES_PER_LOOK = 16


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to finish one evaluation, for as long as the lease is renewed in time."""

    evaluation_id: int
    token: str
    number: int
    """Which claim of this evaluation this is: 1 for the first."""

    @property
    def is_last(self) -> bool:
        """True where no other worker may try again after this claim."""
        return self.number >= settings.EVALUATION_MAX_CLAIMS


def cluster_name(hardware: HardwareName | str, kind: str = Evaluation.Kind.MEASURE) -> str:
    """The django-q2 cluster that serves a hardware class. That of ``cpu`` is served by the portal's own one too."""
    return COMPILING if kind == Evaluation.Kind.COMPILE else HardwareName(hardware).value


def wake(hardware: HardwareName | str, kind: str = Evaluation.Kind.MEASURE) -> None:
    """Tell the cluster of ``hardware`` that there may be work. Inside a transaction it is part of it (an outbox)."""
    cluster = cluster_name(hardware, kind)
    task = "compile_queued" if cluster == COMPILING else "work"
    arguments = () if cluster == COMPILING else (HardwareName(hardware).value,)
    async_task(f"portal.evaluations.tasks.{task}", *arguments, cluster=cluster, group="work", save=False)


def enqueue(
    attempt,
    hardware: HardwareName | str,
    *,
    kind: str = Evaluation.Kind.MEASURE,
    against=None,
    priority: int = Evaluation.Priority.AGENT,
    reason: str = "",
    requested_by=None,
) -> Evaluation:
    """Queue one evaluation of ``attempt``: the row and its wake-up message in one transaction.

    ``against`` is the attempt that a ``compare`` compares it with, and None of every other kind.
    """
    hardware = HardwareName(hardware)
    with transaction.atomic():
        evaluation = Evaluation.objects.create(
            attempt=attempt, hardware=hardware.value, kind=kind, against=against, priority=priority,
            reason=reason[:200], requested_by=requested_by, problem_digest=attempt.problem.digest,
        )
        wake(hardware, kind)
    return evaluation


def claim(
    hardware: HardwareName | str, worker: str, kinds: Collection[str] = (Evaluation.Kind.MEASURE,)
) -> Claim | None:
    """Take the most urgent queued evaluation of ``hardware`` of one of these ``kinds``, or None.

    What a paused campaign holds back is passed over.
    Each row goes to exactly one caller. Whoever claims a kind must do what that kind asks for.
    """
    while True:
        now = timezone.now()
        candidates = list(
            _claimable(hardware, kinds, now).exclude(Evaluation.held_back())
            .order_by("-priority", "queued_at", "id")
            .values_list("id", flat=True)[:_CANDIDATES_PER_LOOK]
        )
        if not candidates:
            return None
        for evaluation_id in candidates:
            token = secrets.token_hex(16)
            taken = _claimable(hardware, kinds, now).filter(pk=evaluation_id).update(
                state=Evaluation.State.RUNNING,
                lease_token=token,
                lease_expires_at=now + _lease(),
                claims=F("claims") + 1,
                claimed_by=worker[:200],
                started_at=now,
                message="",  # why it waited, or waits again, is over
            )
            if taken:
                number = Evaluation.objects.values_list("claims", flat=True).get(pk=evaluation_id)
                return Claim(evaluation_id, token, number)


def renew(claim: Claim) -> bool:
    """Extend the lease. False means it is lost: stop working on it, nothing more will be accepted."""
    return bool(_held(claim).update(lease_expires_at=timezone.now() + _lease()))


def finish(claim: Claim, result: EvaluationResult) -> bool:
    """Record ``result`` if the claim still holds the lease. False: refused, and nothing was written."""
    with transaction.atomic():
        # The conditional UPDATE comes first: it takes the row lock, so no reaper or second worker gets between.
        if not _held(claim).update(
            state=Evaluation.State.DONE, lease_expires_at=None, not_before=None, finished_at=timezone.now()
        ):
            logger.warning("late result for evaluation %s refused: its lease is gone", claim.evaluation_id)
            return False
        evaluation = Evaluation.objects.select_related("attempt__problem").get(pk=claim.evaluation_id)
        record.store(evaluation, result)
        log_event(
            "evaluation.finished", evaluation.claimed_by or "system", attempt=evaluation.attempt,
            evaluation=evaluation, problem=evaluation.attempt.problem, verdict=result.verdict.value,
            hardware=evaluation.hardware, claims=evaluation.claims,
        )
    return True


def give_up(claim: Claim, message: str) -> bool:
    """The worker could not judge (no fault of the attempt known): queue again after a pause, or end it for good.

    After the last allowed claim the evaluation is finished as ``infra_error`` with ``message``. False: lease lost.
    """
    if claim.is_last:
        evaluation = Evaluation.objects.select_related("attempt__problem").get(pk=claim.evaluation_id)
        return finish(claim, infra_error(evaluation, message))
    pause = timedelta(seconds=settings.EVALUATION_RETRY_PAUSE_S * claim.number)
    return release(claim, message, pause=pause)


def hand_back(claim: Claim, message: str) -> bool:
    """This host could not begin, and the evaluation has no part in it: queue again after a pause, and count no claim.

    So no outage ends an evaluation, however long it lasts. False: the lease was already lost.
    """
    return release(claim, message, pause=timedelta(seconds=settings.EVALUATION_RETRY_PAUSE_S), counted=False)


def release(
    claim: Claim, message: str = "", *, pause: timedelta = timedelta(0), counted: bool = True
) -> bool:
    """Put a claimed row back into the queue, claimable after ``pause``. False: the lease was already lost."""
    with transaction.atomic():
        released = bool(
            _held(claim).update(
                state=Evaluation.State.QUEUED, lease_token="", lease_expires_at=None, started_at=None,
                message=message[:MESSAGE_LIMIT], not_before=timezone.now() + pause if pause else None,
                claims=F("claims") if counted else F("claims") - 1,
            )
        )
        if released:
            _log_system("evaluation.requeued", claim.evaluation_id, message=message[:500], claims=claim.number)
            if not pause:
                wake(*Evaluation.objects.values_list("hardware", "kind").get(pk=claim.evaluation_id))
    return released


def reap(now: datetime | None = None) -> list[int]:
    """Requeue (or end, after too many claims) every running evaluation whose lease expired. Returns their ids."""
    now = now or timezone.now()
    reaped = []
    stale = Evaluation.objects.filter(state=Evaluation.State.RUNNING, lease_expires_at__lt=now)
    for evaluation in stale.select_related("attempt__problem"):
        claim = Claim(evaluation.pk, evaluation.lease_token, evaluation.claims)
        # A lease renewed since the query above has a later expiry: leave it alone.
        still_stale = _held(claim).filter(lease_expires_at__lt=now)
        message = (
            f"{evaluation.claimed_by or 'the worker'} stopped renewing its lease "
            f"(claim {evaluation.claims} of {settings.EVALUATION_MAX_CLAIMS})"
        )
        if evaluation.claims < settings.EVALUATION_MAX_CLAIMS:
            with transaction.atomic():
                changed = still_stale.update(
                    state=Evaluation.State.QUEUED, lease_token="", lease_expires_at=None, started_at=None,
                    message=message,
                )
                if changed:
                    _log_system("evaluation.requeued", evaluation.pk, message=message, claims=evaluation.claims)
                    wake(evaluation.hardware, evaluation.kind)
        else:
            changed = still_stale.exists() and finish(claim, infra_error(evaluation, message))
        if changed:
            logger.warning("evaluation %s: %s", evaluation.pk, message)
            reaped.append(evaluation.pk)
    return reaped


def let_go_on(evaluation: Evaluation, user) -> bool:
    """A person asks for what a paused campaign holds back: it goes on as what people ask for. False: it was not held.

    The row is the agent's own, so nothing is measured twice.
    """
    if not evaluation.waits:
        return False
    with transaction.atomic():
        changed = bool(
            Evaluation.objects.filter(pk=evaluation.pk, state=Evaluation.State.QUEUED).update(
                priority=Evaluation.Priority.RERUN, requested_by=user
            )
        )
        if changed:
            log_event(
                "evaluation.rerun", user, attempt=evaluation.attempt, evaluation=evaluation,
                problem=evaluation.attempt.problem, hardware=evaluation.hardware, reason=evaluation.waits,
            )
            wake(evaluation.hardware, evaluation.kind)
    return changed


def cancel(evaluation: Evaluation, actor) -> bool:
    """Take a queued evaluation out of the queue. False where it is no longer queued.

    The first attempt with the same kernel, which waited for it as its duplicate, takes its place.
    """
    with transaction.atomic():
        Problem.objects.select_for_update().get(pk=evaluation.attempt.problem_id)  # nobody finds it meanwhile
        cancelled = bool(
            Evaluation.objects.filter(pk=evaluation.pk, state=Evaluation.State.QUEUED).update(
                state=Evaluation.State.CANCELLED, finished_at=timezone.now()
            )
        )
        if cancelled:
            log_event("evaluation.cancelled", actor, attempt=evaluation.attempt, evaluation=evaluation)
            _succeed(evaluation)
    return cancelled


def _succeed(cancelled: Evaluation) -> None:
    """Queue the first duplicate of a cancelled evaluation, and have the others wait for that."""
    duplicates = Evaluation.objects.filter(duplicate_of=cancelled, state=Evaluation.State.DUPLICATE)
    heir = duplicates.order_by("id").first()
    if heir is None:
        return
    Evaluation.objects.filter(pk=heir.pk).update(state=Evaluation.State.QUEUED, duplicate_of=None)
    duplicates.update(duplicate_of=heir)
    _log_system("evaluation.requeued", heir.pk, message=f"evaluation {cancelled.pk} was cancelled", claims=0)
    wake(heir.hardware, heir.kind)


def wake_all() -> list[str]:
    """Wake every cluster that has claimable rows but no message waiting; makes up for lost ones. Returns which."""
    now = timezone.now()
    due = (
        Evaluation.objects.filter(_due(now), state=Evaluation.State.QUEUED).exclude(Evaluation.held_back())
        .order_by().values_list("hardware", "kind").distinct()
    )
    # A locked message is in the hands of a cluster, or was when that cluster died: it does not count as waiting.
    waiting = set(OrmQ.objects.filter(lock__lte=now).values_list("key", flat=True))
    wanted = {cluster_name(*row): row for row in due}
    woken = sorted(wanted.keys() - waiting)
    for cluster in woken:
        wake(*wanted[cluster])
    return woken


def infra_error(evaluation: Evaluation, message: str) -> EvaluationResult:
    """The result of an evaluation that could not be judged through no known fault of the attempt."""
    hardware = HardwareName(evaluation.hardware)
    return EvaluationResult(
        problem=evaluation.attempt.problem.name,
        problem_digest=evaluation.attempt.problem.digest,
        language=Language(evaluation.attempt.language),
        hardware=hardware,
        verdict=Verdict.INFRA_ERROR,
        message=message[:MESSAGE_LIMIT],
        stamp=EnvironmentStamp(hardware=hardware, harness_version=HARNESS_VERSION),
        started_at=evaluation.started_at or datetime.now(UTC),
    )


def _lease() -> timedelta:
    return timedelta(seconds=settings.EVALUATION_LEASE_S)


def _due(now: datetime) -> Q:
    return Q(not_before__isnull=True) | Q(not_before__lte=now)


def _claimable(hardware: HardwareName | str, kinds: Collection[str], now: datetime):
    return Evaluation.objects.filter(
        _due(now), state=Evaluation.State.QUEUED, hardware=HardwareName(hardware).value, kind__in=kinds
    )


def _held(claim: Claim):
    return Evaluation.objects.filter(
        pk=claim.evaluation_id, state=Evaluation.State.RUNNING, lease_token=claim.token
    )


def _log_system(kind: str, evaluation_id: int, **data) -> None:
    evaluation = Evaluation.objects.select_related("attempt__problem").get(pk=evaluation_id)
    log_event(
        kind, "system", attempt=evaluation.attempt, evaluation=evaluation, problem=evaluation.attempt.problem, **data
    )

"""Sanitizer runs before a merge: which one counts for a kernel, asking for one, and taking responsibility for findings.

A run is demanded where the host that measured the kernel has a sanitizer for it (its stamp says so), and what a run
found always counts. Findings are no verdict on the kernel's results: an engineer may acknowledge them, with a reason,
which is an event of its own. Not for running anything (agentcore.sanitizer) nor for pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from agentcore.sanitizer.tools import tools_for
from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.attempts.models import Attempt
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.events.models import log as log_event
from portal.text import storable

ACKNOWLEDGED = "sanitizer.acknowledged"
REASON_LIMIT = 1000


class NotAcknowledged(ValueError):
    """There is nothing to acknowledge, or no reason was given; the message says which."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a kernel on one hardware: ``run`` is the newest finished run, ``waiting`` one still to come."""

    hardware: str
    tools: tuple[str, ...]
    run: Evaluation | None
    waiting: Evaluation | None
    acknowledgement: Event | None

    @property
    def demanded(self) -> bool:
        return bool(self.tools)

    @property
    def clean(self) -> bool:
        return self.run is not None and self.run.verdict == Verdict.CLEAN.value

    @property
    def needs_reason(self) -> bool:
        """A run ended otherwise than clean, and nobody has taken responsibility for that yet."""
        return self.run is not None and not self.clean and self.acknowledgement is None

    @property
    def obstacle(self) -> str:
        """Why this forbids a merge; empty where it does not."""
        if self.needs_reason:
            assert self.run is not None
            return (
                f"sanitizer run {self.run.pk} ended with {self.run.verdict}; mend the kernel, or acknowledge it with a "
                "reason"
            )
        if self.run is None and self.waiting is not None:
            return f"sanitizer run {self.waiting.pk} is {self.waiting.state}"
        if self.run is None and self.demanded:
            return f"no sanitizer has looked at this kernel on {self.hardware}; ask for a run"
        return ""

    @property
    def summary(self) -> str:
        """One line for the published commit; empty where nothing ran."""
        if self.run is None:
            return ""
        if self.acknowledgement is not None and not self.clean:
            return f"{self.run.verdict}, acknowledged by {self.acknowledgement.actor_name}"
        return f"{self.run.verdict}"


def standing(attempt: Attempt, measured: Evaluation) -> Standing:
    """How ``attempt`` stands on the hardware of ``measured``, the measurement that a merge would rest on.

    A run of an exact duplicate of the kernel counts as its own; one of an older problem does not.
    """
    runs = Evaluation.objects.filter(
        kind=Evaluation.Kind.SANITIZE,
        hardware=measured.hardware,
        problem_digest=measured.problem_digest,
        attempt__problem=attempt.problem_id,
        attempt__language=attempt.language,
        attempt__kernel_tree=attempt.kernel_tree,
    ).defer("result")
    finished = list(
        runs.filter(state=Evaluation.State.DONE).exclude(verdict="").order_by("-finished_at", "-id")[:20]
    )
    # A run that our own fault ended counts only where there is no other.
    run = next((each for each in finished if each.verdict != Verdict.INFRA_ERROR.value), next(iter(finished), None))
    waiting = runs.filter(state__in=Evaluation.PENDING).order_by("id").first()
    acknowledgement = run and Event.objects.filter(kind=ACKNOWLEDGED, evaluation=run).order_by("-id").first()
    return Standing(measured.hardware, _tools(measured), run, waiting, acknowledgement or None)


def request(attempt: Attempt, hardware: str, user, reason: str = "sanitizer run") -> tuple[Evaluation, bool]:
    """The run that waits for ``attempt`` on ``hardware``, or a new one, ahead of agents' attempts; and whether new."""
    with transaction.atomic():
        waiting = (
            attempt.evaluations.filter(kind=Evaluation.Kind.SANITIZE, hardware=hardware, state__in=Evaluation.PENDING)
            .order_by("id").first()
        )
        if waiting is not None:
            return waiting, False
        evaluation = queue.enqueue(
            attempt, hardware, kind=Evaluation.Kind.SANITIZE, priority=Evaluation.Priority.RERUN, reason=reason,
            requested_by=user,
        )
        log_event(
            "evaluation.rerun", user, attempt=attempt, evaluation=evaluation, problem=attempt.problem,
            hardware=hardware, reason=reason,
        )
    return evaluation, True


def acknowledge(attempt: Attempt, run: Evaluation, user, reason: str) -> Event:
    """Record that ``user`` has seen what ``run`` found in ``attempt``'s kernel and why it may be merged all the same.

    Raises NotAcknowledged. Who may do this is the caller's to check.
    """
    reason = storable(reason.strip(), REASON_LIMIT)
    if not reason:
        raise NotAcknowledged("say why the kernel may be merged all the same")
    looked_at = run.attempt
    if run.kind != Evaluation.Kind.SANITIZE or (
        looked_at.problem_id, looked_at.language, looked_at.kernel_tree
    ) != (attempt.problem_id, attempt.language, attempt.kernel_tree):
        raise NotAcknowledged(f"evaluation {run.pk} is no sanitizer run of this kernel")
    if run.state != Evaluation.State.DONE or run.verdict == Verdict.CLEAN.value:
        raise NotAcknowledged(f"evaluation {run.pk} has nothing to acknowledge: it is {run.verdict or run.state}")
    return log_event(
        ACKNOWLEDGED, user, attempt=attempt, evaluation=run, problem=attempt.problem, verdict=run.verdict,
        reason=reason, hardware=run.hardware,
    )


def fits(language: str, hardware: str) -> bool:
    """Whether any sanitizer looks at kernels of ``language`` on ``hardware``."""
    return bool(tools_for(Language(language), HardwareName(hardware)))


def _tools(measured: Evaluation) -> tuple[str, ...]:
    """The sanitizers that the host of a measurement has for it, as its stamp says."""
    stamp = measured.stamp if isinstance(measured.stamp, dict) else {}
    named = stamp.get("sanitizers")
    if not isinstance(named, list) or not fits(measured.attempt.language, measured.hardware):
        return ()
    return tuple(str(name)[:20] for name in named[:20])

"""What a quick start waits for, and what keeps that from being judged. Reads rows, shows nothing."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations.models import Evaluation
from portal.quickstart import accounts


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why nothing of the run's own goes on. ``seconds``: for how long another evaluation has had the device."""

    reason: str
    is_paused: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.reason}, for {self.seconds:.0f} s now" if self.seconds else self.reason


def own_open(hardware: str) -> QuerySet[Evaluation]:
    """What is still to be judged of the baselines and of the quick start's tuners. What others push is not waited for.
    """
    ours = Q(attempt__kind=Attempt.Kind.BASELINE) | Q(attempt__agent__in=accounts.own_agents())
    return Evaluation.objects.filter(ours, hardware=hardware, state__in=Evaluation.PENDING)


def held_up(campaign: Campaign) -> HeldUp | None:
    """What has to end first: the campaign's pause, or the judging of another agent's kernel. None: neither."""
    own = own_open(campaign.hardware)
    running = Evaluation.objects.filter(hardware=campaign.hardware, state=Evaluation.State.RUNNING)
    if own.filter(pk__in=running).exists():
        return None
    if Campaign.objects.filter(pk=campaign.pk, state=Campaign.State.PAUSED).exists():
        held = own.filter(Evaluation.held_back()).count()
        if held:
            wait = "an attempt waits" if held == 1 else f"{held} attempts wait"
            return HeldUp(
                f"campaign {campaign.name} is paused: {wait} until its state is active again (/admin/, Campaigns)",
                is_paused=True,
            )
    other = running.select_related("attempt__problem", "attempt__agent").order_by("started_at").first()
    if other is None or not own.exists():
        return None
    attempt = other.attempt
    since_s = (timezone.now() - other.started_at).total_seconds() if other.started_at else 0.0
    return HeldUp(
        f"another agent's kernel is judged first: {attempt.problem.name}, {attempt.slug} by {attempt.agent.name}",
        seconds=since_s,
    )

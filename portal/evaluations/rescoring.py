"""Scoring a campaign's attempts again after its rule changed: a queued job that can be cut short and done twice.

The row `Rescoring` says that it is wanted and how far it came; a django-q2 message only says that there is something to
do. Each step scores a few evaluations and notes its place in one transaction. An evaluation that finishes meanwhile is
scored under the new rule by itself (scoring.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django_q.tasks import async_task

from portal.campaigns.models import Campaign, Rescoring
from portal.evaluations import scoring
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.problems.models import Problem

logger = logging.getLogger(__name__)

_SILENT_FOR = timedelta(minutes=2)


def ask(campaign: Campaign) -> None:
    """Queue it, from the beginning where it is under way. Inside a transaction the message is part of it."""
    Rescoring.objects.update_or_create(
        campaign=campaign, defaults={"asked_at": timezone.now(), "after": [], "scored": 0, "trouble": ""}
    )
    _wake(campaign.pk)


def wake_silent() -> int:
    """Queue again what nobody worked on for some minutes: its worker died, or failed. Returns how many."""
    silent = Rescoring.objects.filter(touched_at__lt=timezone.now() - _SILENT_FOR)
    names = list(silent.values_list("campaign_id", flat=True))
    for campaign_id in names:
        _wake(campaign_id)
    return len(names)


def work(campaign_id: int, budget_s: float) -> str:
    """Score until all is done or ``budget_s`` seconds passed; a message continues what is left. Says what was done."""
    end = time.monotonic() + budget_s
    while (row := Rescoring.objects.select_related("campaign").filter(campaign=campaign_id).first()) is not None:
        if time.monotonic() > end:
            _wake(campaign_id)
            return f"{row.scored} scored, more to come"
        try:
            _step(row)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"[:500]
            Rescoring.objects.filter(pk=row.pk).update(trouble=said, touched_at=timezone.now())
            raise
    return "all scored"


def _step(row: Rescoring) -> None:
    """The next few evaluations of the campaign; without any left the row goes, and the event says so."""
    for problem_id, hardware in _places(row.campaign, row.after):
        problem = Problem.objects.get(pk=problem_id)
        last = row.after[2] if row.after[:2] == [problem_id, hardware] else 0
        with transaction.atomic():
            done = scoring.refresh_some(problem, hardware, last, campaign=row.campaign)
            if done:
                # Where the rule changed once more the place is not noted, and the next step begins anew.
                _unchanged(row).update(
                    after=[problem_id, hardware, done[-1]], scored=row.scored + len(done), touched_at=timezone.now(),
                    trouble="",
                )
                return
    with transaction.atomic():
        if _unchanged(row).delete()[0]:
            log_event(
                "campaign.rescored", "system", campaign=row.campaign.name, rule=row.campaign.baseline_kinds,
                evaluations=row.scored,
            )


def _places(campaign: Campaign, after: Sequence) -> list[tuple[int, str]]:
    """Every problem and hardware on which the campaign's attempts were measured, from the place of ``after`` on."""
    rows = (
        Evaluation.objects.filter(attempt__campaign=campaign, kind=Evaluation.Kind.MEASURE)
        .order_by().values_list("attempt__problem_id", "hardware").distinct()
    )
    return sorted(place for place in rows if list(place) >= list(after[:2]))


def _unchanged(row: Rescoring):
    return Rescoring.objects.filter(pk=row.pk, asked_at=row.asked_at)


def _wake(campaign_id: int) -> None:
    async_task("portal.evaluations.tasks.rescore", campaign_id, group="rescore", save=False)

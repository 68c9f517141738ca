"""Parts of a page that follow the work while it goes on: htmx asks again, and gets nothing while nothing changed.

Without JavaScript the page is complete as it was loaded; a reload shows the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from portal.evaluations.models import Evaluation
from portal.pages import queries
from portal.pages.rescoring import Pending

BUSY_S = 2
IDLE_S = 20


@dataclass(frozen=True, slots=True)
class Live:
    """``every_s`` is how often the part asks again; 0 means never. ``version`` says which state it shows."""

    version: str
    every_s: int
    waiting: int
    running: int

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self.running)


def watch(
    evaluations: QuerySet[Evaluation], *, idle_s: int = 0, rescoring: Sequence[Pending] = ()
) -> Live:
    """Follow these evaluations: often while one is queued or running, else every ``idle_s`` seconds (0: not).

    While scores are being computed again the part is followed often too.
    """
    version = queries.version(evaluations)
    waiting, running = (int(part) for part in version.split("-")[3:5])
    busy = bool(waiting or running or rescoring)
    whole = "~".join([version, *(each.version for each in rescoring)])
    return Live(whole, BUSY_S if busy else idle_s, waiting, running)


def unchanged(request: HttpRequest, live: Live) -> HttpResponse | None:
    """The empty answer for a poll that already shows this state, else None."""
    if request.headers.get("HX-Request") and request.GET.get("live") == live.version:
        return HttpResponse(status=204)
    return None

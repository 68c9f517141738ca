"""The append-only log of who did what."""

from __future__ import annotations

import json
import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.events.models import Event
from portal.pages import formatting, listings, tables, text
from portal.pages.filters import EventFilter
from portal.pages.tables import Column, Table

SHOWN_DIGITS = 12
_DIGEST = re.compile(r"\b([0-9a-f]{40,64})\b")


def event_list(request: HttpRequest) -> HttpResponse:
    filtered = EventFilter(request.GET, queryset=Event.objects.select_related("attempt", "problem").defer(
        "attempt__body", "attempt__hypothesis", "problem__definition", "problem__reference", "problem__brief"
    ))
    rows = filtered.qs if filtered.form.is_valid() else Event.objects.none()
    columns = [
        Column("at", "when (UTC)", lambda e: e.at, css="nowrap"),
        Column("kind", "what", lambda e: e.kind, tables.code),
        Column("actor", "by", lambda e: e.actor_name),
        Column("problem", "problem", lambda e: e.problem.name if e.problem else None,
               link=lambda e: e.problem.get_absolute_url() if e.problem else None),
        Column("attempt", "attempt", lambda e: e.attempt.commit if e.attempt else None, tables.short_commit,
               link=lambda e: listings.attempt_url(e.attempt) if e.attempt else None),
        Column("evaluation", "evaluation", lambda e: e.evaluation_id,
               lambda v, _: f"#{v}" if v else formatting.NOTHING,
               link=lambda e: f"/evaluations/{e.evaluation_id}/" if e.evaluation_id else None),
        Column("data", "details", lambda e: e.data, _details, css="grow"),
    ]
    page = tables.paginated(request, rows)
    table = Table("events", f"{formatting.counted(page.paginator.count, 'event')}, newest first", columns, rows,
                  page=page, query=request.GET, empty="Nothing has happened yet." if not filtered.form.changed_data
                  else "No event matches these filters.")
    return tables.respond(request, "list.html", {"title": "Events", "table": table, "form": filtered.form}, table)


def _details(value: Any, event: Any) -> str:
    """The event's data in words, without what the other columns say."""
    value = value if isinstance(value, dict) else {}
    if event.attempt is not None and value.get("commit") == event.attempt.commit:
        value = {key: item for key, item in value.items() if key != "commit"}
    parts = (f"{key}: {item if isinstance(item, str | int | float) else json.dumps(item, ensure_ascii=False)}"
             for key, item in value.items())
    said = text.label(" · ".join(parts), 400)
    if not said:
        return formatting.NOTHING
    pieces = ((_shortened(piece) if number % 2 else piece,) for number, piece in enumerate(_DIGEST.split(said)))
    return format_html_join("", "{}", pieces)


def _shortened(digest: str) -> SafeString:
    """The first digits, the whole on hover."""
    return format_html('<span title="{}">{}…</span>', digest, digest[:SHOWN_DIGITS])

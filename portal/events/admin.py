"""The event log in the admin, to look at: it is append-only."""

from __future__ import annotations

from django.contrib import admin

from portal.events.models import Event
from portal.readonly import ReadOnlyAdmin


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ["at", "kind", "actor_name", "problem", "attempt", "evaluation"]
    list_filter = ["kind", "actor_name"]
    list_select_related = ["problem", "attempt", "evaluation"]
    search_fields = ["kind", "actor_name", "attempt__commit"]
    date_hierarchy = "at"

"""Reviews and solutions in the admin, to look at. Reviewing and merging are done on the attempt's page."""

from __future__ import annotations

from django.contrib import admin

from portal.readonly import ReadOnlyAdmin
from portal.solutions.models import Review, Solution


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin):
    list_display = ["attempt", "decision", "reviewer_name", "created_at", "note_written_at"]
    list_filter = ["decision", "reviewer_name"]
    list_select_related = ["attempt"]


@admin.register(Solution)
class SolutionAdmin(ReadOnlyAdmin):
    list_display = ["problem", "language", "hardware", "attempt", "commit", "published_at", "superseded_at"]
    list_filter = ["language", "hardware", ("superseded_at", admin.EmptyFieldListFilter), "problem"]
    list_select_related = ["problem", "attempt"]
    search_fields = ["commit", "attempt__commit"]

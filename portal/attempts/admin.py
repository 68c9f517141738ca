"""Attempts in the admin: to find and to measure again. They are commits, so nothing here edits them."""

from __future__ import annotations

from django.contrib import admin, messages

from agentcore.vocabulary import HardwareName, Language
from portal.attempts.models import Attempt
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.evaluations.rerun import rerun_attempt
from portal.readonly import ReadOnlyAdmin


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ["short_commit", "problem", "language", "agent", "subject", "kind", "campaign", "received_at"]
    list_filter = ["kind", "language", "problem", "agent", "campaign"]
    list_select_related = ["problem", "agent", "campaign"]
    search_fields = ["commit", "subject", "agent__name", "slug"]
    date_hierarchy = "received_at"
    actions = ["rerun", "compile_only"]

    @admin.display(description="commit", ordering="commit")
    def short_commit(self, attempt: Attempt) -> str:
        return attempt.commit[:10]

    @admin.action(description="Measure again on every hardware it ran on", permissions=["rerun"])
    def rerun(self, request, queryset) -> None:
        rows = [row for attempt in queryset.select_related("problem") for row in rerun_attempt(attempt, request.user)]
        self.message_user(request, f"{len(rows)} evaluations are queued.", messages.SUCCESS)

    @admin.action(description="Compile for every GPU class, measure nothing", permissions=["rerun"])
    def compile_only(self, request, queryset) -> None:
        # Not at import: the git store wants git, and a command that says git is missing must start without it.
        from portal.attempts.intake import schedule

        compilable = [Language.CUDA.value, Language.CUTE.value]
        rows = [
            schedule(attempt, hardware, kind=Evaluation.Kind.COMPILE, reason=f"asked for by {request.user}",
                     keep_current=True)
            for attempt in queryset.filter(language__in=compilable).select_related("problem", "agent")
            for hardware in HardwareName if hardware.is_gpu
        ]
        for row in rows:
            queue.let_go_on(row.duplicate_of or row, request.user)
        self.message_user(request, f"{len(rows)} compile-only evaluations are queued or done.", messages.SUCCESS)

"""Problems in the admin. Their content comes from their directories (`manage.py importproblems`), never from here."""

from __future__ import annotations

from django.contrib import admin, messages

from portal.evaluations.rerun import rerun_problem
from portal.problems.models import Problem, Workload
from portal.readonly import ReadOnlyAdmin


@admin.register(Problem)
class ProblemAdmin(ReadOnlyAdmin):
    list_display = ["name", "is_active", "digest", "imported_at", "updated_at"]
    list_filter = ["is_active"]
    search_fields = ["name", "description"]
    actions = ["rerun"]

    @admin.action(description="Measure every attempt again, baselines first", permissions=["rerun"])
    def rerun(self, request, queryset) -> None:
        rows = [row for problem in queryset for row in rerun_problem(problem, request.user)]
        self.message_user(request, f"{len(rows)} evaluations are queued.", messages.SUCCESS)


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    list_display = ["uuid", "problem", "target", "index", "axes", "is_current"]
    list_filter = ["target", "is_current", "problem"]
    list_select_related = ["problem"]
    search_fields = ["uuid", "problem__name"]

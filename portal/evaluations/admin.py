"""Evaluations and devices in the admin; and django-q2's own pages taken out of it.

A schedule or a queued message names any function to call, so whoever may edit one runs arbitrary Python.
"""

from __future__ import annotations

from django.contrib import admin, messages
from django_q.models import Failure, OrmQ, Schedule, Success

from portal.devices import tasks
from portal.evaluations import queue, sanitizing
from portal.evaluations.models import CheckResult, Device, Evaluation, WorkloadResult
from portal.evaluations.rerun import rerun_evaluation
from portal.readonly import ReadOnlyAdmin

for _model in (Schedule, Success, Failure, OrmQ):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


class _RowInline(admin.TabularInline):
    extra = 0
    can_delete = False

    def has_add_permission(self, request, obj=None) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_view_permission(self, request, obj=None) -> bool:
        return True  # shown only inside the evaluation, whose own permission was checked


class WorkloadInline(_RowInline):
    model = WorkloadResult
    fk_name = "evaluation"
    fields = [
        "index", "heldout", "axes", "verdict", "latency_us", "baseline_us", "baseline_kind", "t_sol_us", "sol_score",
    ]


class CheckInline(_RowInline):
    model = CheckResult
    fields = ["workload_index", "name", "status", "message"]


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = [
        "id", "attempt", "kind", "hardware", "state", "verdict", "priority", "claims", "claimed_by", "sol_score",
        "speedup", "queued_at", "finished_at",
    ]
    list_filter = ["kind", "state", "verdict", "hardware", "priority", "harness_version", "attempt__problem"]
    list_select_related = ["attempt"]
    search_fields = ["=id", "attempt__commit", "attempt__agent__name", "device_uuid"]
    date_hierarchy = "queued_at"
    exclude = ["lease_token"]  # of a running row it is the right to write its result
    inlines = [WorkloadInline, CheckInline]
    actions = ["rerun", "sanitize", "cancel"]

    def get_queryset(self, request):
        return super().get_queryset(request).defer("result")

    @admin.action(description="Measure again (new evaluations, first in the queue)", permissions=["rerun"])
    def rerun(self, request, queryset) -> None:
        rows = [rerun_evaluation(row, request.user) for row in queryset.select_related("attempt__problem")]
        self.message_user(request, f"{len(rows)} evaluations are queued.", messages.SUCCESS)

    @admin.action(description="Run sanitizers on the kernels (first in the queue)", permissions=["rerun"])
    def sanitize(self, request, queryset) -> None:
        asked, without = {}, 0
        for row in queryset.select_related("attempt__problem"):
            if sanitizing.fits(row.attempt.language, row.hardware):
                run, _ = sanitizing.request(row.attempt, row.hardware, request.user, "sanitizers, asked for")
                asked[run.pk] = run
            else:
                without += 1
        self.message_user(request, f"{len(asked)} sanitizer runs are queued.", messages.SUCCESS)
        if without:
            self.message_user(
                request, f"{without} evaluations are of a language that no sanitizer looks at there.", messages.WARNING
            )

    @admin.action(description="Take out of the queue", permissions=["rerun"])
    def cancel(self, request, queryset) -> None:
        count = sum(queue.cancel(row, request.user) for row in queryset.select_related("attempt"))
        self.message_user(request, f"{count} queued evaluations were cancelled.", messages.SUCCESS)


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    list_display = ["uuid", "hardware", "name", "host", "driver", "sandbox", "first_seen_at", "last_seen_at"]
    list_filter = ["hardware", "host", "sandbox"]
    actions = ["selftest"]

    @admin.action(description="Run the self-test (every known cheat) on their hosts", permissions=["rerun"])
    def selftest(self, request, queryset) -> None:
        for device in queryset:
            tasks.ask(device, request.user)
        self.message_user(
            request, f"{len(queryset)} self-tests are asked for; each takes some minutes and shows on the fleet page.",
            messages.SUCCESS,
        )

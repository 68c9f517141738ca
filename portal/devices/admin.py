"""Self-tests in the admin: to look at. They are asked for on the devices' own page there."""

from __future__ import annotations

from django.contrib import admin

from portal.devices.models import SelfTest
from portal.readonly import ReadOnlyAdmin


@admin.register(SelfTest)
class SelfTestAdmin(ReadOnlyAdmin):
    list_display = [
        "id", "device", "passed", "exploits", "accepted", "controls", "refused", "harness_version", "sandbox",
        "started_at", "stored_by_name",
    ]
    list_filter = ["passed", "device__hardware", "harness_version", "sandbox"]
    list_select_related = ["device"]

    def get_queryset(self, request):
        return super().get_queryset(request).defer("report")

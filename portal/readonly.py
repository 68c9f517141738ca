"""The admin of recorded rows: to look at and filter, never to edit, add or delete."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows rows without editing any; actions are guarded by `has_rerun_permission`."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj=None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj=None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj=None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj=None) -> bool:
        # Editing is off for everyone, so permission to change a model is what reading it takes at most.
        return super().has_view_permission(request, obj) or super().has_change_permission(request, obj)

    def has_rerun_permission(self, request: HttpRequest) -> bool:
        """Whoever may add evaluations may ask for more of them."""
        return request.user.has_perm("evaluations.add_evaluation")

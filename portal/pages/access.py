"""Who may review, merge and rerun: staff, and users with the permission ``solutions.add_solution``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST


def may_review(user) -> bool:
    """True for an active member of staff or holder of ``solutions.add_solution``."""
    return user.is_active and (user.is_staff or user.has_perm("solutions.add_solution"))


def reviewer_action(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A view that changes something: POST only, for a logged-in reviewer; anyone else gets the login page or 403."""

    @require_POST
    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not may_review(request.user):
            raise PermissionDenied(
                "Reviewing, merging and rerunning need staff rights or the permission to add solutions."
            )
        return view(request, *args, **kwargs)

    return guarded

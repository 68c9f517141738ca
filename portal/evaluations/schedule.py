"""The one django-q2 schedule of the portal: housekeeping every minute, on the default cluster."""

from __future__ import annotations

HOUSEKEEPING = "housekeeping"


def ensure_schedule(**_: object) -> None:
    """Create or correct the schedule. Runs after every migrate, and may run at any other time."""
    from django_q.models import Schedule

    Schedule.objects.update_or_create(
        name=HOUSEKEEPING,
        defaults={
            "func": "portal.evaluations.tasks.tick",
            "schedule_type": Schedule.MINUTES,
            "minutes": 1,
            "repeats": -1,
            "cluster": None,
        },
    )

"""The django-q2 schedules of the portal, on its own cluster: housekeeping every minute, packing every hour."""

from __future__ import annotations

HOUSEKEEPING = "housekeeping"
PACKING = "packing"


def ensure_schedule(**_: object) -> None:
    """Create or correct the schedules. Runs after every migrate, and may run at any other time."""
    from django_q.models import Schedule

    wanted = {
        HOUSEKEEPING: {"func": "portal.evaluations.tasks.tick", "schedule_type": Schedule.MINUTES, "minutes": 1},
        PACKING: {"func": "portal.evaluations.tasks.pack", "schedule_type": Schedule.HOURLY},
    }
    for name, timing in wanted.items():
        Schedule.objects.update_or_create(name=name, defaults={**timing, "repeats": -1, "cluster": None})

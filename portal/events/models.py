"""The append-only log of who did what."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class EventQuerySet(models.QuerySet):
    """Refuses bulk changes too. (Django's own on_delete handling does not come this way.)"""

    def update(self, **kwargs):
        raise TypeError("events are append-only: existing events cannot be changed")

    def delete(self):
        raise TypeError("events are append-only: events cannot be deleted")


class Event(models.Model):
    """Something that happened, by someone. Rows are only ever inserted: everything else is refused."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    kind = models.CharField(max_length=40, db_index=True, help_text="noun.verb, such as attempt.pushed")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    actor_name = models.CharField(max_length=150)
    attempt = models.ForeignKey(
        "attempts.Attempt", null=True, blank=True, on_delete=models.SET_NULL, related_name="events"
    )
    evaluation = models.ForeignKey(
        "evaluations.Evaluation", null=True, blank=True, on_delete=models.SET_NULL, related_name="events"
    )
    problem = models.ForeignKey(
        "problems.Problem", null=True, blank=True, on_delete=models.SET_NULL, related_name="events"
    )
    data = models.JSONField(default=dict)

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor_name}"

    def save(self, *args, **kwargs) -> None:
        if self.pk is not None:
            raise TypeError("events are append-only: an existing event cannot be changed")
        super().save(*args, **kwargs)

    def delete(self, *args, **kwargs):
        raise TypeError("events are append-only: an event cannot be deleted")


def log(kind: str, actor, *, attempt=None, evaluation=None, problem=None, **data) -> Event:
    """Append an event. ``actor`` is a User, an agent's name, or "system"."""
    user = actor if hasattr(actor, "get_username") and getattr(actor, "pk", None) else None
    name = user.get_username() if user else str(actor)
    return Event.objects.create(
        kind=kind, actor=user, actor_name=name[:150], attempt=attempt, evaluation=evaluation, problem=problem,
        data=data,
    )

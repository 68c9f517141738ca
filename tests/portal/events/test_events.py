"""The event log only grows."""

from __future__ import annotations

import pytest

from portal.events.models import Event, log
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def test_an_event_keeps_who_and_what():
    user, attempt = make.make_user("eve"), make.make_attempt()
    event = log("attempt.praised", user, attempt=attempt, why="speed")
    assert (event.actor, event.actor_name, event.data) == (user, "eve", {"why": "speed"})
    assert log("attempt.pushed", "ada").actor is None


def test_an_event_is_neither_changed_nor_deleted():
    event = log("attempt.pushed", "ada")
    event.kind = "attempt.forged"
    with pytest.raises(TypeError, match="append-only"):
        event.save()
    with pytest.raises(TypeError, match="append-only"):
        event.delete()
    with pytest.raises(TypeError, match="append-only"):
        Event.objects.update(kind="attempt.forged")
    with pytest.raises(TypeError, match="append-only"):
        Event.objects.filter(kind="attempt.pushed").delete()
    assert Event.objects.get().kind == "attempt.pushed"


def test_the_log_outlives_an_account():
    user = make.make_user("eve")
    log("attempt.praised", user)
    user.delete()
    event = Event.objects.get()
    assert (event.actor, event.actor_name) == (None, "eve")

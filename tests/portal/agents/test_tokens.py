"""Tokens: shown once, stored as a hash, accepted only from their own active agent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.agents.models import Agent
from portal.agents.tokens import authenticate, issue_token, revoke_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Agent:
    return Agent.objects.create(name="alice")


def test_a_token_is_long_random_and_not_stored(alice):
    tokens = {issue_token(alice) for _ in range(3)}
    assert len(tokens) == 3
    token = issue_token(alice)
    assert token.startswith("ky_")
    assert len(token) >= 46
    alice.refresh_from_db()
    assert token not in (alice.token_hash, alice.token_prefix)
    assert token.startswith(alice.token_prefix)


def test_only_the_newest_token_of_the_right_agent_is_accepted(alice):
    bob = Agent.objects.create(name="bob")
    old, bobs = issue_token(alice), issue_token(bob)
    new = issue_token(alice)
    assert authenticate("alice", new) == alice
    for name, token in (("alice", old), ("alice", bobs), ("bob", new), ("nobody", new), ("alice", ""), ("", "")):
        assert authenticate(name, token) is None, (name, token)


def test_an_agent_without_a_token_is_never_signed_in(alice):
    assert authenticate("alice", "") is None
    token = issue_token(alice)
    revoke_token(alice)
    assert authenticate("alice", token) is None
    assert authenticate("alice", "") is None


def test_an_inactive_agent_is_refused(alice):
    token = issue_token(alice)
    Agent.objects.filter(pk=alice.pk).update(is_active=False)
    assert authenticate("alice", token) is None


def test_when_an_agent_was_seen_is_written_at_most_once_a_minute(alice, django_assert_num_queries):
    token = issue_token(alice)
    with django_assert_num_queries(2):
        authenticate("alice", token)
    with django_assert_num_queries(1):
        authenticate("alice", token)
    past = timezone.now() - timedelta(minutes=2)
    Agent.objects.filter(pk=alice.pk).update(last_seen_at=past)
    authenticate("alice", token)
    alice.refresh_from_db()
    assert alice.last_seen_at > past


def test_a_failed_sign_in_is_not_a_sighting(alice):
    issue_token(alice)
    authenticate("alice", "ky_wrong")
    alice.refresh_from_db()
    assert alice.last_seen_at is None

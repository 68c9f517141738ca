"""Agent tokens: shown once, kept as a hash, checked at every push. Not for people's passwords.

A token carries 256 random bits, so a fast hash is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from portal.agents.models import Agent

TOKEN_PREFIX = "ky_"  # noqa: S105 (what tokens start with, so that a leaked one is recognised)
_SHOWN_CHARACTERS = 9
_SEEN_EVERY = timedelta(minutes=1)


def token_hash(token: str) -> str:
    """SHA-256 of a token, 64 hexadecimal digits."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue_token(agent: Agent) -> str:
    """Give ``agent`` a new token in place of the one before, and return it. It cannot be read again."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    agent.token_hash = token_hash(token)
    agent.token_prefix = token[:_SHOWN_CHARACTERS]
    agent.save(update_fields=["token_hash", "token_prefix"])
    return token


def revoke_token(agent: Agent) -> None:
    """Take ``agent``'s token away; nobody signs in as it until another is issued."""
    agent.token_hash = agent.token_prefix = ""
    agent.save(update_fields=["token_hash", "token_prefix"])


def authenticate(name: str, token: str) -> Agent | None:
    """The active agent of that name if ``token`` is its own, else None. Notes when it was seen, to the minute."""
    agent = Agent.objects.filter(name=name, is_active=True).first()
    stored = agent.token_hash if agent is not None else ""
    matches = hmac.compare_digest(token_hash(token), stored or "0" * 64)
    if agent is None or not stored or not matches:
        return None
    now = timezone.now()
    if agent.last_seen_at is None or now - agent.last_seen_at >= _SEEN_EVERY:
        # Conditional, so that parallel pushes write once.
        stale = Q(last_seen_at__isnull=True) | Q(last_seen_at__lte=now - _SEEN_EVERY)
        if Agent.objects.filter(stale, pk=agent.pk).update(last_seen_at=now):
            agent.last_seen_at = now
    return agent

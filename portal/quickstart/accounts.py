"""The demo accounts: two people and the tuner agents. Passwords are generated, shown by that run and kept as hashes."""

from __future__ import annotations

import re
import secrets

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from portal.agents.models import Agent
from portal.agents.tokens import issue_token
from portal.events.models import log as log_event

ADMIN, REVIEWER = "admin", "reviewer"
TUNER_PREFIX = "tuner-"


def ensure_people() -> dict[str, str]:
    """Make ``admin`` (superuser) and ``reviewer`` where they are missing; the passwords of those made just now.

    ``reviewer`` may review and merge on the pages, and is no staff: it cannot enter the admin.
    """
    users = get_user_model().objects
    made = {}
    for name, extra in ((ADMIN, {"is_staff": True, "is_superuser": True}), (REVIEWER, {})):
        if not users.filter(username=name).exists():
            made[name] = secrets.token_urlsafe(9)
            users.create_user(name, f"{name}@localhost", made[name], **extra)
            log_event("user.created", "system", user=name)
    reviewer().user_permissions.add(
        Permission.objects.get(content_type__app_label="solutions", codename="add_solution")
    )
    return made


def reviewer():
    """The account that approves and merges in the quick start."""
    return get_user_model().objects.get(username=REVIEWER)


def own_agents() -> list[Agent]:
    """The quick start's tuners (``tuner-1``, …). Whatever other agents push is for people to judge."""
    tuners = Agent.objects.filter(kind=Agent.Kind.TUNER, name__startswith=TUNER_PREFIX).order_by("name")
    return [agent for agent in tuners if re.fullmatch(r"[0-9]+", agent.name.removeprefix(TUNER_PREFIX))]


def ensure_agent(name: str) -> tuple[Agent, str]:
    """The tuner agent of that name, and a new token for this run (tokens are only kept as hashes)."""
    agent, created = Agent.objects.get_or_create(name=name, defaults={"kind": Agent.Kind.TUNER})
    if created:
        log_event("agent.created", "system", agent=name, agent_kind=agent.kind)
    return agent, issue_token(agent)

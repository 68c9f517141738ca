"""`manage.py createagent NAME --kind tuner`: make an agent and print its token, once."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from agentcore.vocabulary import NAME_PATTERN
from portal.agents.models import Agent
from portal.agents.tokens import issue_token
from portal.events.models import log as log_event


class Command(BaseCommand):
    help = "Create an agent and print its token. The token is stored only as a hash and cannot be shown again."

    def add_arguments(self, parser) -> None:
        parser.add_argument("name")
        parser.add_argument("--kind", choices=Agent.Kind.values, default=Agent.Kind.COMMAND)
        parser.add_argument("--new-token", action="store_true", help="the agent exists: replace its token")

    def handle(self, *args, **options) -> None:
        name = options["name"]
        if not NAME_PATTERN.match(name):
            raise CommandError(f"agent name {name!r} must be lower-case letters, digits, '-' or '_' (at most 100)")
        agent = Agent.objects.filter(name=name).first()
        if agent and not options["new_token"]:
            raise CommandError(f"agent {name!r} exists; pass --new-token to replace its token")
        if agent is None:
            if options["new_token"]:
                raise CommandError(f"there is no agent {name!r}")
            agent = Agent.objects.create(name=name, kind=options["kind"])
            log_event("agent.created", "system", agent=name, agent_kind=agent.kind)
        token = issue_token(agent)
        log_event("agent.token-issued", "system", agent=name)
        self.stdout.write(token)

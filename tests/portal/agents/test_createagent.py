"""`manage.py createagent`."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from portal.agents.models import Agent
from portal.agents.tokens import authenticate
from portal.events.models import Event

pytestmark = pytest.mark.django_db


def test_the_printed_token_signs_in_and_is_stored_nowhere(capsys):
    call_command("createagent", "ada", "--kind", "llm")
    token = capsys.readouterr().out.strip()
    agent = authenticate("ada", token)
    assert agent.kind == Agent.Kind.LLM
    assert token not in str(Agent.objects.values().get())
    assert token not in str(list(Event.objects.values()))


def test_an_existing_agent_keeps_its_token_unless_asked(capsys):
    call_command("createagent", "ada")
    token = capsys.readouterr().out.strip()
    with pytest.raises(CommandError, match="--new-token"):
        call_command("createagent", "ada")
    assert authenticate("ada", token)
    call_command("createagent", "ada", "--new-token")
    assert authenticate("ada", token) is None
    assert authenticate("ada", capsys.readouterr().out.strip())


@pytest.mark.parametrize("name", ["Ada", "a/b", "", "../x", "a" * 101])
def test_a_name_that_could_not_be_a_branch_is_refused(name):
    with pytest.raises(CommandError, match="must be lower-case"):
        call_command("createagent", name)

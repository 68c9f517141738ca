"""What the quick start waits for is its own; while something else keeps it waiting, it says what."""

from __future__ import annotations

import io
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone
from rich.console import Console

from portal.campaigns.models import Campaign
from portal.evaluations.models import Evaluation
from portal.quickstart import display, search, waiting
from portal.quickstart.accounts import ensure_agent
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def opened(attempt, state: str = Evaluation.State.QUEUED, seconds_ago: float = 0.0) -> Evaluation:
    started = timezone.now() - timedelta(seconds=seconds_ago) if state == Evaluation.State.RUNNING else None
    return make.make_evaluation(attempt, state=state, started_at=started)


@pytest.fixture
def campaign() -> Campaign:
    return make.make_campaign("quickstart", problems=[make.make_problem("a")])


@pytest.fixture
def own(campaign):
    """An attempt of a tuner."""
    return make.make_attempt(campaign.problems.get(), ensure_agent("tuner-1")[0], campaign=campaign)


@pytest.fixture
def foreign(campaign):
    return make.make_attempt(campaign.problems.get(), make.make_agent("bob"), campaign=campaign, slug="wide-loads")


def said_by(shown: display.Display) -> str:
    return shown.console.file.getvalue()


@pytest.fixture
def shown() -> display.Display:
    return display.Display(Console(file=io.StringIO(), width=200))


def test_what_other_agents_have_open_is_neither_counted_nor_waited_for(campaign, own, foreign) -> None:
    for state in Evaluation.PENDING:
        opened(foreign, state)
    assert display.take(campaign).waiting == 0
    merged: list[str] = []
    done = SimpleNamespace(running=lambda: False, process=SimpleNamespace(returncode=0))
    found = search.Search(
        campaign, [own.problem], lanes=1, attempts=1, seconds=None, start=lambda *_: done,
        merge=lambda problem: merged.append(problem.name), say=lambda _: None,
    )
    found._lanes[0].problem = found._pending.pop(0)  # begun, its baselines measured
    mine = opened(own)
    assert display.take(campaign).waiting == 1
    assert found.step() and not merged
    mine.state = Evaluation.State.DONE
    mine.save()
    assert not found.step() and merged == ["a"]


def test_a_paused_campaign_is_said_to_hold_its_attempts_until_it_is_active_again(campaign, own, foreign, shown) -> None:
    opened(own)
    assert waiting.held_up(campaign) is None
    campaign.state = Campaign.State.PAUSED
    campaign.save()
    held = waiting.held_up(campaign)
    assert held is not None and held.is_paused
    for _ in range(3):
        shown.waits(waiting.held_up(campaign))
    assert said_by(shown).count("campaign quickstart is paused: an attempt waits until its state is active again") == 1
    campaign.state = Campaign.State.ACTIVE
    campaign.save()
    for _ in range(2):
        shown.waits(waiting.held_up(campaign))
    assert said_by(shown).count("it goes on") == 1


def test_another_agents_kernel_is_named_where_it_is_judged_for_long(
    campaign, own, foreign, shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "PATIENCE_S", 1000.0)
    running = opened(foreign, Evaluation.State.RUNNING, seconds_ago=2)
    shown.waits(waiting.held_up(campaign))  # the run has nothing in the queue
    mine = opened(own)
    shown.waits(waiting.held_up(campaign))
    assert said_by(shown) == ""  # not yet for long
    running.started_at -= timedelta(seconds=2000)
    running.save()
    for _ in range(3):
        shown.waits(waiting.held_up(campaign))
    line = "another agent's kernel is judged first: a, wide-loads by bob, for 20"
    assert said_by(shown).count(line) == 1
    monkeypatch.setattr(display, "AGAIN_S", 0.0)
    shown.waits(waiting.held_up(campaign))
    assert said_by(shown).count(line) == 2
    Evaluation.objects.filter(pk=running.pk).update(state=Evaluation.State.DONE)
    Evaluation.objects.filter(pk=mine.pk).update(state=Evaluation.State.RUNNING)
    assert waiting.held_up(campaign) is None

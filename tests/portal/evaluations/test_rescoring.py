"""A campaign's rule changes: its attempts are scored again outside the request, step by step, and the pages say so."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django_q.models import OrmQ

from portal.campaigns.models import Rescoring
from portal.evaluations import rescoring, scoring, tasks
from portal.evaluations.models import Evaluation, ScoreRecord
from portal.events.models import Event
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def night(monkeypatch):
    """A campaign of two problems with five attempts that a rule is about to score anew, two evaluations a step."""
    monkeypatch.setattr(scoring, "_ROWS_AT_ONCE", 8)
    problems = [make.make_problem("one"), make.make_problem("two")]
    campaign = make.make_campaign("night", problems=problems)
    for problem in problems:
        make.make_baseline(problem, latencies=[40.0, 80.0])
        eager = make.make_baseline_attempt(problem, slug="eager")
        make.make_evaluation(eager, result=make.make_result(eager, latencies=[80.0, 160.0]))
    agent = make.make_agent("ada")
    for number in range(5):
        attempt = make.make_attempt(problems[number % 2], agent, campaign=campaign, slug=f"a{number}")
        make.make_evaluation(attempt, result=make.make_result(attempt, latencies=[20.0, 40.0]))
    OrmQ.objects.all().delete()
    return campaign


def admit(campaign, *kinds: str) -> None:
    campaign.baseline_kinds = list(kinds)
    campaign.save()


def speedups(campaign) -> list[float]:
    rows = Evaluation.objects.filter(attempt__campaign=campaign).order_by("id")
    return [round(row.speedup, 6) for row in rows]


def messages() -> list[tuple[str, tuple]]:
    return [(row.func(), row.task["args"]) for row in OrmQ.objects.all()]


def test_a_changed_rule_only_queues_and_the_job_scores_again_and_keeps_what_was(night):
    admit(night)  # the same rule: nothing to do
    assert not Rescoring.objects.exists() and not messages()
    admit(night, "eager")
    assert speedups(night) == [2.0] * 5
    assert messages() == [("portal.evaluations.tasks.rescore", (night.pk,))]
    assert tasks.rescore(night.pk) == "all scored"
    assert speedups(night) == [4.0] * 5
    assert not Rescoring.objects.exists()
    event = Event.objects.get(kind="campaign.rescored")
    assert (event.data["campaign"], event.data["rule"], event.data["evaluations"]) == ("night", ["eager"], 5)
    for evaluation in Evaluation.objects.filter(attempt__campaign=night):
        assert [(record.rule, record.speedup) for record in evaluation.scores.all()] == [
            (["eager"], pytest.approx(4.0)), ([], pytest.approx(2.0)),
        ]
    records = ScoreRecord.objects.count()
    rescoring.ask(night)  # done once more: nothing changes
    assert tasks.rescore(night.pk) == "all scored"
    assert (speedups(night), ScoreRecord.objects.count()) == ([4.0] * 5, records)
    assert tasks.rescore(night.pk) == "all scored", "a message that comes late finds nothing to do"
    assert Event.objects.filter(kind="campaign.rescored").count() == 2


def test_what_is_cut_short_goes_on_where_it_was(night, monkeypatch):
    admit(night, "eager")
    real, steps = scoring._score, []

    def dies_in_the_second_step(evaluations, verified):
        steps.append([evaluation.pk for evaluation in evaluations])
        done = real(evaluations, verified)
        if len(steps) == 2:
            raise SystemExit("as django-q2 ends a task, after everything was written and before it is committed")
        return done

    monkeypatch.setattr(scoring, "_score", dies_in_the_second_step)
    with pytest.raises(SystemExit):
        rescoring.work(night.pk, 60)
    assert Rescoring.objects.get().scored == 2 and sorted(speedups(night)) == [2.0] * 3 + [4.0] * 2
    assert rescoring.wake_silent() == 0, "somebody was at it a moment ago"
    Rescoring.objects.update(touched_at=timezone.now() - timedelta(minutes=3))
    OrmQ.objects.all().delete()
    assert tasks.tick()["rescoring"] == 1
    assert ("portal.evaluations.tasks.rescore", (night.pk,)) in messages()
    assert rescoring.work(night.pk, 60) == "all scored"
    assert steps[2] == steps[1], "the step that was lost is done again"
    assert steps[0] not in steps[1:], "and none that was kept"
    assert speedups(night) == [4.0] * 5
    assert ScoreRecord.objects.count() == Evaluation.objects.filter(attempt__kind="agent").count() * 2 + 4


def test_a_long_one_gives_way_and_a_rule_changed_meanwhile_starts_it_anew(night):
    admit(night, "eager")
    OrmQ.objects.all().delete()
    said = rescoring.work(night.pk, -1)
    assert said.endswith("more to come") and len(messages()) == 1
    rescoring._step(Rescoring.objects.get())
    stale = Rescoring.objects.get()
    assert stale.scored == 2
    admit(night, "library")  # that admits nothing here
    assert Rescoring.objects.get().scored == 0
    rescoring._step(stale)  # a worker that read the row before
    assert Rescoring.objects.get().after == []
    rescoring.work(night.pk, 60)
    assert not Evaluation.objects.filter(attempt__campaign=night, speedup__isnull=False).exists()


def test_a_failure_is_kept_said_and_tried_again(night, monkeypatch, client: Client):
    admit(night, "eager")
    with monkeypatch.context() as broken:
        broken.setattr(scoring, "_score", lambda *_: 1 / 0)
        assert tasks.rescore(night.pk).startswith("failed: ")
    assert "ZeroDivisionError" in client.get("/campaigns/night/").content.decode()
    assert tasks.rescore(night.pk) == "all scored"


def test_every_page_with_such_scores_says_so_until_they_are_there(night, client: Client):
    evaluation = Evaluation.objects.filter(attempt__campaign=night).select_related("attempt__problem").first()
    addresses = [
        "/", "/campaigns/night/", evaluation.attempt.problem.get_absolute_url(), evaluation.attempt.get_absolute_url(),
        evaluation.get_absolute_url(),
    ]
    said = "Scores of campaign night are being computed again: its rule admits eager since"
    for address in addresses:
        assert said not in client.get(address).content.decode()
    admit(night, "eager")
    polls = {}
    for address in addresses:
        page = client.get(address).content.decode()
        assert said in page, address
        polls[address] = page.partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
        same = client.get(address + polls[address], headers={"HX-Request": "true"})
        assert same.status_code == 204, "nothing new yet"
    assert client.get("/api/v1/campaigns/night").json()["rescoring"] is True
    tasks.rescore(night.pk)
    for address in addresses:
        part = client.get(address + polls[address], headers={"HX-Request": "true"})
        assert part.status_code == 200 and said not in part.content.decode()
    assert client.get("/api/v1/campaigns/night").json()["rescoring"] is False


def test_saving_the_rule_costs_the_same_however_many_attempts_there_are(night, django_assert_max_num_queries):
    night.baseline_kinds = ["eager"]
    with django_assert_max_num_queries(12):
        night.save()

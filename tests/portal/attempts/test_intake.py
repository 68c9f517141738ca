"""From commits to attempts and queued work."""

from __future__ import annotations

import pytest
from django.conf import settings as django_settings
from django.urls import reverse
from django_q.models import OrmQ

from agentcore.gitstore import MAIN, AttemptsRepository, Identity
from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations import queue, rerun
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.problems.models import Problem
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


@pytest.fixture
def problem(tmp_path) -> Problem:
    return repos.start(tmp_path)


@pytest.fixture
def ada():
    return make.make_agent("ada")


def test_a_push_becomes_an_attempt_with_queued_work(problem, ada):
    ref, oid = repos.push(
        "scale", "ada", "v1", message="Unroll\n\nBecause of latency.", Hypothesis="fewer branches", Model="m-1"
    )
    (attempt,) = intake.reconcile([ref.ref])
    assert (attempt.commit, attempt.problem, attempt.agent, attempt.slug) == (oid, problem, ada, "main")
    assert (attempt.subject, attempt.body) == ("Unroll", "Because of latency.")
    assert (attempt.hypothesis, attempt.model, attempt.parent) == ("fewer branches", "m-1", None)
    evaluation = attempt.evaluations.get()
    assert (evaluation.state, evaluation.hardware, evaluation.priority) == ("queued", "cpu", 10)
    assert Event.objects.filter(kind="attempt.pushed", actor_name="ada", attempt=attempt).exists()


def test_indexing_again_adds_nothing(problem, ada):
    ref, _ = repos.push("scale", "ada", "v1")
    assert len(intake.reconcile([ref.ref])) == 1
    assert intake.reconcile([ref.ref]) == []
    assert intake.reconcile() == []
    assert Evaluation.objects.count() == 1


def test_a_missed_hook_loses_no_attempt_of_the_client(problem, ada):
    """Two pushes whose hooks never ran: each commit that carries the client's trailers is an attempt."""
    _, first = repos.push("scale", "ada", "v1")
    _, second = repos.push("scale", "ada", "v2")
    assert [attempt.commit for attempt in intake.reconcile()] == [first, second]
    assert Attempt.objects.get(commit=second).parent.commit == first


def test_commits_below_the_tip_without_trailers_are_steps_of_one_attempt(problem, ada):
    ref, _ = repos.push("scale", "ada", "v1")
    intake.reconcile()
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        tip = repository.resolve(ref.ref)
        path = f"{ref.kernel_path}/kernel.cpp"
        step = repository.write_commit(
            repository.write_tree(tip, [], {path: b"wip"}), [tip], "wip\n", Identity.of_agent("ada")
        )
        last = repository.write_commit(
            repository.write_tree(step, [], {path: b"v2"}), [step], "done\n", Identity.of_agent("ada")
        )
        repository.move(ref.ref, last, tip)
    (attempt,) = intake.reconcile()
    assert attempt.commit == last
    assert attempt.parent.commit == tip


def test_building_on_another_agents_attempt_makes_it_the_parent(problem, ada):
    bob = make.make_agent("bob")
    _, hers = repos.push("scale", "ada", "v1")
    _, his = repos.push("scale", "bob", "v2", parent=hers)
    created = intake.reconcile()
    assert {attempt.commit: attempt.agent for attempt in created} == {hers: ada, his: bob}
    assert Attempt.objects.get(commit=his).parent.commit == hers


def test_an_exact_duplicate_points_at_the_first_and_is_not_measured(problem, ada):
    make.make_agent("bob")
    repos.push("scale", "ada", "same")
    repos.push("scale", "bob", "same")
    intake.reconcile()
    first = Evaluation.objects.get(attempt__agent=ada)
    again = Evaluation.objects.get(attempt__agent__name="bob")
    assert (first.state, again.state, again.duplicate_of) == ("queued", "duplicate", first)
    assert queue.claim("cpu", "w").evaluation_id == first.pk
    assert queue.claim("cpu", "w") is None


@pytest.mark.parametrize("change", ["harness", "problem", "infra_error"])
def test_what_was_measured_otherwise_is_no_duplicate(problem, ada, change, monkeypatch):
    repos.push("scale", "ada", "same")
    intake.reconcile()
    verdict = Verdict.INFRA_ERROR if change == "infra_error" else Verdict.PASSED
    claim = queue.claim("cpu", "w")
    queue.finish(claim, make.make_result(Attempt.objects.get(), verdict=verdict))
    if change == "harness":
        monkeypatch.setattr(intake, "HARNESS_VERSION", "another")
    if change == "problem":
        Problem.objects.update(digest="changed")
    repos.push("scale", "ada", "same", slug="again", message="Try it again")
    (attempt,) = intake.reconcile()
    assert attempt.evaluations.get().state == "queued"


def test_a_named_campaign_decides_hardware_and_counts_the_attempt(problem, ada):
    campaign = make.make_campaign("night", language="cuda", hardware="b200", problems=[problem])
    make.make_campaign("day", language="cuda", hardware="h200", problems=[problem])
    repos.push("scale", "ada", "k", language=Language.CUDA, Campaign="night")
    (attempt,) = intake.reconcile()
    assert attempt.campaign == campaign
    assert [e.hardware for e in attempt.evaluations.all()] == ["b200"]


def test_without_a_name_every_fitting_campaigns_hardware_measures_it(problem, ada):
    make.make_campaign("night", language="cuda", hardware="b200", problems=[problem])
    make.make_campaign("day", language="cuda", hardware="h200", problems=[problem])
    make.make_campaign("over", language="cuda", hardware="h100", problems=[problem], state=Campaign.State.FINISHED)
    repos.push("scale", "ada", "k", language=Language.CUDA)
    (attempt,) = intake.reconcile()
    assert attempt.campaign is None
    assert sorted(e.hardware for e in attempt.evaluations.all()) == ["b200", "h200"]


def test_an_attempt_cannot_join_a_finished_or_foreign_campaign(problem, ada):
    make.make_campaign("over", problems=[problem], state=Campaign.State.FINISHED)
    make.make_campaign("other", problems=[make.make_problem()])
    for name in ("over", "other", "invented"):
        repos.push("scale", "ada", name, slug=name, Campaign=name)
    created = intake.reconcile()
    assert [attempt.campaign for attempt in created] == [None] * 3


def test_attempts_for_a_paused_campaign_are_recorded_and_wait_until_it_is_resumed(problem, ada, client):
    paused = Campaign.State.PAUSED
    campaign = make.make_campaign("night", problems=[problem], state=paused)
    repos.push("scale", "ada", "same", Campaign="night")
    repos.push("scale", "ada", "unnamed", slug="unnamed")  # fits no other
    first, second = intake.reconcile()
    assert (first.campaign, second.campaign) == (campaign, campaign)
    OrmQ.objects.all().delete()
    assert (queue.claim("cpu", "w"), queue.wake_all()) == (None, [])
    waits = "waits: campaign night is paused"
    row = first.evaluations.get()
    for url in (first.get_absolute_url(), row.get_absolute_url(), "/fleet/"):
        assert waits in client.get(url).content.decode()
    assert client.get(f"/api/v1/attempts/{first.commit}").json()["evaluation"]["message"] == waits
    # The same kernel for a campaign that goes on is measured for that one, and what a person asks for is measured too.
    make.make_campaign("day", problems=[problem])
    repos.push("scale", "ada", "same", slug="again", message="Again", Campaign="day")
    (active,) = intake.reconcile()
    by_hand = queue.enqueue(second, "cpu", priority=Evaluation.Priority.RERUN)
    claims = [queue.claim("cpu", "w") for _ in range(3)]
    assert [c and c.evaluation_id for c in claims] == [by_hand.pk, active.evaluations.get().pk, None]
    OrmQ.objects.all().delete()
    campaign.state = Campaign.State.ACTIVE
    campaign.save()
    assert OrmQ.objects.get().key == "cpu"
    assert queue.claim("cpu", "w").evaluation_id == row.pk
    assert waits not in client.get(row.get_absolute_url()).content.decode()


@pytest.mark.parametrize("on_page", [False, True])
def test_what_a_person_asks_for_goes_on_where_it_is_the_row_that_a_pause_holds_back(problem, ada, client, on_page):
    make.make_campaign("night", problems=[problem], state=Campaign.State.PAUSED)
    repos.push("scale", "ada", "k", Campaign="night")
    (attempt,) = intake.reconcile()
    row, root = attempt.evaluations.get(), make.make_user("root", superuser=True)
    OrmQ.objects.all().delete()
    if on_page:
        client.force_login(root)
        client.post(reverse("attempt-rerun", args=[attempt.commit]), {"hardware": "cpu"})
    else:
        assert rerun.rerun_attempt(attempt, root) == [row]
    assert OrmQ.objects.get().key == "cpu"
    assert queue.claim("cpu", "w").evaluation_id == row.pk
    assert attempt.evaluations.get().requested_by == root


def test_compiling_that_a_person_asks_for_waits_for_no_paused_campaign(problem, ada, client):
    make.make_campaign("night", language="cuda", hardware="b200", problems=[problem], state=Campaign.State.PAUSED)
    repos.push("scale", "ada", "k", language=Language.CUDA, Campaign="night")
    (attempt,) = intake.reconcile()
    client.force_login(make.make_user("root", superuser=True))
    url = reverse("admin:attempts_attempt_changelist")
    client.post(url, {"action": "compile_only", "_selected_action": attempt.pk})
    rows = attempt.evaluations.filter(kind=Evaluation.Kind.COMPILE)
    assert sorted(row.hardware for row in rows) == ["b200", "h100", "h200"]
    assert [row.hardware for row in rows if row.waits] == []


def test_cancelling_an_evaluation_leaves_nobody_who_waited_for_it_without_one(problem, ada):
    rows = []
    for slug in ("a", "b", "c"):
        repos.push("scale", "ada", "same", slug=slug, message=slug)
        (attempt,) = intake.reconcile()
        rows.append(attempt.evaluations.get())
    assert [row.duplicate_of for row in rows] == [None, rows[0], rows[0]]
    OrmQ.objects.all().delete()
    assert queue.cancel(rows[0], make.make_user("root"))
    assert OrmQ.objects.get().key == "cpu"
    assert queue.claim("cpu", "w").evaluation_id == rows[1].pk
    for row in rows:
        row.refresh_from_db()
    assert [row.state for row in rows] == ["cancelled", "running", "duplicate"]
    assert [row.duplicate_of for row in rows] == [None, None, rows[1]]


@pytest.mark.parametrize("paused_first", [False, True])
def test_no_pause_of_another_campaign_holds_back_what_a_duplicate_waits_for(problem, ada, client, paused_first):
    active, paused = Campaign.State.ACTIVE, Campaign.State.PAUSED
    make.make_agent("eve")
    before = paused if paused_first else active
    night, day = (make.make_campaign(name, problems=[problem], state=before) for name in ("night", "day"))
    repos.push("scale", "eve", "same", Campaign="night")
    (first,) = intake.reconcile()
    repos.push("scale", "ada", "same", message="Again", Campaign="day")
    (second,) = intake.reconcile()
    row = first.evaluations.get()
    assert second.evaluations.get().duplicate_of == row
    OrmQ.objects.all().delete()
    night.state, day.state = paused, active
    night.save()
    day.save()
    assert queue.wake_all() == ([] if paused_first else ["cpu"])  # resuming has woken whoever measures
    assert "is paused" not in client.get(second.get_absolute_url()).content.decode()
    assert queue.claim("cpu", "w").evaluation_id == row.pk


def test_a_gpu_language_without_campaign_goes_to_the_default_gpu(problem, ada, settings):
    settings.DEFAULT_GPU = "h100"
    assert intake.hardware_for(problem, "cuda", None) == [HardwareName.H100]
    assert intake.hardware_for(problem, "cpp", None) == [HardwareName.CPU]


def test_unknown_problems_and_agents_are_reported_once_and_picked_up_later(problem, caplog):
    _, oid = repos.push("scale", "eve", "v1")
    assert intake.reconcile() == []
    assert intake.reconcile() == []
    event = Event.objects.get(kind="attempt.ignored")
    assert event.data["commit"] == oid
    assert "there is no agent 'eve'" in event.data["why"]
    make.make_agent("eve")
    assert [attempt.commit for attempt in intake.reconcile()] == [oid]


def test_refs_that_are_no_attempts_are_passed_over(problem, ada):
    assert intake.reconcile([MAIN, "refs/heads/attempts/x", "refs/heads/attempts/scale/cpp/ada/gone", "-rf"]) == []


def test_hostile_commit_text_is_bounded(problem, ada):
    repos.push("scale", "ada", "v1", message="s" * 900 + "\n\n" + "b" * 60_000)
    (attempt,) = intake.reconcile()
    assert len(attempt.subject) == 300
    assert len(attempt.body) <= intake.BODY_LIMIT

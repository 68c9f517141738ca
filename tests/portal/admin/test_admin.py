"""What the admin lets people do, and what it does not."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.urls import reverse
from django_q.models import Failure, OrmQ, Schedule, Success

from portal.agents.models import Agent
from portal.agents.tokens import authenticate, issue_token
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
OURS = sorted(
    model._meta.label_lower for model in admin.site._registry if model.__module__.startswith("portal.")
)


@pytest.fixture
def root(client):
    user = make.make_user("root", superuser=True)
    client.force_login(user)
    return user


def staff(client, *permissions: str):
    user = make.make_user(staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return user


def act(client, model: str, action: str, *rows):
    return client.post(
        reverse(f"admin:{model.replace('.', '_')}_changelist"),
        {"action": action, "_selected_action": [row.pk for row in rows]}, follow=True,
    )


@pytest.fixture
def judged():
    problem = make.make_problem()
    make.make_baseline(problem)
    attempt = make.make_attempt(problem)
    return make.make_evaluation(attempt, result=make.make_result(attempt))


@pytest.mark.parametrize("label", OURS)
def test_every_model_lists_and_shows(client, root, judged, label):
    from django.apps import apps

    name = label.replace(".", "_")
    assert client.get(reverse(f"admin:{name}_changelist")).status_code == 200
    row = apps.get_model(label).objects.first()
    if row is not None:
        assert client.get(reverse(f"admin:{name}_change", args=[row.pk])).status_code == 200


def test_djangoq_pages_that_run_arbitrary_python_are_gone():
    for model in (Schedule, Success, Failure, OrmQ):
        assert not admin.site.is_registered(model)


@pytest.mark.parametrize("label", ["evaluations.evaluation", "attempts.attempt", "problems.problem", "events.event",
                                   "solutions.review", "solutions.solution"])
def test_even_a_superuser_cannot_add_edit_or_delete_the_record(client, root, judged, label):
    name = label.replace(".", "_")
    assert client.get(reverse(f"admin:{name}_add")).status_code == 403
    from django.apps import apps

    row = apps.get_model(label).objects.first()
    if row is not None:
        assert client.get(reverse(f"admin:{name}_delete", args=[row.pk])).status_code == 403
        assert client.post(reverse(f"admin:{name}_change", args=[row.pk]), {}).status_code == 403


def test_rerunning_an_evaluation_adds_an_urgent_row_and_an_event(client, root, judged):
    act(client, "evaluations.evaluation", "rerun", judged)
    again = Evaluation.objects.get(state="queued")
    assert (again.attempt, again.priority, again.requested_by) == (judged.attempt, Evaluation.Priority.RERUN, root)
    assert Event.objects.get(kind="evaluation.rerun").actor == root
    judged.refresh_from_db()
    assert judged.state == "done"
    act(client, "evaluations.evaluation", "rerun", judged)
    assert Evaluation.objects.filter(state="queued").count() == 1, "one waiting is enough"


def test_rerunning_attempts_and_problems_covers_all_their_hardware(client, root, judged):
    make.make_evaluation(judged.attempt, hardware="h200", state="cancelled")
    act(client, "attempts.attempt", "rerun", judged.attempt)
    assert sorted(Evaluation.objects.filter(state="queued").values_list("hardware", flat=True)) == ["cpu", "h200"]
    Evaluation.objects.filter(state="queued").delete()
    act(client, "problems.problem", "rerun", judged.attempt.problem)
    queued = Evaluation.objects.filter(state="queued").order_by("id")
    assert [row.attempt.kind for row in queued] == [Attempt.Kind.BASELINE, "agent", "agent"]


def test_rerun_needs_its_permission(client, judged):
    staff(client, "view_evaluation")
    act(client, "evaluations.evaluation", "rerun", judged)
    assert not Evaluation.objects.filter(state="queued").exists()
    staff(client, "view_evaluation", "add_evaluation")
    act(client, "evaluations.evaluation", "rerun", judged)
    assert Evaluation.objects.filter(state="queued").exists()


def test_a_running_rows_token_is_not_shown(client, root):
    running = make.make_evaluation(state="running", lease_token="0123456789abcdef")
    page = client.get(reverse("admin:evaluations_evaluation_change", args=[running.pk]))
    assert "0123456789abcdef" not in page.content.decode()


def test_only_a_superuser_issues_tokens_and_the_new_one_works(client, root):
    agent = make.make_agent("ada")
    old = issue_token(agent)
    response = act(client, "agents.agent", "issue", agent)
    (message,) = [str(message) for message in response.context["messages"]]
    token = message.rpartition(" ")[2]
    assert authenticate("ada", token) == agent
    assert authenticate("ada", old) is None
    assert Event.objects.filter(kind="agent.token-issued", actor=root).exists()


def test_staff_cannot_issue_tokens(client):
    agent = make.make_agent("ada")
    old = issue_token(agent)
    staff(client, "view_agent", "change_agent")
    act(client, "agents.agent", "issue", agent)
    act(client, "agents.agent", "revoke", agent)
    assert authenticate("ada", old) == agent


def test_a_new_campaign_is_checked_and_logged(client, root):
    problem = make.make_problem()
    fields = {"name": "night", "language": "cuda", "hardware": "cpu", "problems": [problem.pk], "state": "active",
              "budget": "{}"}
    page = client.post(reverse("admin:campaigns_campaign_add"), fields)
    assert "do not run on cpu" in page.content.decode()
    client.post(reverse("admin:campaigns_campaign_add"), fields | {"hardware": "h200"})
    assert Campaign.objects.get().hardware == "h200"
    assert Event.objects.get(kind="campaign.created").data["campaign"] == "night"


def test_finishing_a_campaign_stamps_its_end(client, root):
    campaign = make.make_campaign("night", problems=[make.make_problem()])
    url = reverse("admin:campaigns_campaign_change", args=[campaign.pk])
    client.post(url, {"problems": [p.pk for p in campaign.problems.all()], "state": "finished", "budget": "{}"})
    campaign.refresh_from_db()
    assert campaign.finished_at is not None


def test_a_budget_is_an_object_of_known_numbers_and_the_form_says_that_nothing_stops_by_it(client, root):
    url = reverse("admin:campaigns_campaign_add")
    assert "nothing is stopped by it" in client.get(url).content.decode()
    fields = {"name": "night", "language": "cpp", "hardware": "cpu", "problems": [make.make_problem().pk],
              "state": "active"}
    for budget in ("[5]", '{"attempts": "many"}', '{"tries": 5}', '{"attempts": true}', '{"attempts": NaN}',
                   '{"attempts": 1e999}'):
        assert "must be an object of numbers" in client.post(url, fields | {"budget": budget}).content.decode()
    client.post(url, fields | {"budget": '{"attempts": 500, "device_minutes": 1.5}'})
    assert client.get(reverse("campaign-detail", args=[Campaign.objects.get().name])).status_code == 200


def test_an_agents_name_is_fixed_once_it_exists(client, root):
    agent = make.make_agent("ada")
    client.post(
        reverse("admin:agents_agent_change", args=[agent.pk]), {"name": "eve", "kind": "llm", "is_active": "on"}
    )
    agent.refresh_from_db()
    assert (agent.name, agent.kind) == ("ada", Agent.Kind.LLM)

"""What reviewers do through the pages, who may, and what is said when it cannot be done."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from agentcore.gitstore import SolutionsRepository
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.solutions.models import Review, Solution
from tests.portal import factories as make
from tests.portal.pages import showcase

pytestmark = pytest.mark.django_db


def actions(yard) -> list[tuple[str, dict[str, str]]]:
    return [
        (reverse("attempt-review", args=[yard.passed.commit]), {"decision": "approved"}),
        (reverse("attempt-merge", args=[yard.passed.commit]), {"evaluation": str(yard.evaluation.pk)}),
        (reverse("evaluation-rerun", args=[yard.evaluation.pk]), {}),
        (reverse("attempt-rerun", args=[yard.passed.commit]), {"hardware": "cpu"}),
        (reverse("attempt-sanitize", args=[yard.passed.commit]), {"hardware": "cpu"}),
        (reverse("attempt-acknowledge", args=[yard.passed.commit]), {"evaluation": str(yard.evaluation.pk)}),
    ]


def test_a_visitor_is_sent_to_the_login(client: Client, yard) -> None:
    for address, data in actions(yard):
        response = client.post(address, data)
        assert response.status_code == 302
        assert response["Location"].startswith("/login/")
    assert not Review.objects.exists()
    assert Evaluation.objects.filter(priority=Evaluation.Priority.RERUN).count() == 0


def test_an_account_without_the_right_is_refused(client: Client, yard) -> None:
    client.force_login(make.make_user("guest"))
    for address, data in actions(yard):
        response = client.post(address, data)
        assert response.status_code == 403
        assert b"staff rights" in response.content
    assert not Review.objects.exists()


def test_the_permission_to_add_solutions_is_enough(client: Client, yard) -> None:
    user = make.make_user("maintainer")
    user.user_permissions.add(Permission.objects.get(codename="add_solution"))
    client.force_login(user)
    client.post(actions(yard)[0][0], {"decision": "approved"})
    assert Review.objects.get().reviewer_name == "maintainer"


def test_nothing_changes_by_get_or_without_the_csrf_token(yard, reviewer) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(reviewer)
    for address, data in actions(yard):
        assert client.get(address).status_code == 405
        response = client.post(address, data)
        assert response.status_code == 403
        assert b"too old" in response.content
    assert not Review.objects.exists()


def test_a_review_is_recorded_shown_and_logged(as_reviewer: Client, yard) -> None:
    response = as_reviewer.post(
        actions(yard)[0][0], {"decision": "approved", "comment": "Reads <well>.", "evaluation": yard.evaluation.pk},
        follow=True,
    )
    page = response.content.decode()
    assert "Approved." in page
    assert "Reads &lt;well&gt;." in page
    assert Review.objects.get().evaluation == yard.evaluation
    assert Event.objects.filter(kind="review.approved", actor_name="rosa").exists()


def test_a_refused_review_says_why(as_reviewer: Client, yard) -> None:
    page = as_reviewer.post(actions(yard)[0][0], {"decision": "comment"}, follow=True).content.decode()
    assert "Not recorded: a comment needs a text." in page
    page = as_reviewer.post(actions(yard)[0][0], {"decision": "<b>"}, follow=True).content.decode()
    assert "Not recorded" in page
    assert "<b>&#x27;" not in page


def test_a_rejection_needs_a_reason(as_reviewer: Client, yard) -> None:
    address = actions(yard)[0][0]
    page = as_reviewer.post(address, {"decision": "rejected", "comment": " \n"}, follow=True).content.decode()
    assert "Not recorded: a rejection needs a comment that says why." in page
    assert not Review.objects.exists()
    page = as_reviewer.post(address, {"decision": "rejected", "comment": "Too long."}, follow=True).content.decode()
    assert "Rejected." in page
    assert Review.objects.get().decision == Review.Decision.REJECTED


def test_the_login_of_somebody_logged_in_goes_on_to_the_page(client: Client, as_reviewer: Client, yard) -> None:
    address = yard.passed.get_absolute_url()
    assert as_reviewer.get(f"/login/?next={address}")["Location"] == address
    assert as_reviewer.get("/login/?next=https://elsewhere.example/")["Location"] == "/"
    assert client.get(f"/login/?next={address}").status_code == 200


def test_a_merge_that_is_not_approved_is_refused_and_the_page_says_what_is_missing(as_reviewer: Client, yard) -> None:
    address, data = actions(yard)[1]
    page = as_reviewer.post(address, data, follow=True).content.decode()
    assert "Not merged: the attempt is not approved." in page
    assert "It cannot be merged yet" in page
    assert not Solution.objects.exists()
    assert "Not merged: name the evaluation" in as_reviewer.post(address, {}, follow=True).content.decode()


def test_a_rerun_is_queued_once_before_agents_work(as_reviewer: Client, yard) -> None:
    page = as_reviewer.post(actions(yard)[2][0], follow=True).content.decode()
    assert "is queued on cpu" in page
    again = Evaluation.objects.get(priority=Evaluation.Priority.RERUN)
    assert again.attempt == yard.passed
    assert again.requested_by.get_username() == "rosa"
    assert "already queued" in as_reviewer.post(actions(yard)[2][0], follow=True).content.decode()
    assert Evaluation.objects.filter(priority=Evaluation.Priority.RERUN).count() == 1
    assert Event.objects.filter(kind="evaluation.rerun").count() == 1


def test_a_rerun_on_unknown_hardware_is_refused(as_reviewer: Client, yard) -> None:
    page = as_reviewer.post(actions(yard)[3][0], {"hardware": "toaster"}, follow=True).content.decode()
    assert "is no hardware" in page


def test_an_approved_attempt_is_merged_into_the_repository_people_clone(as_reviewer: Client, settings) -> None:
    shown = showcase.build(problems=1, attempts=4, seed=3)
    best = Evaluation.objects.filter(attempt__kind="agent", verdict="passed").order_by("-sol_score").first()
    assert best is not None
    address = best.attempt.get_absolute_url()
    as_reviewer.post(f"{address}review", {"decision": "approved", "evaluation": best.pk})
    page = as_reviewer.post(f"{address}merge", {"evaluation": best.pk}, follow=True).content.decode()
    assert "Merged as" in page
    solution = Solution.objects.get()
    with SolutionsRepository.open(settings.SOLUTIONS_REPOSITORY) as repository:
        head = repository.commit(solution.commit)
    assert head.author_name == best.attempt.agent.name
    listed = as_reviewer.get("/solutions/?format=json").json()["rows"]
    assert [row["commit"] for row in listed] == [solution.commit]
    # Another attempt can now be compared with the solution.
    other = next(attempt for attempt in shown.attempts if attempt.pk != best.attempt_id)
    page = as_reviewer.get(f"{other.get_absolute_url()}?against=solution&diff=split").content.decode()
    assert "current solution" in page
    assert 'class="diff split"' in page

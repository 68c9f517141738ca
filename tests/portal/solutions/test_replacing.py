"""Merging over a solution: the comparison it takes, what it must say, and who answers for it otherwise."""

from __future__ import annotations

import pytest
from django.conf import settings as django_settings

from agentcore.gitstore import SolutionsRepository
from agentcore.vocabulary import Verdict
from portal.agents.models import Agent
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.solutions import publishing, replacing
from portal.solutions.publishing import PublishingError
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db
COMPARE = [Evaluation.Kind.COMPARE]


@pytest.fixture
def eve(tmp_path):
    repos.start(tmp_path)
    return make.make_user("eve")


def judged(source: str, *, slug: str = "main") -> Evaluation:
    Agent.objects.get_or_create(name="ada")
    ref, oid = repos.push("scale", "ada", source, slug=slug)
    intake.reconcile([ref.ref])
    attempt = Attempt.objects.get(commit=oid)
    queue.finish(queue.claim("cpu", "w"), make.make_result(attempt))
    return Evaluation.objects.get(attempt=attempt, kind=Evaluation.Kind.MEASURE)


def finish_comparison(attempt: Attempt, *, comparison=None, **fields) -> Evaluation:
    claim = queue.claim("cpu", "w", COMPARE)
    assert claim is not None
    result = make.make_result(attempt, **fields).model_copy(update={"comparison": comparison})
    assert queue.finish(claim, result)
    return Evaluation.objects.get(pk=claim.evaluation_id)


@pytest.fixture
def first(eve) -> Evaluation:
    """A merged kernel."""
    evaluation = judged("v1")
    publishing.review(evaluation.attempt, eve, "approved")
    publishing.merge(evaluation.attempt, evaluation, eve)
    return evaluation


@pytest.fixture
def second(first, eve) -> Evaluation:
    """An approved one that would replace it."""
    evaluation = judged("v2", slug="later")
    publishing.review(evaluation.attempt, eve, "approved")
    return evaluation


def test_the_first_solution_needs_no_comparison(first):
    assert not Evaluation.objects.filter(kind=Evaluation.Kind.COMPARE).exists()
    assert replacing.replacement(first.attempt, "cpu") is None


def test_an_approval_asks_for_the_comparison_once_and_the_merge_waits_for_it(first, second, eve):
    (asked,) = Evaluation.objects.filter(kind=Evaluation.Kind.COMPARE)
    assert (asked.attempt, asked.against, asked.state) == (second.attempt, first.attempt, "queued")
    publishing.review(second.attempt, eve, "approved")
    assert replacing.ask(second.attempt, "cpu", eve) == asked
    with pytest.raises(PublishingError, match=f"is under way: evaluation {asked.pk}"):
        publishing.merge(second.attempt, second, eve, acknowledged=True)
    assert [e.data["against"] for e in Event.objects.filter(kind="comparison.asked")] == [first.attempt.commit]


def trailers(commit: str) -> dict[str, str]:
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        return repository.commit(commit).trailers


def test_a_proven_improvement_is_merged_with_its_ratio_on_record(first, second, eve):
    done = finish_comparison(second.attempt, comparison=make.make_comparison(1.25))
    solution = publishing.merge(second.attempt, second, eve)
    said = trailers(solution.commit)
    assert said["Replaces"] == first.attempt.commit
    assert said["Compared"].startswith("improved 1.25")
    assert "8 rounds" in said["Compared"]
    assert said["Comparison-Run"] == done.lease_token
    assert "Acknowledged" not in said
    event = Event.objects.filter(kind="solution.merged").first()
    assert event.data["change"] == "improved"
    assert (event.data["comparison"], event.data["replaces"]) == (done.pk, first.attempt.commit)
    assert "acknowledged" not in event.data


@pytest.mark.parametrize(("ratio", "word"), [(1.0, "unproven"), (0.8, "regressed")])
def test_what_is_not_proven_faster_is_merged_only_by_somebody_who_says_so(first, second, eve, ratio, word):
    finish_comparison(second.attempt, comparison=make.make_comparison(ratio))
    assert publishing.obstacles(second.attempt, second) == []
    with pytest.raises(PublishingError, match=f"not proven faster than the current solution: {word}"):
        publishing.merge(second.attempt, second, eve)
    solution = publishing.merge(second.attempt, second, eve, acknowledged=True)
    assert trailers(solution.commit)["Acknowledged"] == "not proven faster, by eve"
    event = Event.objects.filter(kind="solution.merged").first()
    assert (event.actor, event.data["acknowledged"], event.data["change"]) == (eve, True, word)


def test_an_old_kernel_that_fails_now_is_replaced_by_somebody_who_says_so(second, eve):
    failed = make.failed_comparison("the old kernel did not pass (incorrect)")
    finish_comparison(second.attempt, comparison=failed)
    with pytest.raises(PublishingError, match=r"incomparable \(the old kernel did not pass \(incorrect\)\)"):
        publishing.merge(second.attempt, second, eve)
    assert publishing.merge(second.attempt, second, eve, acknowledged=True)


def test_a_kernel_that_fails_in_the_comparison_is_merged_by_nobody(second, eve):
    finish_comparison(second.attempt, verdict=Verdict.REWARD_HACK, comparison=make.failed_comparison("it did not pass"))
    with pytest.raises(PublishingError, match="did not pass when it was compared"):
        publishing.merge(second.attempt, second, eve, acknowledged=True)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"stamp": make.make_stamp(sandbox="none"), "comparison": make.make_comparison()}, "ran without a sandbox"),
        ({"comparison": None}, "holds no comparison"),
        ({"stamp": make.make_stamp(harness_version="0"), "comparison": make.make_comparison()}, "not been compared"),
        ({"verdict": Verdict.INFRA_ERROR, "comparison": make.failed_comparison("disturbed")}, "not been compared"),
    ],
)
def test_a_comparison_nobody_can_rely_on_is_none(second, eve, fields, why):
    finish_comparison(second.attempt, **fields)
    with pytest.raises(PublishingError, match=why):
        publishing.merge(second.attempt, second, eve, acknowledged=True)
    assert replacing.ask(second.attempt, "cpu", eve) is not None


def test_a_comparison_with_an_earlier_solution_counts_for_that_one_only(second, eve):
    finish_comparison(second.attempt, comparison=make.make_comparison(2.0))
    third = judged("v3", slug="third")
    publishing.review(third.attempt, eve, "approved")
    finish_comparison(third.attempt, comparison=make.make_comparison(1.5))
    publishing.merge(third.attempt, third, eve)
    current = third.attempt.commit[:10]
    with pytest.raises(PublishingError, match=f"not been compared with the current solution .{current}"):
        publishing.merge(second.attempt, second, eve, acknowledged=True)


def test_the_same_kernel_measured_again_replaces_itself_without_a_comparison(first, eve):
    queue.enqueue(first.attempt, "cpu")
    queue.finish(queue.claim("cpu", "w"), make.make_result(first.attempt))
    again = Evaluation.objects.filter(attempt=first.attempt).order_by("-id").first()
    publishing.merge(first.attempt, again, eve)


def test_a_rejection_asks_for_nothing(first, eve):
    evaluation = judged("v2", slug="later")
    publishing.review(evaluation.attempt, eve, "rejected", "No.")
    publishing.review(evaluation.attempt, eve, "comment", "Well.")
    assert not Evaluation.objects.filter(kind=Evaluation.Kind.COMPARE).exists()

"""What the quick start's reviewer refuses before anything is published."""

from __future__ import annotations

import pytest

from portal.agents.models import Agent
from portal.evaluations import queue
from portal.events.models import log as log_event
from portal.quickstart.accounts import ensure_agent
from portal.quickstart.merging import ask_for_sanitizers, merge_best
from portal.solutions import publishing
from portal.solutions.models import Solution
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign():
    return make.make_campaign("quickstart", problems=[make.make_problem("rmsnorm")])


@pytest.fixture
def reviewer():
    return make.make_user("reviewer")


def reason(campaign, reviewer) -> str:
    (decision,) = merge_best(campaign, reviewer)
    assert not decision.merged
    assert not Solution.objects.filter(superseded_at=None, attempt__slug="new").exists()
    return decision.reason


def tuner() -> Agent:
    """The quick start's own first agent."""
    return ensure_agent("tuner-1")[0]


def attempt(campaign, latencies: tuple[float, float], slug: str = "new"):
    row = make.make_attempt(campaign.problems.get(), tuner(), campaign=campaign, slug=slug)
    return make.make_evaluation(row, result=make.make_result(row, latencies=latencies))


def test_nothing_tried_is_told_apart_from_nothing_passed(campaign, reviewer) -> None:
    assert "no attempt was made yet" in reason(campaign, reviewer)
    make.make_attempt(campaign.problems.get(), tuner(), campaign=campaign)
    assert "no attempt passed" in reason(campaign, reviewer)


@pytest.mark.parametrize(("name", "kind"), [("ada", "command"), ("tuner-1", "human"), ("tuner-ada", "tuner")])
def test_what_another_agent_pushed_into_the_campaign_waits_for_a_person(campaign, reviewer, name, kind) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    row = make.make_attempt(campaign.problems.get(), make.make_agent(name, kind), campaign=campaign, slug="new")
    make.make_evaluation(row, result=make.make_result(row, latencies=(10.0, 20.0)))
    assert "no attempt was made yet" in reason(campaign, reviewer)
    assert ask_for_sanitizers(campaign, reviewer) == []
    assert not row.reviews.exists()


def test_a_faster_attempt_of_another_agent_does_not_keep_its_own_from_being_chosen(
    campaign, reviewer, monkeypatch
) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    theirs = make.make_attempt(campaign.problems.get(), make.make_agent("ada"), campaign=campaign, slug="ada")
    make.make_evaluation(theirs, result=make.make_result(theirs, latencies=(5.0, 10.0)))
    ours = attempt(campaign, (10.0, 20.0))
    merged = []
    monkeypatch.setattr(publishing, "merge", lambda *arguments: merged.append(arguments))
    (decision,) = merge_best(campaign, reviewer)
    assert decision.merged
    assert merged == [(ours.attempt, ours, reviewer)]
    (review,) = ours.attempt.reviews.all()
    assert review.is_automatic
    assert "which no person reviewed" in review.comment


def test_only_the_given_problems_are_looked_at(campaign, reviewer) -> None:
    other = make.make_problem("softmax")
    campaign.problems.add(other)
    assert [decision.problem for decision in merge_best(campaign, reviewer, problems=[other])] == ["softmax"]
    assert len(merge_best(campaign, reviewer)) == 2


def test_no_baseline_to_compare_with(campaign, reviewer) -> None:
    attempt(campaign, (10, 20))
    assert "no PyTorch baseline passed" in reason(campaign, reviewer)


def test_slower_than_the_baseline(campaign, reviewer) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    attempt(campaign, (50, 100))
    assert "slower than the PyTorch baseline (0.80×)" in reason(campaign, reviewer)


def publish(campaign, user) -> None:
    """An attempt of 20 and 40 µs, published as if ``user`` had merged it on the pages."""
    published = attempt(campaign, (20.0, 40.0), slug="old")
    solution = Solution.objects.create(
        problem=campaign.problems.get(), language="cpp", hardware="cpu", attempt=published.attempt,
        evaluation=published, commit=make.oid(), published_at=published.finished_at,
    )
    log_event("solution.merged", user, attempt=published.attempt, commit=solution.commit)


def test_not_proven_faster_than_what_is_published(campaign, reviewer) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    publish(campaign, reviewer)
    attempt(campaign, (19.95, 39.9))
    assert "not proven faster than the current solution (unproven)" in reason(campaign, reviewer)


def test_what_a_person_merged_stays_however_good_a_later_attempt_is(campaign, reviewer) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    publish(campaign, make.make_user("ada", superuser=True))
    attempt(campaign, (10.0, 20.0))
    assert "a person chose the current solution" in reason(campaign, reviewer)


def test_what_a_person_merged_of_another_agent_as_the_quick_starts_reviewer_stays(campaign, reviewer) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    publish(campaign, reviewer)
    Agent.objects.filter(name="tuner-1").update(name="ada")
    attempt(campaign, (10.0, 20.0))
    assert "a person chose the current solution" in reason(campaign, reviewer)


@pytest.mark.parametrize(("ratio", "merges"), [(2.0, True), (1.0, False)])
def test_its_own_earlier_choice_is_replaced_by_what_is_faster_side_by_side(
    campaign, reviewer, monkeypatch, ratio: float, merges: bool
) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    publish(campaign, reviewer)
    better = attempt(campaign, (10.0, 20.0))
    merged = []
    monkeypatch.setattr(publishing, "merge", lambda *arguments: merged.append(arguments))

    def worker(asked) -> None:
        claim = queue.claim("cpu", "w", [asked.kind])
        result = make.make_result(better.attempt).model_copy(update={"comparison": make.make_comparison(ratio)})
        assert queue.finish(claim, result)

    (decision,) = merge_best(campaign, reviewer, worker)
    assert decision.merged is merges
    assert merged == ([(better.attempt, better, reviewer)] if merges else [])
    assert merges or "not proven faster than the current solution side by side (unproven 1.0" in decision.reason


def test_a_comparison_that_nobody_makes_merges_nothing(campaign, reviewer, settings) -> None:
    settings.EVALUATION_DEADLINE_S = 0
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    publish(campaign, reviewer)
    attempt(campaign, (10.0, 20.0))
    assert "is under way" in reason(campaign, reviewer)


def sanitized(campaign, reviewer, *findings):
    """The best attempt of a problem with a baseline, measured where sanitizers are; asked for, and then looked at."""
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    row = make.make_attempt(campaign.problems.get(), tuner(), campaign=campaign, slug="new")
    stamp = make.make_stamp(sanitizers=["address", "undefined", "thread"])
    make.make_evaluation(row, result=make.make_result(row, latencies=(10.0, 20.0), stamp=stamp))
    (run,) = ask_for_sanitizers(campaign, reviewer)
    assert (run.kind, run.state, run.attempt) == ("sanitize", "queued", row)
    assert ask_for_sanitizers(campaign, reviewer) == [run]
    run.delete()
    make.make_sanitizer_run(row, *findings)
    assert ask_for_sanitizers(campaign, reviewer) == []
    return row


def test_what_sanitizers_found_is_left_to_a_person(campaign, reviewer) -> None:
    sanitized(campaign, reviewer, make.make_finding())
    assert "ended with findings" in reason(campaign, reviewer)


def test_what_they_found_clean_has_no_obstacle(campaign, reviewer) -> None:
    row = sanitized(campaign, reviewer)
    evaluation = row.evaluations.get(kind="measure")
    publishing.review(row, reviewer, "approved", evaluation=evaluation)
    assert publishing.obstacles(row, evaluation) == []


def test_no_run_is_asked_for_what_is_not_merged(campaign, reviewer) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    row = make.make_attempt(campaign.problems.get(), tuner(), campaign=campaign, slug="new")
    stamp = make.make_stamp(sanitizers=["address"])
    make.make_evaluation(row, result=make.make_result(row, latencies=(50.0, 100.0), stamp=stamp))
    assert ask_for_sanitizers(campaign, reviewer) == []

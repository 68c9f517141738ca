"""What the quick start's reviewer refuses before anything is published."""

from __future__ import annotations

import pytest

from portal.quickstart.merging import merge_best
from portal.solutions.models import Solution
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign():
    return make.make_campaign("quickstart", problems=[make.make_problem("rmsnorm")])


def reason(campaign) -> str:
    (decision,) = merge_best(campaign, make.make_user("reviewer"))
    assert not decision.merged
    assert not Solution.objects.filter(superseded_at=None, attempt__slug="new").exists()
    return decision.reason


def attempt(campaign, latencies: tuple[float, float], slug: str = "new"):
    row = make.make_attempt(campaign.problems.get(), campaign=campaign, slug=slug)
    return make.make_evaluation(row, result=make.make_result(row, latencies=latencies))


def test_nothing_passed(campaign) -> None:
    assert "no attempt passed" in reason(campaign)


def test_no_baseline_to_compare_with(campaign) -> None:
    attempt(campaign, (10, 20))
    assert "no PyTorch baseline passed" in reason(campaign)


def test_slower_than_the_baseline(campaign) -> None:
    make.make_baseline(campaign.problems.get(), (40.0, 80.0))
    attempt(campaign, (50, 100))
    assert "slower than the PyTorch baseline (0.80×)" in reason(campaign)


def test_not_proven_faster_than_what_is_published(campaign) -> None:
    problem = campaign.problems.get()
    make.make_baseline(problem, (40.0, 80.0))
    published = attempt(campaign, (20.0, 40.0), slug="old")
    Solution.objects.create(
        problem=problem, language="cpp", hardware="cpu", attempt=published.attempt, evaluation=published,
        commit=make.oid(), published_at=published.finished_at,
    )
    attempt(campaign, (19.95, 39.9))
    assert "not proven faster than the current solution (unproven)" in reason(campaign)

"""What page tests share: a portal with a little of everything, and a logged-in reviewer."""

from __future__ import annotations

import pytest
from django.test import Client

from agentcore.vocabulary import CheckName, Verdict
from tests.portal import factories as make


@pytest.fixture
def yard(db):
    """One campaign with a scored, a failed and a queued attempt, rows only (no repository behind them)."""

    class Yard:
        problem = make.make_problem("rmsnorm_h4096", brief="# Brief\n\nNormalise **rows**.")
        other = make.make_problem("untouched")
        campaign = make.make_campaign("spring", problems=[problem, other])
        agent = make.make_agent("atlas")
        baseline = make.make_baseline(problem)

    yard = Yard()
    yard.passed = make.make_attempt(yard.problem, yard.agent, slug="a", campaign=yard.campaign, subject="Wider loads")
    yard.evaluation = make.make_evaluation(yard.passed, result=make.make_result(yard.passed, heldout=(30.0,)))
    yard.failed = make.make_attempt(
        yard.problem, yard.agent, slug="b", campaign=yard.campaign, subject="Skip the tail", parent=yard.passed
    )
    make.make_evaluation(yard.failed, result=make.make_result(
        yard.failed, latencies=(None, None), verdict=Verdict.INCORRECT, failed_check=CheckName.MATCHES_REFERENCE,
        message="y[3]: got 1, expected 2",
    ))
    yard.waiting = make.make_attempt(yard.problem, yard.agent, slug="c", campaign=yard.campaign, subject="Prefetch")
    yard.queued = make.make_evaluation(yard.waiting)
    return yard


@pytest.fixture
def reviewer(db):
    return make.make_user("rosa", staff=True)


@pytest.fixture
def as_reviewer(reviewer) -> Client:
    client = Client()
    client.force_login(reviewer)
    return client

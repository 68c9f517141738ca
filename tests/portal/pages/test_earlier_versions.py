"""A score of an earlier version of a problem says so wherever scores are listed, and one of this version does not."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from portal.problems.models import Problem
from portal.solutions.models import Solution
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
MARK = "</span>earlier version</span>"


def marks(client: Client, address: str) -> int:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode().count(MARK)


def test_lists_and_the_lineage_mark_what_was_measured_before_the_problem_changed(client: Client, yard) -> None:
    later = make.make_attempt(yard.problem, yard.agent, slug="d", subject="Unroll", parent=yard.failed)
    Solution.objects.create(
        problem=yard.problem, language="cpp", hardware="cpu", attempt=yard.passed, evaluation=yard.evaluation,
        commit=make.oid(), published_at=timezone.now(),
    )
    compare = f"/compare/?a={yard.passed.commit}&b={yard.failed.commit}"
    addresses = ("/attempts/", "/", "/solutions/", compare, yard.passed.get_absolute_url(), later.get_absolute_url())
    assert [marks(client, address) for address in addresses] == [0] * len(addresses)

    Problem.objects.filter(pk=yard.problem.pk).update(digest="f" * 64)
    make.make_evaluation(later, result=make.make_result(later).model_copy(update={"problem_digest": "f" * 64}))
    # What waits has no result yet. An attempt's page lists its own evaluations, and what it was built from and what on
    # it: the two that stand in its line, and not the one that was measured since.
    expected = {
        "/attempts/": 2 + 1, "/": 2, "/solutions/": 1, compare: 2,
        yard.passed.get_absolute_url(): 2, later.get_absolute_url(): 2,
    }
    assert {address: marks(client, address) for address in expected} == expected
    rows = {row["subject"]: row for row in client.get("/attempts/?format=json").json()["rows"]}
    assert rows["Wider loads"]["earlier_version"] is rows["Skip the tail"]["earlier_version"] is True
    assert rows["Prefetch"]["earlier_version"] is rows["Unroll"]["earlier_version"] is False
    assert client.get("/solutions/?format=json").json()["rows"][0]["earlier_version"] is True

"""What A/B comparisons proved, on the pages of both kernels, of the problem, and of the two side by side."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from agentcore.vocabulary import Verdict
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.pages import proofs
from portal.solutions.models import Solution
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def compared(new, old, comparison=None, **fields) -> Evaluation:
    """A finished A/B comparison of two attempts, recorded as a worker does."""
    result = make.make_result(new, **fields).model_copy(update={"comparison": comparison})
    return make.make_evaluation(new, result=result, kind=Evaluation.Kind.COMPARE, against=old)


def rows(client: Client, address: str) -> list[dict]:
    joint = "&" if "?" in address else "?"
    return client.get(f"{address}{joint}format=json&table=comparisons").json()["rows"]


@pytest.fixture
def faster(yard):
    attempt = make.make_attempt(yard.problem, yard.agent, slug="d", subject="Faster", parent=yard.passed)
    make.make_evaluation(attempt, result=make.make_result(attempt, latencies=(10.0, 20.0)))
    return attempt


@pytest.fixture
def merged(yard):
    return Solution.objects.create(
        problem=yard.problem, language="cpp", hardware="cpu", attempt=yard.passed, evaluation=yard.evaluation,
        commit=make.oid(), published_at=timezone.now(),
    )


def test_each_outcome_is_shown_with_ratio_interval_and_link_on_both_kernels_pages(
    client: Client, yard, faster, merged
) -> None:
    outcomes = [(1.25, "improved"), (1.0, "unproven"), (0.8, "regressed")]
    made = [compared(faster, yard.passed, make.make_comparison(ratio)) for ratio, _ in outcomes]
    expected = [(row.pk, change) for row, (_, change) in zip(made, outcomes, strict=True)][::-1]
    for address in (faster.get_absolute_url(), yard.passed.get_absolute_url(), "/problems/rmsnorm_h4096/",
                    f"/compare/?a={yard.passed.commit}&b={faster.commit}"):
        shown = rows(client, address)
        assert [(row["evaluation"], row["change"]) for row in shown] == expected, address
        assert {(row["new_commit"], row["old_commit"]) for row in shown} == {(faster.commit, yard.passed.commit)}
        assert all(row["low"] <= row["ratio"] <= row["high"] for row in shown)
        page = client.get(address).content.decode()
        assert f'<a href="{made[0].get_absolute_url()}">#{made[0].pk}</a>' in page
        assert f'<a href="{faster.get_absolute_url()}"><code>{faster.commit[:10]}</code></a>' in page
        assert "1.250×" in page
    assert "this one, current solution" in client.get(yard.passed.get_absolute_url()).content.decode()


def test_the_problems_page_says_how_the_best_stands_to_the_solution(client: Client, yard, faster, merged) -> None:
    address = "/problems/rmsnorm_h4096/"
    assert "as fast as the current solution" not in client.get(address).content.decode()
    row = compared(faster, yard.passed, make.make_comparison(1.25))
    page = client.get(address).content.decode()
    assert "The best attempt is 1.250× as fast as the current solution" in page
    assert f'Measured in turn: <a href="{row.get_absolute_url()}">' in page
    # One of an earlier version of the problem is kept in the table and proves nothing about it as it is.
    yard.problem.digest = "e" * 64
    yard.problem.save()
    shown = proofs.of_track(yard.problem.pk, "cpp", "cpu")
    assert proofs.between(faster, yard.passed, shown) is None
    assert rows(client, address)[0]["note"] == "of an earlier version of the problem"


def test_one_that_waits_failed_or_says_why_not_is_shown_as_such(client: Client, yard, faster) -> None:
    said = "the old kernel did not pass (<b>)"
    compared(faster, yard.passed, make.failed_comparison(said))
    compared(faster, yard.passed, None, verdict=Verdict.RUNTIME_ERROR, latencies=(None, None))
    queue.enqueue(faster, "cpu", kind=Evaluation.Kind.COMPARE, against=yard.passed)
    shown = rows(client, faster.get_absolute_url())
    assert [(row["change"], row["ratio"]) for row in shown] == [
        ("queued", None), ("incomparable", None), ("incomparable", None),
    ]
    assert shown[1]["note"] == "it ended as runtime_error" and shown[2]["note"] == said
    page = client.get(faster.get_absolute_url()).content.decode()
    assert "did not pass (&lt;b&gt;)" in page and "did not pass (<b>)" not in page


def test_the_same_kernel_of_another_attempt_shares_the_proof_and_others_do_not(client: Client, yard, faster) -> None:
    compared(faster, yard.passed, make.make_comparison())
    twin = make.make_attempt(yard.problem, yard.agent, slug="twin", kernel_tree=faster.kernel_tree)
    make.make_evaluation(twin, state="duplicate", duplicate_of=faster.evaluations.get(kind="measure"))
    assert len(rows(client, twin.get_absolute_url())) == 1
    assert "A/B comparisons" not in client.get(yard.waiting.get_absolute_url()).content.decode()
    assert "A/B comparisons" not in client.get("/problems/untouched/").content.decode()


def test_many_cost_no_more_queries_and_no_endless_page(
    client: Client, yard, faster, django_assert_max_num_queries
) -> None:
    for _ in range(15):
        compared(faster, yard.passed, make.make_comparison())
    with django_assert_max_num_queries(1):
        assert len(proofs.of_kernel(faster)) == 15
    page = client.get(faster.get_absolute_url()).content.decode()
    assert "5 more rows are in the CSV and JSON." in page

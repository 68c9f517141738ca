"""Comparisons on pages: two attempts, two evaluations, an attempt and what was there, merging over a solution."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from agentcore.vocabulary import HardwareName
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.solutions import publishing
from portal.solutions.models import Solution
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def faster(yard):
    """An attempt built on the passed one, twice as fast."""
    attempt = make.make_attempt(yard.problem, yard.agent, slug="d", subject="Faster", parent=yard.passed)
    return make.make_evaluation(attempt, result=make.make_result(attempt, latencies=(10.0, 20.0)))


@pytest.fixture
def merged(yard):
    """The passed attempt is the current solution (its row; no repository behind it)."""
    return Solution.objects.create(
        problem=yard.problem, language="cpp", hardware="cpu", attempt=yard.passed, evaluation=yard.evaluation,
        commit=make.oid(), published_at=timezone.now(),
    )


def test_two_attempts_are_compared_with_their_noise(client: Client, yard, faster) -> None:
    address = f"/compare/?a={yard.passed.commit[:12]}&b={faster.attempt.commit}"
    page = get(client, address)
    assert "improved" in page
    assert "B is 2.000× as fast as A" in page
    rows = client.get(address + "&format=json").json()["rows"]
    assert [row["ratio"] for row in rows] == [2.0, 2.0]


def test_two_evaluations_of_one_attempt_are_compared_by_number(client: Client, yard) -> None:
    again = make.make_evaluation(yard.passed, result=make.make_result(yard.passed, latencies=(20.2, 40.4)))
    page = get(client, f"/compare/?a=%23{yard.evaluation.pk}&b=%23{again.pk}")
    assert "unproven" in page
    assert "0.9901×" in page
    assert f'value="#{again.pk}"' in page


def test_what_makes_two_evaluations_incomparable_is_said_instead_of_a_ratio(client: Client, yard) -> None:
    other = make.make_attempt(yard.problem, yard.agent, slug="e")
    stamp = make.make_stamp(device_name="<i>Another</i> device", harness_version="0")
    make.make_evaluation(other, result=make.make_result(other, latencies=(1.0, 2.0), stamp=stamp))
    page = get(client, f"/compare/?a={yard.passed.commit}&b={other.commit}")
    assert "incomparable" in page
    assert "Another device model: &lt;i&gt;Another&lt;/i&gt; device against A cpu device." in page
    assert "Another harness version: 0 against" in page
    assert "as fast as A" not in page


@pytest.mark.parametrize(
    "query",
    ["?a=zzzzzzzz&b=1", "?a=abcdef12&b=abcdef13", "?a=%3Cscript%3E&b=", "?a=%23999999&b=%23x", "?a=%23&b=%23-1"],
)
def test_what_cannot_be_compared_is_explained(client: Client, yard, query: str) -> None:
    page = get(client, "/compare/" + query)
    assert 'role="alert"' in page
    assert "<script>" not in page


def test_an_evaluation_that_measured_nothing_is_not_compared(client: Client, yard, faster) -> None:
    row = make.make_evaluation(yard.passed, kind=Evaluation.Kind.COMPILE)
    assert "its kind is compile" in get(client, f"/compare/?a=%23{row.pk}&b=%23{faster.pk}")


def against(client: Client, attempt) -> dict[str, dict[str, object]]:
    answer = client.get(f"{attempt.get_absolute_url()}?format=json&table=against").json()
    assert answer["table"] == "against"
    return {row["against"]: row for row in answer["rows"]}


def test_an_attempt_shows_how_it_stands_to_its_parent_the_solution_and_the_baseline(
    client: Client, yard, faster, merged
) -> None:
    rows = against(client, faster.attempt)
    assert {name: row["change"] for name, row in rows.items()} == {
        "the attempt it was built on": "improved", "the current solution": "improved",
        "the PyTorch baseline": "improved",
    }
    assert rows["the PyTorch baseline"]["ratio"] == pytest.approx(4.0)
    page = get(client, faster.attempt.get_absolute_url())
    assert "Faster than what was there?" in page
    assert f"/compare/?a=%23{yard.evaluation.pk}&amp;b=%23{faster.pk}" in page


def test_what_it_cannot_be_compared_with_is_listed_with_the_reason(client: Client, yard) -> None:
    built_on_failed = make.make_attempt(yard.problem, yard.agent, slug="f", parent=yard.failed)
    stamp = make.make_stamp(sandbox="unshare")
    make.make_evaluation(built_on_failed, result=make.make_result(built_on_failed, stamp=stamp))
    rows = against(client, built_on_failed)
    assert rows["the attempt it was built on"]["change"] == "incomparable"
    assert "did not pass (incorrect)" in rows["the attempt it was built on"]["note"]
    assert "another sandbox: unshare against bubblewrap" in rows["the PyTorch baseline"]["note"]


def test_a_failed_attempt_and_the_first_of_all_show_no_such_table(client: Client, yard) -> None:
    assert "Faster than what was there?" not in get(client, yard.failed.get_absolute_url())
    lone = make.make_attempt(make.make_problem("lone"), yard.agent)
    make.make_evaluation(lone, result=make.make_result(lone))
    assert "Faster than what was there?" not in get(client, lone.get_absolute_url())


def test_a_duplicate_shows_how_the_kernel_it_equals_stands(client: Client, yard, faster) -> None:
    twin = make.make_attempt(yard.problem, yard.agent, slug="twin", parent=yard.passed)
    make.make_evaluation(twin, state="duplicate", duplicate_of=faster)
    assert against(client, twin)["the attempt it was built on"]["change"] == "improved"


def finish(evaluation: Evaluation, ratio: float = 1.25, comparison=None) -> None:
    claim = queue.claim(evaluation.hardware, "w", [Evaluation.Kind.COMPARE])
    comparison = comparison or make.make_comparison(ratio)
    result = make.make_result(evaluation.attempt).model_copy(update={"comparison": comparison})
    assert queue.finish(claim, result)


def test_a_reviewer_is_told_what_would_be_replaced_and_asks_for_the_comparison(
    as_reviewer: Client, client: Client, yard, faster, merged
) -> None:
    address = faster.attempt.get_absolute_url()
    assert "Replaces the current solution" not in get(client, address)
    page = get(as_reviewer, address)
    assert "Replaces the current solution" in page
    assert "it has not been compared with the current solution" in page
    page = as_reviewer.post(f"{address}side-by-side", {"hardware": "cpu"}, follow=True).content.decode()
    assert "is queued on cpu" in page
    (asked,) = Evaluation.objects.filter(kind=Evaluation.Kind.COMPARE)
    assert (asked.attempt, asked.against) == (faster.attempt, yard.passed)
    assert f"comparison #{asked.pk}" in page
    assert "is under way" in page
    assert "Compare side by side" not in page
    assert Event.objects.filter(kind="comparison.asked", actor_name="rosa").count() == 1
    for hardware in ("toaster", "h200"):
        answer = as_reviewer.post(f"{address}side-by-side", {"hardware": hardware}, follow=True)
        assert "Not queued" in answer.content.decode()


def test_the_merge_page_shows_the_paired_ratio_and_warns_where_nothing_is_proven(
    as_reviewer: Client, yard, faster, merged, reviewer
) -> None:
    address = faster.attempt.get_absolute_url()
    publishing.review(faster.attempt, reviewer, "approved")
    finish(Evaluation.objects.get(kind=Evaluation.Kind.COMPARE), 1.25)
    page = get(as_reviewer, address)
    assert "this attempt is 1.250× as fast as the current solution" in page
    assert "Faster than the current solution: 1.250× as fast." in page
    assert "acknowledged" not in page
    as_reviewer.post(f"{address}side-by-side", {"hardware": "cpu"})
    finish(Evaluation.objects.filter(kind=Evaluation.Kind.COMPARE, state="queued").get(), 1.0)
    page = get(as_reviewer, address)
    assert "Neither faster nor slower than the current solution beyond the noise" in page
    assert 'name="acknowledged"' in page
    page = as_reviewer.post(f"{address}merge", {"evaluation": faster.pk}, follow=True).content.decode()
    assert "Not merged: it is not proven faster than the current solution: unproven" in page


def test_a_slower_kernel_is_called_slower_before_it_is_merged(
    as_reviewer: Client, client: Client, yard, faster, merged, reviewer
) -> None:
    """First by the two measurements, then by the comparison side by side; and against the baseline either way."""
    slow = make.make_attempt(yard.problem, yard.agent, slug="slow", subject="Slower", parent=faster.attempt)
    make.make_evaluation(slow, result=make.make_result(slow, latencies=(200.0, 400.0)))
    address = slow.get_absolute_url()
    page = get(as_reviewer, address)
    alerts = re.findall(r'<p class="notice tone-bad" role="alert"><b>([^<]*)</b>', page)
    assert [alert.partition(":")[0] for alert in alerts] == [
        "Slower than the current solution", "Slower than the PyTorch baseline",
    ], "what it was built on does not matter here"
    assert alerts[0] == "Slower than the current solution: a call takes 900 % longer (0.1000× as fast)."
    assert "Slower than" not in get(client, address), "only somebody who can merge is warned of it"
    publishing.review(slow, reviewer, "approved")
    finish(Evaluation.objects.get(kind=Evaluation.Kind.COMPARE), 0.8)
    page = get(as_reviewer, address)
    assert "Slower than the current solution: a call takes 25 % longer (0.8000× as fast).</b> Merging puts it" in page
    assert page.count("Slower than the current solution") == 1
    assert page.count("Slower than the PyTorch baseline") == 1
    assert page.index("Slower than the PyTorch baseline") < page.index("Merge into solutions")


def test_the_acknowledgement_reaches_the_merge(
    as_reviewer: Client, yard, faster, merged, reviewer, monkeypatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(publishing, "merge", lambda *a, acknowledged: asked.append(acknowledged) or merged)
    address = f"{faster.attempt.get_absolute_url()}merge"
    for data in ({}, {"acknowledged": "on"}, {"acknowledged": "perhaps"}):
        as_reviewer.post(address, {"evaluation": faster.pk, **data})
    assert asked == [False, True, False]


def test_a_comparisons_own_page_shows_ratio_workloads_and_rounds(client: Client, yard, faster) -> None:
    row = queue.enqueue(faster.attempt, "cpu", kind=Evaluation.Kind.COMPARE, against=yard.passed)
    assert yard.passed.commit[:10] in get(client, row.get_absolute_url())
    finish(row)
    page = get(client, row.get_absolute_url())
    assert "this kernel is 1.250× as fast as the earlier kernel" in page
    assert "Measured in turn, 8 rounds" in page
    rounds = client.get(f"{row.get_absolute_url()}?format=json&table=rounds").json()["rows"]
    assert [r["first"] for r in rounds] == ["new", "old"] * 4
    # It says nothing new about the attempt's own standing.
    assert "evaluation #" + str(faster.pk) in get(client, faster.attempt.get_absolute_url())


def test_a_comparison_without_a_ratio_says_why(client: Client, yard, faster) -> None:
    row = queue.enqueue(faster.attempt, "cpu", kind=Evaluation.Kind.COMPARE, against=yard.passed)
    finish(row, comparison=make.failed_comparison("the old kernel did not pass (<b>)"))
    page = get(client, row.get_absolute_url())
    assert "The old kernel did not pass (&lt;b&gt;)." in page
    assert "as fast as" not in page


def test_a_rival_on_another_hardware_is_none(client: Client, yard, faster, merged) -> None:
    h200 = make.make_attempt(yard.problem, yard.agent, slug="g", language="cuda")
    stamp = make.make_stamp(HardwareName.H200)
    make.make_evaluation(h200, result=make.make_result(h200, hardware=HardwareName.H200, stamp=stamp))
    assert "Faster than what was there?" not in get(client, h200.get_absolute_url())

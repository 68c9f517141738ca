"""One problem in one track: whose time the baseline is, attempts at an earlier version, what the URL asked for."""

from __future__ import annotations

import io
import re

import pytest
from django.test import Client
from rich.console import Console

from portal.evaluations.models import Evaluation
from portal.problems.models import Workload
from portal.quickstart.display import campaign_table, take
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def stat(page: str, label: str) -> str:
    """The figure of this name at the head of a page, with its note."""
    found = re.search(rf'<div class="stat"><dt>(?:<a[^>]*>)?{label}(?:</a>)?</dt>(.*?)</div>', page, re.DOTALL)
    assert found, label
    return " ".join(re.sub(r"<[^>]+>", " ", found[1]).split())


def test_the_baseline_shown_is_the_one_that_the_speedup_is_over(client: Client, yard) -> None:
    page = get(client, yard.problem.get_absolute_url())
    assert stat(page, "baseline T_b") == "56.6 µs geometric mean over workloads", "40 and 80 µs, by one baseline"
    compiled = make.make_baseline_attempt(yard.problem, "compile")
    make.make_evaluation(compiled, result=make.make_result(compiled, latencies=(10.0, 400.0)))
    page = get(client, yard.problem.get_absolute_url())
    best = Evaluation.objects.get(pk=yard.evaluation.pk)
    assert best.speedup == pytest.approx(1.0), "T_b is 10 and 80 µs, the attempt takes 20 and 40"
    assert stat(page, "speedup").startswith("1.00×")
    assert stat(page, "baseline T_b") == (
        "28.3 µs geometric mean over workloads of the fastest of each; the hand-written baseline alone: 56.6 µs, 2.00×"
    )
    assert "PyTorch: the hand-written baseline alone" in get(client, yard.passed.get_absolute_url())
    row = next(row for row in take(yard.campaign).rows if row.problem == yard.problem.name)
    assert row.baseline_us == pytest.approx(row.speedup * row.best_us)
    console = Console(width=120, file=io.StringIO())
    console.print(campaign_table(take(yard.campaign)))
    assert "28.3" in console.file.getvalue()


def test_the_quick_start_shows_a_baseline_before_anything_is_scored(yard) -> None:
    make.make_baseline(yard.other, (100.0, 100.0))
    row = next(row for row in take(yard.campaign).rows if row.problem == yard.other.name)
    assert (row.best_us, row.baseline_us) == (None, pytest.approx(100.0))


def test_attempts_at_an_earlier_version_of_the_problem_are_told_apart_everywhere(client: Client, yard) -> None:
    said = "Of an earlier version of the problem"
    addresses = (yard.passed.get_absolute_url(), yard.evaluation.get_absolute_url())
    for address in addresses:
        assert said not in get(client, address), address
    assert "earlier version" not in get(client, yard.problem.get_absolute_url())
    yard.problem.digest = "e" * 64
    yard.problem.save()
    for address in addresses:
        assert said in get(client, address), address
    page = get(client, yard.problem.get_absolute_url())
    assert "1 passed (all of an earlier version of the problem)" in stat(page, "attempts")
    assert "No attempt has passed yet" not in page
    assert "No attempt has passed since the problem changed: 1 passed an earlier version" in page
    again = make.make_attempt(yard.problem, yard.agent, slug="again")
    make.make_evaluation(again, result=make.make_result(again))
    page = get(client, yard.problem.get_absolute_url())
    assert "2 passed (1 of an earlier version of the problem)" in stat(page, "attempts")
    assert "since the problem changed" not in page


def test_a_track_that_nothing_was_attempted_in_is_named_and_so_is_what_is_shown(client: Client, yard) -> None:
    address = yard.problem.get_absolute_url()
    for query, said in (
        ("hardware=b200", "Nothing was attempted on b200 yet. Shown instead: cpp on cpu."),
        ("language=cuda&hardware=h200", "Nothing was attempted in cuda on h200 yet. Shown instead: cpp on cpu."),
        ("language=triton", "Nothing was attempted in triton yet. Shown instead: cpp on cpu."),
        ("hardware=%3Cb%3E", "Nothing was attempted on &lt;b&gt; yet."),
    ):
        assert said in get(client, f"{address}?{query}"), query
    for query in ("", "hardware=cpu", "language=cpp&hardware=cpu", "hardware="):
        assert "Shown instead" not in get(client, f"{address}?{query}"), query


def test_the_caption_of_a_history_without_scores_says_nothing_of_the_best(client: Client, yard) -> None:
    assert "best beyond noise S = 0." in get(client, yard.problem.get_absolute_url())
    lone = make.make_attempt(yard.other)
    make.make_evaluation(lone, result=make.make_result(lone))
    page = get(client, yard.other.get_absolute_url())
    assert "1 attempt, 1 passed.<" in page and "beyond noise" not in page


def test_workloads_that_the_cpu_is_given_for_want_of_its_own_say_so(client: Client, yard) -> None:
    def targets() -> set[str]:
        rows = client.get(f"{yard.problem.get_absolute_url()}?format=json&table=workloads").json()["rows"]
        return {row["target"] for row in rows}

    assert targets() == {"GPU", "CPU"}
    Workload.objects.filter(problem=yard.problem, target=Workload.Target.CPU).delete()
    assert targets() == {"GPU and CPU"}

"""A page costs a fixed number of queries, however much there is to show."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation, WorkloadResult
from portal.events.models import Event
from portal.pages import charts
from portal.problems.models import BoundCount, Problem, WorkloadBound
from tests.portal import factories as make
from tests.portal.pages.test_live import poll_address

pytestmark = pytest.mark.django_db
ATTEMPTS = 1_000


@pytest.fixture
def crowded(yard):
    """A thousand evaluated attempts at one problem, written in bulk."""
    now = timezone.now()
    ref = "refs/heads/attempts/rmsnorm_h4096/cpp/atlas/crowd"
    attempts = Attempt.objects.bulk_create(
        Attempt(problem=yard.problem, language="cpp", agent=yard.agent, slug="crowd", ref=ref, commit=make.oid(),
                kernel_tree=make.oid(), campaign=yard.campaign, subject=f"Try {number}", authored_at=now,
                received_at=now + timedelta(seconds=number))
        for number in range(ATTEMPTS)
    )
    evaluations = Evaluation.objects.bulk_create(
        Evaluation(attempt=attempt, hardware="cpu", state="done",
                   verdict="passed" if number % 3 else "incorrect", finished_at=now + timedelta(seconds=number),
                   problem_digest=yard.problem.digest, latency_geomean_us=30 + number % 17 if number % 3 else None,
                   speedup=1.5 if number % 3 else None, sol_score=0.3 + (number % 50) / 100 if number % 3 else None)
        for number, attempt in enumerate(attempts)
    )
    WorkloadResult.objects.bulk_create(
        WorkloadResult(evaluation=evaluation, uuid=f"w{index}", index=index, verdict="passed",
                       latency_us=30 + evaluation.pk % 17, latency_low_us=29, latency_high_us=31, t_sol_us=5,
                       baseline_us=60)
        for evaluation in evaluations if evaluation.verdict == "passed" for index in range(2)
    )
    assert [attempt.pk - attempts[0].pk for attempt in attempts] == list(range(ATTEMPTS))
    Attempt.objects.filter(pk__gt=attempts[0].pk).update(parent_id=F("pk") - 1)
    Event.objects.bulk_create(
        Event(kind="attempt.pushed", actor_name="atlas", attempt=attempt, problem=yard.problem) for attempt in attempts
    )
    yard.last = attempts[-1]
    return yard


def test_list_pages_stay_within_their_queries(client: Client, crowded, django_assert_max_num_queries) -> None:
    for address, most in (
        ("/", 14), ("/campaigns/", 2), ("/problems/", 6), ("/problems/rmsnorm_h4096/", 26), ("/attempts/", 9),
        ("/attempts/?verdict=passed&agent=atlas&q=try&sort=-speedup", 10), ("/solutions/", 4), ("/fleet/", 5),
        ("/events/", 6),
    ):
        with django_assert_max_num_queries(most, info=address):
            assert client.get(address).status_code == 200


def test_an_attempt_deep_in_a_line_stays_within_its_queries(
    client: Client, crowded, django_assert_max_num_queries
) -> None:
    with django_assert_max_num_queries(16):
        page = client.get(crowded.last.get_absolute_url()).content.decode()
    assert page.count('class="soft nowrap">atlas') >= 30
    assert len(client.get("/problems/rmsnorm_h4096/").content) < 1_500_000
    # The same where all of it is of an earlier version of the problem, and is marked so.
    Problem.objects.filter(pk=crowded.problem.pk).update(digest="f" * 64)
    for address, most, marks in (("/attempts/", 9, 100), (crowded.last.get_absolute_url(), 16, 31), ("/", 14, 1)):
        with django_assert_max_num_queries(most, info=address):
            page = client.get(address).content.decode()
        assert page.count("</span>earlier version</span>") >= marks, address


def test_a_poll_that_finds_nothing_new_costs_next_to_nothing(
    client: Client, crowded, django_assert_max_num_queries
) -> None:
    for address, most in (("/fleet/", 1), (crowded.problem.get_absolute_url(), 4), ("/", 3)):
        query = poll_address(client.get(address).content.decode())
        with django_assert_max_num_queries(most):
            assert client.get(address + str(query), headers={"HX-Request": "true"}).status_code == 204


WORKLOADS = 800


@pytest.fixture
def wide(yard):
    """A problem with many workloads, each measured for a baseline and an attempt and bounded on every GPU."""
    problem = make.make_problem("wide", workloads=WORKLOADS)
    yard.campaign.problems.add(problem)
    make.make_baseline(problem, latencies=[60.0] * WORKLOADS)
    attempt = make.make_attempt(problem, yard.agent, campaign=yard.campaign)
    yard.wide = make.make_evaluation(attempt, result=make.make_result(attempt, latencies=[30.0] * WORKLOADS))
    now = timezone.now()
    BoundCount.objects.create(problem=problem, digest=problem.digest, harness_version="4", state="done", asked_at=now)
    WorkloadBound.objects.bulk_create(
        WorkloadBound(workload=workload, hardware=hardware, t_sol_us=5, record={"assumptions": ["<b>x</b>"]})
        for workload in problem.workloads.all()
        for hardware in (("cpu",) if workload.target == "cpu" else ("b200", "h200", "h100"))
    )
    return yard


def test_pages_over_very_many_workloads_show_some_and_export_all(
    client: Client, wide, django_assert_max_num_queries
) -> None:
    problem, attempt = wide.wide.attempt.problem.get_absolute_url(), wide.wide.attempt.get_absolute_url()
    for address, most in ((problem, 26), (attempt, 20), (wide.wide.get_absolute_url(), 12)):
        with django_assert_max_num_queries(most, info=address):
            page = client.get(address).content
        assert len(page) < 400_000, address
    first = client.get(problem).content.decode()
    assert "Drawn are the first 60 of 800." in first and "&lt;b&gt;x&lt;/b&gt;" in first
    second = client.get(f"{problem}?bounds=h200&bounds_page=2").content.decode()
    assert "bounds_page=3" in second and "#table-t_sol" in second
    for table, rows in (("t_sol", WORKLOADS), ("workloads", 2 * WORKLOADS), ("baseline_workloads", WORKLOADS)):
        assert len(client.get(f"{problem}?format=json&table={table}").json()["rows"]) == rows


def test_a_long_history_draws_what_improved_and_the_newest(client: Client, crowded, monkeypatch) -> None:
    monkeypatch.setattr(charts, "HISTORY_POINTS", 100)
    page = client.get("/problems/rmsnorm_h4096/").content.decode()
    assert "Drawn are all that improved and the newest 100." in page
    assert len(page) < 400_000

"""From a number on a problem's page to what it is made of, by clicking; and scores that change while one looks."""

from __future__ import annotations

import random

from portal.evaluations import tasks
from portal.evaluations.models import Evaluation
from portal.problems.models import BoundCount, WorkloadBound
from tests.portal import factories as make
from tests.portal.pages import showcase


def test_a_bound_leads_to_its_account_and_its_rates_to_the_hardware(open_page, shown) -> None:
    problem = shown.problems[0]
    best = Evaluation.objects.filter(
        attempt__problem=problem, attempt__kind="agent", verdict="passed"
    ).order_by("-sol_score").first()
    BoundCount.objects.filter(problem=problem).update(state="done")
    WorkloadBound.objects.create(
        workload=problem.workloads.filter(target="gpu").first(), hardware="h200", t_sol_us=5.25,
        record={"hardware": "h200", "limiter": "memory", "bytes_moved": {"x": 8192}, "rates": {"memory": 4.8e12},
                "rate_sources": {"memory": "its data sheet"}, "assumptions": ["every input byte once"]},
    )
    page = open_page(problem.get_absolute_url())
    bounds = page.locator("#table-t_sol")
    assert "5.25" in bounds.inner_text() and "8.19 kB" in bounds.inner_text()
    page.locator("#workload-latency-twin summary").click()
    numbers = page.locator("#table-latency tbody tr").first
    account = f"#account-{best.pk}"
    numbers.locator(f"a[href$='{account}']").click()
    page.wait_for_url(f"**{best.get_absolute_url()}{account}")
    # The part that was folded away is open: that is where the number comes from.
    assert page.locator(f"{account} #table-bounds").is_visible()
    page.go_back()
    page.locator("#table-t_sol").get_by_role("link", name="memory 4.80 TB/s").click()
    page.wait_for_url("**/hardware/#h200")
    assert page.locator("#table-rates-h200").get_by_text("H200 SXM datasheet").first.is_visible()


def test_a_page_shows_new_scores_when_they_are_there_without_being_asked(open_page, shown, eventually) -> None:
    problem = shown.problems[0]
    eager = make.make_baseline_attempt(problem, slug="eager")
    hand = Evaluation.objects.filter(attempt__problem=problem, attempt__kind="baseline").get()
    times = [2 * row.latency_us for row in hand.workloads.all()]
    make.make_evaluation(eager, result=showcase.result_for(eager, times, random.Random(1)))
    page = open_page(problem.get_absolute_url())
    before = page.locator("#track .stat-value").nth(1).inner_text()
    shown.campaign.baseline_kinds = ["eager"]
    shown.campaign.save()
    page.reload()
    notice = "Scores of campaign first-light are being computed again: its rule admits eager"
    assert notice in page.locator("#track").inner_text()
    assert page.locator("#track .stat-value").nth(1).inner_text() == before
    tasks.rescore(shown.campaign.pk)
    eventually(page, "document.querySelectorAll('.rescoring').length", 0, seconds=30)
    after = page.locator("#track .stat-value").nth(1).inner_text()
    assert float(after.rstrip("×")) > 1.9 * float(before.rstrip("×"))

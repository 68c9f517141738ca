"""Parts refresh themselves while work goes on, and what the reader did to them stays."""

from __future__ import annotations

import random

from portal.evaluations.models import Evaluation
from tests.portal import factories as make
from tests.portal.pages import showcase
from tests.portal.pages.showcase import PASSWORD


def log_in(page) -> None:
    page.get_by_label("Username").fill("rosa")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Log in").click()


def test_an_attempt_shows_its_result_when_it_comes_without_a_reload(open_page, shown) -> None:
    problem = shown.problems[0]
    attempt = make.make_attempt(problem, language="cpp", campaign=shown.campaign, subject="Coming soon")
    evaluation = make.make_evaluation(attempt)
    page = open_page(f"/login/?next={attempt.get_absolute_url()}")
    log_in(page)
    page.wait_for_selector("#outcome .working")
    assert "1 queued" in page.locator("#outcome .working").text_content()
    page.evaluate("window.untouched = true")
    page.get_by_label("Comment").fill("half a thought")

    Evaluation.objects.filter(pk=evaluation.pk).update(state=Evaluation.State.RUNNING, claims=1)
    page.get_by_text("1 running").wait_for()
    Evaluation.objects.filter(pk=evaluation.pk).update(state=Evaluation.State.QUEUED)
    base = showcase.baseline_times(problem, random.Random(1))
    showcase.finish(attempt, showcase.result_for(attempt, [t / 2 for t in base], random.Random(1)))
    page.wait_for_selector("#outcome .stats")
    page.wait_for_selector("#workload-latency .plot.is-drawn")
    assert page.locator("#outcome h2").get_by_text("passed").is_visible()
    assert page.evaluate("window.untouched") is True
    assert page.get_by_label("Comment").input_value() == "half a thought"
    assert page.get_by_role("button", name="Merge into solutions").count() == 1
    assert page.locator("#outcome").get_attribute("hx-get") is None


def test_a_problem_redraws_and_keeps_the_table_open(open_page, shown, eventually) -> None:
    problem = shown.problems[0]
    attempt = make.make_attempt(problem, language="cpp", campaign=shown.campaign, subject="One more")
    make.make_evaluation(attempt)
    page = open_page(problem.get_absolute_url())
    page.wait_for_selector("#score-history .plot.is-drawn")
    page.locator("#score-history-twin summary").click()
    before = page.locator("#score-history-twin tbody tr").count()

    base = showcase.baseline_times(problem, random.Random(1))
    showcase.finish(attempt, showcase.result_for(attempt, [t / 9 for t in base], random.Random(1)))
    eventually(page, "document.querySelectorAll('#score-history-twin tbody tr').length", before + 1)
    page.wait_for_selector("#score-history .plot.is-drawn")
    assert page.locator("#score-history .scatterlayer .point").count() == before + 1
    page.wait_for_selector("#score-history-twin[open]")  # opened again right after the swap
    assert page.locator("#score-history-twin").get_by_text("One more").is_visible()

"""From a problem's T_b to the evaluation it comes from."""

from __future__ import annotations

import random

from tests.portal import factories as make
from tests.portal.pages import showcase


def test_t_b_of_each_workload_leads_to_its_evaluation(open_page, shown) -> None:
    problem = shown.problems[0]
    attempt = make.make_baseline_attempt(problem, slug="eager")
    times = [9.0] * len(showcase.baseline_times(problem, random.Random(1)))  # far below the showcase's own
    eager = make.make_evaluation(attempt, result=showcase.result_for(attempt, times, random.Random(1)))
    page = open_page(problem.get_absolute_url() + "#baselines")
    assert page.locator("#table-baselines tbody tr").count() == 5
    assert "Empty: no attempt was adopted yet" in page.locator("#table-baselines").inner_text()
    page.locator("#table-baseline_workloads tbody tr").first.get_by_role("link", name="eager").click()
    page.wait_for_url(f"**{eager.get_absolute_url()}")
    assert page.get_by_role("heading", level=1).inner_text() == f"Evaluation #{eager.pk}"

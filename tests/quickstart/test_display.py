"""The quick start's table: what its figures are is what its headings say."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from portal.quickstart.display import LiveDisplay, campaign_table, make_display, take
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def test_the_time_that_kernels_are_compared_with_is_headed_by_no_one_baselines_name() -> None:
    problem = make.make_problem("rmsnorm")
    campaign = make.make_campaign("quickstart", problems=[problem])
    for slug, latencies in (("eager", (40.0, 90.0)), ("hand-optimised", (50.0, 80.0))):
        baseline = make.make_baseline_attempt(problem, slug)
        make.make_evaluation(baseline, result=make.make_result(baseline, latencies=latencies))
    attempt = make.make_attempt(problem, campaign=campaign)
    make.make_evaluation(attempt, result=make.make_result(attempt, latencies=(20.0, 40.0)))
    said = io.StringIO()
    Console(file=said, width=120).print(campaign_table(take(campaign)))
    heads, row, whole = (line.split() for line in said.getvalue().splitlines() if line.strip())
    # T_b is 40 µs of the one baseline and 80 µs of the other: its geometric mean is neither's.
    assert heads == ["problem", "attempts", "passed", "baseline", "µs", "best", "µs", "speedup", "SOL", "score"]
    assert row[:6] == ["rmsnorm", "1", "1", "56.6", "28.3", "2×"] and whole[:4] == ["campaign", "1", "1", "2×"]


def test_on_a_terminal_what_was_said_stays_and_shows_its_figures() -> None:
    problem = make.make_problem("rmsnorm")
    campaign = make.make_campaign("quickstart", problems=[problem])
    attempt = make.make_attempt(
        problem, campaign=campaign, slug="tune-lanes-8-parallel-from-100000-unroll-1-c2d165fb"
    )
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt, latencies=(20.0, 40.0)))
    said = io.StringIO()
    with make_display(Console(file=said, width=80, force_terminal=True)) as display:
        assert isinstance(display, LiveDisplay)
        display.step("the portal answers at http://127.0.0.1:8000/")
        display.finished(evaluation)
        for number in range(20):
            display.step(f"step {number}")
            display.update(take(campaign))
    lines = said.getvalue()
    assert "the portal answers at http://127.0.0.1:8000/" in lines and "step 0" in lines and "step 19" in lines
    (line,) = [line for line in lines.splitlines() if "tune-lanes-8-…-c2d165fb by" in line]
    assert "passed  28.3 µs" in line

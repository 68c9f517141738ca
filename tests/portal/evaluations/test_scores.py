"""What the numbers say: standing, best, running best, campaign figures."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from agentcore.vocabulary import HardwareName, Verdict
from portal.evaluations import scores
from portal.evaluations.history import running_best
from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def measured(problem, latencies, *, attempt=None, agent=None, campaign=None, **result):
    attempt = attempt or make.make_attempt(problem, agent, campaign=campaign)
    return make.make_evaluation(attempt, result=make.make_result(attempt, latencies=latencies, **result))


@pytest.fixture
def problem():
    problem = make.make_problem()
    make.make_baseline(problem, latencies=[40.0, 80.0])
    return problem


def test_a_rerun_supersedes_and_infra_errors_supersede_nothing(problem):
    first = measured(problem, [20.0, 40.0])
    attempt = first.attempt
    measured(problem, [None, None], attempt=attempt, verdict=Verdict.INFRA_ERROR)
    assert list(scores.standing_evaluations(pk=attempt.pk)) == [first]
    hack = measured(problem, [20.0, 40.0], attempt=attempt, verdict=Verdict.REWARD_HACK)
    assert list(scores.standing_evaluations(pk=attempt.pk)) == [hack]
    assert scores.best_evaluation(problem, "cpp", "cpu") is None


def test_the_best_has_the_highest_score_and_is_no_baseline(problem):
    measured(problem, [30.0, 60.0])
    best = measured(problem, [20.0, 40.0])
    measured(problem, [1.0, 1.0], verdict=Verdict.FASTER_THAN_LIGHT)
    measured(problem, [1.0, 1.0], problem_digest="older problem")
    assert scores.best_evaluation(problem, "cpp", "cpu") == best
    assert scores.best_evaluation(problem, "cuda", "cpu") is None


def test_without_a_baseline_the_fastest_is_the_best():
    problem = make.make_problem()
    measured(problem, [30.0, 60.0])
    fastest = measured(problem, [20.0, 40.0])
    assert fastest.sol_score is None
    assert scores.best_evaluation(problem, "cpp", "cpu") == fastest


def test_the_running_best_moves_only_beyond_the_noise(problem):
    start = timezone.now()
    rows = [
        measured(problem, [30.0, 60.0]),
        measured(problem, [29.9, 59.9]),
        measured(problem, [None, None], verdict=Verdict.COMPILE_ERROR),
        measured(problem, [20.0, 40.0]),
        measured(problem, [25.0, 50.0]),
    ]
    for minute, row in enumerate(rows):
        Evaluation.objects.filter(pk=row.pk).update(finished_at=start + timedelta(minutes=minute))
    points = running_best(problem, "cpp", "cpu")
    assert [p.evaluation_id for p in points] == [row.pk for row in rows]
    assert [p.is_new_best for p in points] == [True, False, False, True, False]
    assert [p.best_speedup for p in points] == pytest.approx([4 / 3, 4 / 3, 4 / 3, 2.0, 2.0])
    assert points[2].sol_score is None


def finished_in_order(*rows: Evaluation) -> None:
    start = timezone.now()
    for minute, row in enumerate(rows):
        Evaluation.objects.filter(pk=row.pk).update(finished_at=start + timedelta(minutes=minute))


def test_what_cannot_be_compared_with_the_best_has_a_leader_of_its_own(problem):
    other = {"stamp": make.make_stamp(device_name="another model", device_uuid="cpu-2")}
    rows = [
        measured(problem, [20.0, 40.0]),
        measured(problem, [30.0, 60.0], **other),  # nothing to compare it with, and not above the best
        measured(problem, [29.0, 58.0], **other),  # within the noise of its own kind
        measured(problem, [10.0, 20.0], **other),  # proven against its own kind, and above the best
        measured(problem, [9.9, 19.9]),  # proven against the first leader, within reach of the best
        measured(problem, [15.0, 30.0]),
    ]
    finished_in_order(*rows)
    points = running_best(problem, "cpp", "cpu")
    assert [p.is_new_best for p in points] == [True, False, False, True, True, False]
    best = [p.best_sol_score for p in points]
    assert best == sorted(best)


def test_the_running_best_takes_few_queries(problem, django_assert_max_num_queries):
    for size in (30.0, 20.0, 10.0):
        measured(problem, [size, size])
    with django_assert_max_num_queries(5):
        running_best(problem, "cpp", "cpu")


def test_a_duplicate_shows_the_evaluation_it_points_at(problem):
    first = measured(problem, [20.0, 40.0])
    again = make.make_attempt(problem)
    make.make_evaluation(again, state="duplicate", duplicate_of=first)
    assert scores.latest_evaluation(again) == first
    assert scores.latest_evaluation(make.make_attempt(problem)) is None


def test_a_campaigns_figures_follow_the_source_experiment():
    problems = [make.make_problem(f"p{n}") for n in range(4)]
    campaign = make.make_campaign(problems=problems)
    for problem in problems[:3]:
        make.make_baseline(problem, latencies=[40.0, 80.0])
    measured(problems[0], [10.0, 20.0], campaign=campaign)  # 4×
    measured(problems[0], [80.0, 160.0], campaign=campaign)  # not its best
    measured(problems[1], [80.0, 160.0], campaign=campaign)  # 0.5×
    measured(problems[2], [None, None], campaign=campaign, verdict=Verdict.INCORRECT)
    measured(problems[3], [5.0, 5.0], campaign=campaign, t_sol=1.0)  # no baseline, so no score
    measured(problems[1], [1.0, 1.0], campaign=None)  # another campaign's

    summary = scores.campaign_summary(campaign)
    assert [(row.problem.name, row.attempts, row.passed) for row in summary.problems] == [
        ("p0", 2, 2), ("p1", 1, 1), ("p2", 1, 0), ("p3", 1, 1),
    ]
    assert summary.geomean_speedup == pytest.approx((4 * 0.5) ** 0.5)
    assert summary.share_beating_baseline == 0.25
    assert summary.share_above_2x == 0.25
    sols = sorted(row.sol_score for row in summary.problems if row.sol_score is not None)
    assert summary.median_sol == pytest.approx(sum(sols) / 2)
    assert (summary.scored, summary.attempts, summary.passed) == (2, 5, 4)


def test_an_empty_campaign_has_no_figures():
    summary = scores.campaign_summary(make.make_campaign())
    assert (summary.geomean_speedup, summary.median_sol, summary.share_beating_baseline) == (None, None, 0.0)


def test_a_campaign_summary_takes_a_fixed_number_of_queries(django_assert_num_queries):
    problems = [make.make_problem() for _ in range(5)]
    campaign = make.make_campaign(problems=problems)
    for problem in problems:
        make.make_baseline(problem)
        measured(problem, [10.0, 10.0], campaign=campaign)
    with django_assert_num_queries(5):
        scores.campaign_summary(campaign)


def test_baselines_of_each_hardware_are_apart(problem):
    gpu = make.make_baseline(problem, hardware=HardwareName.H200, latencies=[4.0, 8.0])
    assert scores.current_baseline(problem, "h200") == gpu
    assert scores.current_baseline(problem, "cpu") != gpu
    assert scores.current_baseline(problem, "b200") is None

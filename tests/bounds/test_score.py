from __future__ import annotations

import math

import pytest

from agentcore.bounds.score import (
    ProblemScore,
    WorkloadTimes,
    campaign_summary,
    geomean,
    problem_score,
    sol_score,
)


@pytest.mark.parametrize(
    ("t_k", "t_b", "t_sol", "score"),
    [
        (10.0, 10.0, 2.0, 0.5),
        (2.0, 10.0, 2.0, 1.0),
        (4.0, 10.0, 2.0, 0.8),
        (26.0, 10.0, 2.0, 0.25),
        (1.0, 10.0, 2.0, 1.0),
        (2.0, 2.0, 3.0, 1.0),
        (4.0, 3.0, 3.0, 0.0),
        (4.0, 2.0, 3.0, 0.0),
    ],
)
def test_the_score_of_a_workload_is_exact(t_k: float, t_b: float, t_sol: float, score: float) -> None:
    assert sol_score(t_k, t_b, t_sol) == pytest.approx(score, abs=1e-12)


def test_a_faster_kernel_never_scores_less() -> None:
    scores = [sol_score(t / 7, 10.0, 3.0) for t in range(1, 400)]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_times_that_are_no_times_are_refused(bad: float, position: int) -> None:
    times = [3.0, 4.0, 1.0]
    times[position] = bad
    with pytest.raises(ValueError, match="positive number of microseconds"):
        sol_score(*times)


def test_the_geometric_mean_is_exact_and_refuses_nothing_and_zero() -> None:
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert geomean([1e-300] * 3) == pytest.approx(1e-300)
    for values in ([], [1.0, 0.0], [1.0, math.nan]):
        with pytest.raises(ValueError):
            geomean(values)


def test_a_problem_scores_the_mean_and_the_geometric_mean_of_its_workloads() -> None:
    score = problem_score([WorkloadTimes(4.0, 10.0, 2.0), WorkloadTimes(10.0, 10.0, 2.0)])
    assert score.passed
    assert score.sol_score == pytest.approx(0.65)
    assert score.speedup == pytest.approx(math.sqrt(2.5))
    assert score.workload_speedups == (2.5, 1.0)


def test_one_wrong_workload_fails_the_problem() -> None:
    score = problem_score([WorkloadTimes(4.0, 10.0, 2.0), WorkloadTimes(None, 10.0, 2.0)])
    assert (score.passed, score.sol_score, score.speedup) == (False, 0.0, None)
    assert score.workload_scores == (pytest.approx(0.8), None)
    with pytest.raises(ValueError, match="at least one workload"):
        problem_score([])


def test_a_campaign_counts_shares_over_all_problems_and_means_over_solved_ones() -> None:
    summary = campaign_summary(
        {
            "a": ProblemScore(True, 0.9, 4.0),
            "b": ProblemScore(True, 0.5, 1.0),
            "c": ProblemScore(True, 0.4, 0.5),
            "d": ProblemScore(False, 0.0, None),
            "e": None,
        }
    )
    assert (summary.problems, summary.solved) == (5, 3)
    assert summary.geomean_speedup == pytest.approx(2.0 ** (1 / 3))
    assert (summary.beats_baseline, summary.above_2x, summary.median_sol) == (0.2, 0.2, 0.5)


def test_a_campaign_without_results_has_no_means() -> None:
    for best in ({}, {"a": None}):
        summary = campaign_summary(best)
        assert (summary.solved, summary.geomean_speedup, summary.median_sol) == (0, None, None)
        assert (summary.beats_baseline, summary.above_2x) == (0.0, 0.0)

"""From results to rows and scores."""

from __future__ import annotations

import math

import pytest

from agentcore.vocabulary import CheckName, HardwareName, Verdict
from portal.evaluations import record, scores
from portal.evaluations.models import Device, Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def test_a_result_fills_columns_workloads_checks_and_the_device():
    attempt = make.make_attempt()
    result = make.make_result(attempt, latencies=[10.0, 40.0], heldout=[12.0])
    evaluation = make.make_evaluation(attempt, result=result)

    assert evaluation.verdict == "passed"
    assert evaluation.latency_geomean_us == pytest.approx(20.0)
    assert evaluation.result["problem"] == attempt.problem.name
    assert [(w.uuid, w.heldout, w.t_sol_us) for w in evaluation.workloads.all()] == [
        ("w0", False, 5.0), ("w1", False, 5.0), ("h0", True, 5.0),
    ]
    own = evaluation.checks.filter(workload_index=None).values_list("name", flat=True)
    assert sorted(own) == [CheckName.COMPILES, CheckName.MATCHES_REFERENCE]  # the latter of the held-out workload
    assert evaluation.checks.filter(workload_index=1, status="pass").exists()
    assert Device.objects.get().uuid == evaluation.device_uuid


def test_scores_follow_the_definition_and_leave_held_out_shapes_apart():
    problem = make.make_problem()
    make.make_baseline(problem, latencies=[40.0, 80.0])
    attempt = make.make_attempt(problem)
    result = make.make_result(attempt, latencies=[20.0, 20.0], heldout=[500.0])
    evaluation = make.make_evaluation(attempt, result=result)

    first, second, held = evaluation.workloads.all()
    assert first.sol_score == pytest.approx(1 / (1 + (20 - 5) / (40 - 5)))
    assert second.sol_score == pytest.approx(1 / (1 + (20 - 5) / (80 - 5)))
    assert held.baseline_us is None
    assert evaluation.speedup == pytest.approx(math.sqrt(2.0 * 4.0))
    assert evaluation.sol_score == pytest.approx((first.sol_score + second.sol_score) / 2)


def test_a_baseline_scores_one_half_against_itself():
    baseline = make.make_baseline(make.make_problem())
    assert baseline.sol_score == pytest.approx(0.5)
    assert baseline.speedup == pytest.approx(1.0)


def test_a_faster_baseline_lowers_every_score_but_no_recorded_result():
    problem = make.make_problem()
    make.make_baseline(problem, latencies=[40.0, 80.0])
    attempt = make.make_attempt(problem)
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt, latencies=[20.0, 40.0]))
    before = evaluation.result
    assert evaluation.speedup == pytest.approx(2.0)

    faster = make.make_baseline_attempt(problem, slug="compiled")
    make.make_evaluation(faster, result=make.make_result(faster, latencies=[20.0, 40.0]))

    evaluation.refresh_from_db()
    assert evaluation.speedup == pytest.approx(1.0)
    assert evaluation.sol_score == pytest.approx(0.5)
    assert evaluation.baseline.attempt == faster
    assert evaluation.result == before


def test_a_slower_baseline_changes_nothing():
    problem = make.make_problem()
    first = make.make_baseline(problem, latencies=[40.0, 80.0])
    slower = make.make_baseline_attempt(problem, slug="eager")
    make.make_evaluation(slower, result=make.make_result(slower, latencies=[400.0, 800.0]))
    assert scores.current_baseline(problem, "cpu") == first


def test_a_baseline_that_fails_its_rerun_is_no_baseline_any_more():
    problem = make.make_problem()
    baseline = make.make_baseline(problem)
    attempt = make.make_attempt(problem)
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt))
    assert evaluation.baseline == baseline
    make.make_evaluation(
        baseline.attempt, result=make.make_result(baseline.attempt, verdict=Verdict.INCORRECT, latencies=[None, None])
    )
    assert scores.current_baseline(problem, "cpu") is None
    evaluation.refresh_from_db()
    assert evaluation.speedup is None


def test_a_baseline_on_other_hardware_or_an_older_problem_does_not_count():
    problem = make.make_problem()
    make.make_baseline(problem, hardware=HardwareName.H200)
    make.make_baseline(problem, problem_digest="old", hardware=HardwareName.CPU)
    assert scores.current_baseline(problem, "cpu") is None
    attempt = make.make_attempt(problem)
    assert make.make_evaluation(attempt, result=make.make_result(attempt)).speedup is None


def test_a_failed_attempt_has_checks_and_no_score():
    problem = make.make_problem()
    make.make_baseline(problem)
    attempt = make.make_attempt(problem)
    evaluation = make.make_evaluation(
        attempt,
        result=make.make_result(
            attempt, verdict=Verdict.REWARD_HACK, failed_check=CheckName.INPUTS_INTACT, message="wrote x"
        ),
    )
    assert evaluation.sol_score is None
    assert evaluation.checks.filter(name=CheckName.INPUTS_INTACT, status="fail").count() == 2


def test_what_a_hostile_kernel_prints_is_stored_without_breaking_the_database():
    attempt = make.make_attempt()
    result = make.make_result(attempt, message="a\x00b\ud800c" + "x" * 9000, runner_log="\x00" * 10)
    odd = result.workloads[0].model_copy(update={"max_abs_error": math.nan, "samples_us": [1.0, math.inf]})
    result = result.model_copy(update={"workloads": [odd]})
    evaluation = make.make_evaluation(attempt, result=result)
    assert evaluation.message.startswith("a\ufffdb?c")
    assert len(evaluation.message) <= record.MESSAGE_LIMIT
    assert evaluation.result["workloads"][0]["max_abs_error"] is None
    assert evaluation.result["workloads"][0]["samples_us"] == [1.0]


def test_a_recorded_result_cannot_be_recorded_over():
    evaluation = make.make_evaluation(result=make.make_result())
    with pytest.raises(ValueError, match="never edited"):
        record.store(evaluation, make.make_result(verdict=Verdict.INCORRECT))
    assert Evaluation.objects.get(pk=evaluation.pk).verdict == "passed"


def test_a_missing_measurement_leaves_the_whole_evaluation_unscored():
    problem = make.make_problem()
    make.make_baseline(problem)
    attempt = make.make_attempt(problem)
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt, latencies=[20.0, None]))
    assert evaluation.latency_geomean_us is None
    assert evaluation.sol_score is None

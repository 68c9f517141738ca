"""Faster beyond the noise, or not."""

from __future__ import annotations

import pytest

from agentcore.agents.measurement import Interval, Measurement, Outcome, compare


def measured(*values: float, spread: float = 0.0) -> Measurement:
    return Measurement({str(i): Interval(v, v * (1 - spread), v * (1 + spread)) for i, v in enumerate(values)})


def test_a_difference_inside_the_noise_is_unproven_and_a_larger_one_counts() -> None:
    old = measured(10, 100, spread=0.05)
    assert compare(measured(9.8, 98, spread=0.05), old).outcome is Outcome.UNPROVEN
    assert compare(measured(8, 80, spread=0.05), old).outcome is Outcome.IMPROVED
    assert compare(measured(12, 120, spread=0.05), old).outcome is Outcome.REGRESSED


def test_exact_looking_intervals_do_not_prove_half_a_percent() -> None:
    assert compare(measured(9.95), measured(10)).outcome is Outcome.UNPROVEN


def test_the_speedup_is_a_geometric_mean_over_shared_workloads() -> None:
    both = compare(measured(5, 40, 1), Measurement({"0": Interval(10, 10, 10), "1": Interval(20, 20, 20)}))
    assert both.speedup == pytest.approx(1.0)


def test_nothing_in_common_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no workload in common"):
        compare(measured(1), Measurement({"other": Interval(1, 1, 1)}))


def test_only_passed_public_workloads_make_a_measurement() -> None:
    workload = {"uuid": "a", "latency_us": 4.0, "latency_low_us": 3.9, "latency_high_us": 4.2}
    passed = {"verdict": "passed", "workloads": [workload, {**workload, "uuid": "h", "heldout": True}]}
    found = Measurement.from_evaluation(passed)
    assert found is not None
    assert list(found.latencies) == ["a"]
    assert found.geomean_us == pytest.approx(4.0)
    assert Measurement.from_evaluation({**passed, "verdict": "incorrect"}) is None
    assert Measurement.from_evaluation({"verdict": "passed", "workloads": []}) is None

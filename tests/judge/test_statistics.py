"""Estimates from samples."""

from __future__ import annotations

import math
import random

import pytest

from agentcore.judge.statistics import estimate, interquartile_mean, mean_interval


def test_no_samples_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="no samples"):
        estimate([])


def test_one_sample_has_no_spread() -> None:
    one = estimate([7.5])
    assert (one.value, one.low, one.high) == (7.5, 7.5, 7.5)


@pytest.mark.parametrize("samples", [[3.0, 5.0], [3.0, 4.0, 5.0]])
def test_few_samples_give_their_middle(samples: list[float]) -> None:
    assert estimate(samples).value == 4.0


def test_a_quarter_of_wild_outliers_on_either_side_changes_nothing() -> None:
    quiet = [10.0 + 0.01 * i for i in range(100)]
    assert interquartile_mean(quiet[:76] + [1e6] * 24) == pytest.approx(interquartile_mean(quiet), rel=0.02)
    assert interquartile_mean([0.0] * 24 + quiet[24:]) == pytest.approx(interquartile_mean(quiet), rel=0.02)


def test_the_interval_holds_the_estimate_and_narrows_with_more_samples() -> None:
    draw = random.Random(1)
    few = estimate([draw.gauss(100, 5) for _ in range(12)])
    many = estimate([draw.gauss(100, 5) for _ in range(1200)])
    assert few.low <= few.value <= few.high
    assert many.high - many.low < (few.high - few.low) / 3


def test_the_interval_of_a_stored_record_is_reproducible() -> None:
    samples = [random.Random(2).gauss(50, 1) for _ in range(40)]
    assert estimate(samples) == estimate(list(samples))


def test_the_interval_of_a_mean_over_rounds_holds_it_nineteen_times_in_twenty() -> None:
    draw = random.Random(3)
    for count in (3, 6, 8, 12):
        missed = 0
        for _ in range(300):
            found = mean_interval([draw.gauss(0, 1) for _ in range(count)], resamples=1000)
            missed += not found.low <= 0 <= found.high
        assert missed <= 30, count  # 15 expected


def test_few_rounds_have_a_wide_interval_and_one_has_none() -> None:
    assert mean_interval([1.0]).low == -math.inf and mean_interval([1.0]).high == math.inf
    two = mean_interval([1.0, 1.1])
    assert two.high - two.low > 1  # Student's t with one degree of freedom
    eight = mean_interval([1.0, 1.1] * 4)
    assert 0.05 < eight.high - eight.low < 0.12
    assert mean_interval([2.0] * 7) == mean_interval([2.0] * 7) and mean_interval([2.0] * 7).low == 2.0
    with pytest.raises(ValueError, match="no repetitions"):
        mean_interval([])

"""What is expected around a GPU call, from what was measured without a candidate; no GPU is needed for that."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agentcore.judge.cuda_target import Calibration
from agentcore.judge.gaps import Expected

SIZES = {
    1 << 16: Expected(opening=30.0, gap=5.0, tail=2.0, clearing=40.0, longer=0.1, drift=0.05),
    1 << 20: Expected(opening=30.1, gap=5.2, tail=2.1, clearing=41.0, longer=0.3, drift=0.1),
    1 << 25: Expected(opening=30.2, gap=6.0, tail=2.5, clearing=55.0, longer=9.0, drift=-0.1),
}
EMPTY = Expected(opening=31.0, gap=4.9, tail=1.9, clearing=40.5, drift=0.2)


def test_gaps_follow_the_bytes_written_clearing_the_bytes_given_and_openings_the_runner() -> None:
    found = Calibration(SIZES, copy_us=8.0).expected(1 << 16, (1 << 20) - 5, EMPTY)
    assert (found.gap, found.tail, found.longer, found.longest) == (5.2, 2.1, 0.3, 9.0)
    assert (found.opening, found.least_gap, found.least_tail, found.drift) == (31.0, 4.9, 1.9, 0.2)
    assert found.clearing == 40.0


@pytest.mark.parametrize(
    ("given", "clearing"), [(0, 40.0), ((1 << 16) + (1 << 20) >> 1, 40.5), (1 << 25, 55.0), (1 << 40, 55.0)]
)
def test_clearing_lies_on_a_line_between_the_sizes_measured(given: int, clearing: float) -> None:
    assert Calibration(SIZES, copy_us=8.0).expected(given, 0, EMPTY).clearing == pytest.approx(clearing)


def test_more_than_was_ever_measured_is_expected_to_be_like_the_most() -> None:
    assert Calibration(SIZES, copy_us=8.0).expected(1 << 40, 1 << 40, EMPTY).gap == 6.0


def test_a_device_clock_that_ticks_too_coarsely_accuses_nobody() -> None:
    coarse = {size: replace(expected, drift=-size / 1e6) for size, expected in SIZES.items()}
    assert math.isnan(Calibration(coarse, copy_us=8.0).expected(0, 0, EMPTY).drift)

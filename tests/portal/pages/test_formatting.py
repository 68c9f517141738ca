"""Numbers on pages: three significant digits and a unit."""

from __future__ import annotations

import pytest

from portal.pages import formatting


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234.5, "1,230"), (12.345, "12.3"), (1.0, "1.00"), (0.0123456, "0.0123"), (99.96, "100"), (9.996, "10.0"),
        (0, "0"), (-2.5, "-2.50"), (1.5e-7, "1.50e-07"), (None, "–"), (float("nan"), "–"), (float("inf"), "–"),
    ],
)
def test_three_significant_digits(value: float | None, shown: str) -> None:
    assert formatting.significant(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.85, "850 ns"), (12.345, "12.3 µs"), (1090, "1.09 ms"), (2.5e6, "2.50 s"), (None, "–")],
)
def test_a_time_takes_the_unit_that_suits_it(value: float | None, shown: str) -> None:
    assert formatting.microseconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.42, "0.42 s"), (12.34, "12.3 s"), (250, "4 min 10 s"), (11_100, "3 h 05 min")]
)
def test_durations(value: float, shown: str) -> None:
    assert formatting.seconds(value) == shown


def test_scores_ratios_shares_and_sizes() -> None:
    assert formatting.score(0.56) == "0.560"
    assert formatting.times(1.3812) == "1.38×"
    assert formatting.percent(0.634) == "63 %"
    assert formatting.percent(0.004) == "0.40 %"
    assert formatting.data_size(26_112) == "26.1 kB"
    assert formatting.engineering(1.811e15, "FLOP/s") == "1.81 PFLOP/s"

"""The comparison's rules, one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from agentcore.judge import correctness
from agentcore.judge.correctness import Comparison, compare, compare_all, stale_elements
from agentcore.problems import Tolerance

INF, NAN = math.inf, math.nan
EXACT = Tolerance(max_atol=0, max_rtol=0, required_matched_ratio=1)
LOOSE = Tolerance(max_atol=0.1, max_rtol=0, required_matched_ratio=0.5)


def of(got: object, want: object, tolerance: Tolerance = EXACT, dtype: torch.dtype = torch.float32) -> Comparison:
    def tensor(value: object) -> torch.Tensor:
        return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)

    return compare({"y": tensor(got)}, {"y": tensor(want)}, tolerance)


def test_equal_outputs_match_without_error() -> None:
    assert of([1.0, -2.0], [1.0, -2.0]) == Comparison(1.0, 0.0, 0.0)


def test_an_element_matches_up_to_atol_plus_rtol_of_the_reference() -> None:
    tolerance = Tolerance(max_atol=0.5, max_rtol=0.25, required_matched_ratio=1)
    assert of([3.5], [2.5], tolerance).ok  # 0.5 + 0.25 × 2.5 = 1.125
    assert of([2.5 + 1.125], [2.5], tolerance).ok
    assert not of([2.5 + 1.25], [2.5], tolerance).ok


def test_the_matched_ratio_decides_and_names_the_first_mismatch() -> None:
    want = torch.zeros(10, 10) + 1
    got = want.clone()
    got[3, 4] = 2
    assert of(got, want, Tolerance(required_matched_ratio=0.99)).ok
    got[7, 7] = 2
    outcome = of(got, want, Tolerance(required_matched_ratio=0.99))
    assert outcome.matched_ratio == pytest.approx(0.98)
    assert "first mismatch at (3, 4): got 2, want 1" in outcome.message


def test_the_error_cap_holds_for_every_element_even_where_the_ratio_is_met() -> None:
    want = torch.ones(1000)
    got = want.clone()
    got[5] = 100
    assert of(got, want, Tolerance()).ok
    outcome = of(got, want, Tolerance(max_error_cap=10))
    assert "error 99 at (5,) exceeds the cap 10" in outcome.message


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_one_value_that_is_not_finite_fails_whatever_the_ratio(bad: float) -> None:
    outcome = of([bad] + [1.0] * 999, [1.0] * 1000, LOOSE)
    assert "NaN or infinite" in outcome.message and "(0,)" in outcome.message


@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_a_value_that_is_not_finite_matches_the_same_in_the_reference(value: float) -> None:
    outcome = of([value, 1.0], [value, 1.0])
    assert outcome.ok and outcome.matched_ratio == 1.0


def test_the_other_infinity_is_wrong() -> None:
    assert not of([INF, 1.0], [-INF, 1.0], LOOSE).ok


@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_a_finite_value_does_not_match_a_reference_that_is_not_finite(value: float) -> None:
    outcome = of([0.5, 1.0], [value, 1.0], Tolerance(max_rtol=1.0, required_matched_ratio=1))
    assert outcome.matched_ratio == 0.5 and not outcome.ok


@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_the_reported_errors_are_finite_whatever_the_reference_holds(value: float) -> None:
    outcome = of([value, 1.0, 3e38], [value, 2.0, -3e38], LOOSE)
    assert math.isfinite(outcome.max_abs_error) and math.isfinite(outcome.max_rel_error)


def test_all_zeros_never_pass_for_a_reference_that_is_not() -> None:
    outcome = of([0.0, 0.0], [0.05, 0.0], LOOSE)
    assert outcome.matched_ratio == 1.0 and "all zero" in outcome.message
    assert of([0.0, 0.0], [0.0, 0.0]).ok


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers_are_compared_exactly_whatever_the_tolerance(dtype: torch.dtype) -> None:
    outcome = of([7, 8], [7, 9], Tolerance(max_atol=5, required_matched_ratio=0.1), dtype)
    assert "1 of 2 elements differ; first at (1,): got 8, want 9" in outcome.message
    assert outcome.matched_ratio == 0.5 and outcome.max_abs_error == 1


def test_large_integers_differ_by_one() -> None:
    assert not of([2**62 + 1], [2**62], dtype=torch.int64).ok


def test_a_bool_that_is_neither_true_nor_false_is_wrong() -> None:
    strange = torch.tensor([1, 37], dtype=torch.uint8).view(torch.bool)
    assert not of(strange, torch.tensor([True, True])).ok
    assert of(torch.tensor([True, False]), torch.tensor([True, False])).ok


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_every_float_format_is_compared_by_value(dtype: torch.dtype) -> None:
    one, two = torch.tensor([1.0]).to(dtype), torch.tensor([2.0]).to(dtype)
    assert of(one, one.clone()).ok
    outcome = of(two, one)
    assert not outcome.ok and outcome.max_abs_error == 1.0


def test_packed_four_bit_floats_are_compared_half_by_half() -> None:
    kind = getattr(torch, "float4_e2m1fn_x2", None)
    if kind is None:
        pytest.skip("this torch has no float4_e2m1fn_x2")
    want = torch.tensor([0x21, 0x43], dtype=torch.uint8).view(kind)
    got = torch.tensor([0x21, 0xC3], dtype=torch.uint8).view(kind)  # −2 for 2 in one half of the second byte
    assert of(want.clone(), want).ok
    outcome = of(got, want)
    assert outcome.matched_ratio == 0.75 and outcome.max_abs_error == 4.0


def test_many_calls_of_small_floats_are_compared_without_concatenating_such_a_dtype(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA has no concatenation of packed 4-bit floats, and in older versions none of 8-bit ones."""
    stack = torch.stack

    def cuda_like(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        assert not any(t.dtype.is_floating_point and t.dtype.itemsize == 1 for t in tensors), "not implemented"
        return stack(tensors, dim)

    monkeypatch.setattr(torch, "stack", cuda_like)
    for kind in (torch.float8_e4m3fn, getattr(torch, "float4_e2m1fn_x2", torch.float8_e5m2)):
        want = [torch.tensor(codes, dtype=torch.uint8).view(kind) for codes in ([0x21, 0x43], [0x11, 0x22])]
        got = [want[0].clone(), torch.tensor([0x11, 0x32], dtype=torch.uint8).view(kind)]
        first, second = compare_all([({"y": g}, {"y": w}) for g, w in zip(got, want, strict=True)], Tolerance())
        assert first.ok and first.matched_ratio == 1.0
        assert not second.ok and second.matched_ratio < 1.0


def test_a_single_value_and_no_value_at_all_can_be_compared() -> None:
    assert of(1.0, 1.0).ok and "at ()" in of(2.0, 1.0).message
    assert of(torch.empty(0, 4), torch.empty(0, 4)).ok


def test_the_worst_of_several_outputs_counts_and_the_first_message_stands() -> None:
    ones = torch.ones(4)
    outcome = compare({"a": ones, "b": ones + 1, "c": ones + 3}, {"a": ones, "b": ones, "c": ones}, EXACT)
    assert outcome.max_abs_error == 3 and outcome.matched_ratio == 0 and outcome.message.startswith("output 'b'")


def test_an_answer_to_the_content_before_is_stale_only_where_the_two_clearly_differ() -> None:
    before, after = torch.tensor([1.0, 1.0, 1.0, 1.0]), torch.tensor([1.0, 1.02, 5.0, 9.0])
    tolerance = Tolerance(max_atol=0.01, max_rtol=0)
    assert stale_elements(after, before, after, tolerance) == 0
    assert stale_elements(before, before, after, tolerance) == 2
    assert stale_elements(torch.tensor([1, 2]), torch.tensor([1, 2]), torch.tensor([1, 3]), tolerance) == 1


def test_a_stray_rounding_to_the_earlier_answer_is_not_stale() -> None:
    before, after = torch.zeros(1000, dtype=torch.int32), torch.ones(1000, dtype=torch.int32)
    got = after.clone()
    got[:5] = 0
    assert stale_elements(got, before, after, Tolerance()) == 0
    got[:200] = 0
    assert stale_elements(got, before, after, Tolerance()) == 200


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, getattr(torch, "float4_e2m1fn_x2", torch.float8_e5m2)])
def test_stale_answers_are_seen_in_narrow_formats(dtype: torch.dtype) -> None:
    before, after = (torch.tensor([b], dtype=torch.uint8).view(dtype) for b in (0x22, 0x55))
    assert stale_elements(before, before, after, EXACT) > 0 and stale_elements(after, before, after, EXACT) == 0


AWKWARD = [0.0, -0.0, 1.0, 1.05, -1.0, 2.0, 3e38, -3e38, 1e-7, INF, -INF, NAN]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.bool])
@pytest.mark.parametrize(
    "tolerance",
    [EXACT, LOOSE, Tolerance(max_atol=0.1, max_rtol=0.1, required_matched_ratio=1), Tolerance(max_error_cap=0.5)],
    ids=["exact", "loose", "relative", "capped"],
)
def test_comparing_many_calls_at_once_says_what_comparing_each_says(dtype: torch.dtype, tolerance: Tolerance) -> None:
    generator = torch.Generator().manual_seed(7)
    calls = []
    for number in range(60):
        picks = torch.randint(len(AWKWARD), (2, 5), generator=generator)
        values = torch.tensor(AWKWARD)[picks] if number % 3 else torch.rand(2, 5, generator=generator)
        if not dtype.is_floating_point:
            values = values.nan_to_num(3, 4, 5).clamp(-9, 9)
        want = values[0].to(dtype)
        got = want.clone() if number % 2 else values[1].to(dtype)
        calls.append(({"y": got}, {"y": want}))
    outcomes = compare_all(calls, tolerance)
    for (got, want), outcome in zip(calls, outcomes, strict=True):
        alone = compare(got, want, tolerance)
        assert (outcome.ok, outcome.message) == (alone.ok, alone.message)
        assert outcome.matched_ratio == alone.matched_ratio
        assert outcome.max_abs_error == pytest.approx(alone.max_abs_error)
        assert outcome.max_rel_error == pytest.approx(alone.max_rel_error, rel=1e-6)
    assert any(o.ok for o in outcomes) and not all(o.ok for o in outcomes)


def test_all_zeros_and_empty_outputs_are_seen_among_many_calls() -> None:
    loose = Tolerance(max_atol=1, max_rtol=0)
    zeroed, honest = ({"y": torch.zeros(4)}, {"y": torch.full((4,), 0.5)}), ({"y": torch.ones(4)}, {"y": torch.ones(4)})
    empty = ({"y": torch.zeros(0)}, {"y": torch.zeros(0)})
    assert [c.ok for c in compare_all([honest, zeroed], loose)] == [True, False]
    assert [c.ok for c in compare_all([empty, empty], loose)] == [True, True]
    assert compare_all([], loose) == []


@pytest.mark.parametrize("elements", [1, 8, 1 << 30])
def test_how_many_outputs_are_looked_at_together_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    monkeypatch.setattr(correctness, "GLANCE_ELEMENTS", elements)
    calls = []
    for number in range(7):
        want = {"y": torch.arange(4.0).reshape(2, 2) + number, "k": torch.arange(3) + number}
        got = {name: tensor.clone() for name, tensor in want.items()}
        if number == 3:
            got["y"][1, 0] = -1
        if number == 5:
            got["k"][2] = -1
        calls.append((got, want))
    outcomes = compare_all(calls, EXACT)
    assert [c.ok for c in outcomes] == [True, True, True, False, True, False, True]
    assert "(1, 0): got -1, want 5" in outcomes[3].message and "output 'k'" in outcomes[5].message

"""Where a workload's tensors lie, and what fills the outputs before a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from agentcore.judge.layout import GUARD_BYTES, Layout, Parameter, detects_poison, leftover, poison_for
from agentcore.problems import Problem, load_problem
from tests.judge.conftest import workload, write_problem

DEFINITION: dict[str, Any] = {
    "name": "laid_out",
    "axes": {
        "rows": {"type": "var"}, "width": {"type": "const", "value": 3},
        "half": {"type": "expr", "expression": "rows // 2"}, "extra": {"type": "var"},
    },
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "bfloat16"}, "eps": {"shape": None, "dtype": "float32"},
        "flag": {"shape": None, "dtype": "bool"}, "zero_d": {"shape": [], "dtype": "int64"},
    },
    "outputs": {"y": {"shape": ["half", "extra"], "dtype": "float32"}, "done": {"shape": [], "dtype": "bool"}},
    "reference": "def run(x, eps, flag, zero_d):\n    raise NotImplementedError\n",
}


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    line = workload(axes={"rows": 5, "extra": 7}, inputs={
        "x": {"type": "random"}, "eps": {"type": "scalar", "value": 0.5}, "flag": {"type": "scalar", "value": True},
        "zero_d": {"type": "scalar", "value": 4},
    })
    return load_problem(write_problem(tmp_path / "p", DEFINITION, [line]))


def test_parameters_stand_in_the_order_of_the_abi(problem: Problem) -> None:
    layout = Layout.of(problem, problem.workloads[0], {"eps": 0.5, "flag": True}, 2)
    assert [(p.name, p.role) for p in layout.parameters] == [
        ("x", "input"), ("eps", "scalar"), ("flag", "scalar"), ("zero_d", "input"),
        ("y", "output"), ("done", "output"), ("rows", "axis"), ("extra", "axis"), ("half", "axis"),
    ]
    by_name = {p.name: p for p in layout.parameters}
    assert by_name["y"].shape == (2, 7) and by_name["zero_d"].shape == () and by_name["half"].value == 2
    assert (by_name["eps"].type, by_name["flag"].type) == ("float", "int")


@pytest.mark.parametrize("nbytes", [0, 1, 15, 16, 17, 511, 512, 513, 4097])
def test_slots_never_overlap_and_outputs_have_a_guard_on_both_sides(nbytes: int) -> None:
    for role in ("input", "output"):
        p = Parameter("t", role, (nbytes,), torch.uint8, "uint8")
        guard = GUARD_BYTES if role == "output" else 0
        assert p.offset == guard and p.offset % 512 == 0 and p.stride % 512 == 0
        assert p.stride >= guard + nbytes + guard and p.stride > 0


def test_the_runner_is_told_which_buffers_it_may_write(problem: Problem) -> None:
    layout = Layout.of(problem, problem.workloads[0], {"eps": 0.5, "flag": True}, 2)
    names = [p.name for p in layout.parameters if p.is_tensor]
    described = layout.describe(dict(zip(names, range(9), strict=False)), dict.fromkeys(names, 4096), False)
    writable = {p["name"]: p["writable"] for p in described if p.get("fd") is not None}
    assert writable == {"x": False, "zero_d": False, "y": True, "done": True}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_float_poison_is_a_nan_that_no_arithmetic_gives(dtype: torch.dtype) -> None:
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    patterns = {poison_for(dtype) for _ in range(300)}
    assert len(patterns) > 20  # cannot be learned from the last call
    values = torch.tensor(sorted(patterns), dtype=bits).view(dtype)
    assert bool(values.isnan().all())
    computed = torch.tensor([float("nan"), float("inf") - float("inf"), -float("nan")]).to(dtype).view(bits).tolist()
    assert not patterns & {value & ((1 << 8 * dtype.itemsize) - 1) for value in computed}


def test_bool_poison_is_neither_true_nor_false() -> None:
    assert all(1 < poison_for(torch.bool) < 256 for _ in range(300)) and detects_poison(torch.bool)


def test_poison_of_small_integers_is_any_byte_and_tells_nothing() -> None:
    assert not any(map(detects_poison, (torch.uint8, torch.int8, torch.float8_e4m3fn)))
    assert len({poison_for(torch.uint8) for _ in range(2000)}) > 200


def test_a_result_that_equals_the_poison_by_chance_is_not_left_over() -> None:
    output, reference = torch.tensor([7, 7, 1]), torch.tensor([7, 2, 1])
    assert leftover(output, 7) == 2 and leftover(output, 7, reference) == 1

"""Whole evaluations on the CPU: what problems may look like, and that honest kernels pass on all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.judge.evaluate import kernel_digest
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import CheckName, CheckStatus, Language, Verdict
from tests.judge.conftest import DOUBLE, DOUBLE_KERNEL, Bench, checks_of, workload

EVERY_TYPE: dict[str, Any] = {
    "name": "every_type",
    "axes": {
        "rows": {"type": "var"}, "cols": {"type": "const", "value": 5}, "extra": {"type": "var"},
        "half": {"type": "expr", "expression": "rows // 2 + 1"},
    },
    "inputs": {
        "x": {"shape": ["rows", "cols"], "dtype": "float32"}, "scale": {"shape": None, "dtype": "float32"},
        "shift": {"shape": None, "dtype": "int32"}, "negate": {"shape": None, "dtype": "bool"},
        "single": {"shape": [], "dtype": "float32"}, "ids": {"shape": ["rows"], "dtype": "int64"},
    },
    "outputs": {
        "scaled": {"shape": ["rows", "cols"], "dtype": "bfloat16"}, "positive": {"shape": ["rows"], "dtype": "bool"},
        "count": {"shape": [], "dtype": "int32"}, "filled": {"shape": ["half", "extra"], "dtype": "int64"},
        "bytes": {"shape": ["rows"], "dtype": "uint8"}, "total": {"shape": [], "dtype": "float64"},
    },
    "reference": """
import torch
def run(x, scale, shift, negate, single, ids):
    half, extra = x.shape[0] // 2 + 1, EXTRA
    return (
        ((-x if negate else x) * scale + single).to(torch.bfloat16), x.sum(1) > 0,
        (x > 0).sum().to(torch.int32), torch.full((half, extra), shift, dtype=torch.int64, device=x.device),
        (ids + shift).to(torch.uint8), x.double().sum(),
    )
""",
}
EVERY_TYPE_KERNEL = """
    int32_t positives = 0;
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
        double row = 0;
        for (int c = 0; c < KY_COLS; ++c) {
            const float v = x[r * KY_COLS + c];
            scaled[r * KY_COLS + c] = (negate ? -v : v) * scale + *single;
            positives += v > 0;
            row += v;
        }
        positive[r] = row > 0;
        bytes[r] = (uint8_t)(ids[r] + shift);
        sum += row;
    }
    for (int64_t i = 0; i < half * extra; ++i) filled[i] = shift;
    *count = positives;
    *total = sum;
    return 0;
"""


def every_type(bench: Bench, rows: int, extra: int) -> EvaluationResult:
    line = workload(axes={"rows": rows, "extra": extra}, tolerance={"max_atol": 1e-3, "max_rtol": 1e-2}, inputs={
        "x": {"type": "random"}, "scale": {"type": "scalar", "value": 0.1}, "shift": {"type": "scalar", "value": -3},
        "negate": {"type": "scalar", "value": True}, "single": {"type": "scalar", "value": 0.25},
        "ids": {"type": "random", "low": 0, "high": 200},
    })
    definition = {**EVERY_TYPE, "reference": EVERY_TYPE["reference"].replace("EXTRA", str(extra))}
    return bench.judge_kernel(EVERY_TYPE_KERNEL, bench.problem(definition, [line]))


def test_a_correct_kernel_passes_and_its_record_says_what_was_done(bench: Bench) -> None:
    problem = bench.problem(workloads=[workload("small"), workload("odd", {"n": 12_345})])
    result = bench.judge_kernel(DOUBLE_KERNEL, problem)
    assert result.verdict is Verdict.PASSED, result.message
    assert [w.uuid for w in result.workloads] == ["small", "odd"] and result.failed_checks() == []
    for w in result.workloads:
        assert w.latency_us is not None and w.latency_low_us is not None and w.latency_high_us is not None
        assert 0 < w.latency_low_us <= w.latency_us <= w.latency_high_us
        assert w.calls == len(w.samples_us) >= 1 and w.verified_calls >= w.calls and w.timing_method == "wall"
        assert w.claimed_latency_us is not None and w.max_abs_error == 0 and w.matched_ratio == 1
        assert w.bound is not None and w.bound.t_sol_us < w.latency_us
        passed = {c.name for c in w.checks if c.status is CheckStatus.PASS}
        assert passed >= {
            CheckName.RUNS, CheckName.INPUTS_INTACT, CheckName.OUTPUTS_WRITTEN, CheckName.GUARDS_INTACT,
            CheckName.MATCHES_REFERENCE, CheckName.COMPLETE_ON_TIME, CheckName.CLOCK_AGREES, CheckName.QUIET_DEVICE,
        }
    assert result.build is not None and result.build.ok
    assert result.problem_digest == problem.digest and result.stamp.sandbox in ("bubblewrap", "unshare")
    assert result.stamp.harness_version and result.stamp.device_name and result.stamp.canary_us
    assert set(result.seconds) >= {"build", "start", "measure", "total"}


def test_a_result_survives_the_way_through_json(bench: Bench) -> None:
    result = bench.judge_kernel(DOUBLE_KERNEL)
    assert EvaluationResult.model_validate_json(result.model_dump_json()) == result
    strict = json.loads(json.dumps(result.model_dump(mode="json"), allow_nan=False))
    assert EvaluationResult.model_validate(strict) == result


@pytest.mark.parametrize(("rows", "extra"), [(7, 3), (1, 1), (0, 4), (6, 0), (33, 17)])
def test_outputs_of_every_kind_and_sizes_down_to_zero_are_judged(bench: Bench, rows: int, extra: int) -> None:
    result = every_type(bench, rows, extra)
    assert result.verdict is Verdict.PASSED, result.message


@pytest.mark.parametrize(
    ("line", "broken", "output"),
    [
        ("positive[r] = row > 0", "positive[r] = !(row > 0)", "positive"),
        ("positive[r] = row > 0", "", "positive"),
        ("*count = positives", "*count = positives + 1", "count"),
        ("filled[i] = shift", "filled[i] = i ? shift : shift + 1", "filled"),
        ("bytes[r] = (uint8_t)(ids[r] + shift)", "", "bytes"),
        ("*total = sum", "*total = sum + 5", "total"),
        ("*total = sum", "", "total"),
    ],
)
def test_one_wrong_output_among_many_is_found_and_named(bench: Bench, line: str, broken: str, output: str) -> None:
    source = EVERY_TYPE_KERNEL.replace(line, broken)
    assert source != EVERY_TYPE_KERNEL
    inputs = {"x": {"type": "random"}, "scale": {"type": "scalar", "value": 2}, "shift": {"type": "scalar", "value": 9},
              "negate": {"type": "scalar", "value": False}, "single": {"type": "scalar", "value": 1},
              "ids": {"type": "random", "low": 0, "high": 200}}
    definition = {**EVERY_TYPE, "reference": EVERY_TYPE["reference"].replace("EXTRA", "3")}
    problem = bench.problem(definition, [workload(axes={"rows": 40, "extra": 3}, inputs=inputs)])
    result = bench.judge_kernel(source, problem)
    assert result.verdict is Verdict.INCORRECT and f"output {output!r}" in result.message


ROW_MAX: dict[str, Any] = {
    "name": "masked_max",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}, "keep": {"shape": ["n"], "dtype": "bool"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
    "reference": "def run(x, keep):\n    return x.masked_fill(~keep, float('-inf'))\n",
}


def test_minus_infinity_where_the_reference_has_it_is_right_and_elsewhere_wrong(bench: Bench) -> None:
    problem = bench.problem(ROW_MAX)
    right = "for (int64_t i = 0; i < n; ++i) y[i] = keep[i] ? x[i] : -INFINITY; return 0;"
    assert bench.judge_kernel(right, problem).verdict is Verdict.PASSED
    wrong = bench.judge_kernel("for (int64_t i = 0; i < n; ++i) y[i] = -INFINITY; return 0;", problem)
    assert wrong.verdict is Verdict.INCORRECT and "NaN or infinite" in wrong.message


@pytest.mark.parametrize(("dtype", "c_type"), [("bfloat16", "ky::bf16"), ("float32", "float")])
def test_a_reference_that_itself_gives_nan_can_be_matched_and_recorded(
    bench: Bench, dtype: str, c_type: str
) -> None:
    definition = {
        **DOUBLE, "inputs": {"x": {"shape": ["n"], "dtype": dtype}}, "outputs": {"y": {"shape": ["n"], "dtype": dtype}},
        "reference": "def run(x):\n    return x.float().sqrt().to(x.dtype)\n",
    }
    problem = bench.problem(definition)
    result = bench.judge_kernel("for (int64_t i = 0; i < n; ++i) y[i] = std::sqrt((float)x[i]); return 0;", problem)
    assert result.verdict is Verdict.PASSED, result.message
    json.dumps(result.model_dump(mode="json"), allow_nan=False)
    nothing_but_nan = bench.judge_kernel("for (int64_t i = 0; i < n; ++i) y[i] = NAN; return 0;", problem)
    assert nothing_but_nan.verdict is Verdict.INCORRECT


def test_integers_over_their_whole_range_are_not_taken_for_poison(bench: Bench) -> None:
    definition = {
        **DOUBLE, "inputs": {"x": {"shape": ["n"], "dtype": "int16"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "int16"}}, "reference": "def run(x):\n    return x.clone()\n",
    }
    line = workload(axes={"n": 400_000}, inputs={"x": {"type": "random", "low": -32768, "high": 32768}})
    problem = bench.problem(definition, [line])
    result = bench.judge_kernel("for (int64_t i = 0; i < n; ++i) y[i] = x[i]; return 0;", problem)
    assert result.verdict is Verdict.PASSED, result.message
    unwritten = bench.judge_kernel("for (int64_t i = 1; i < n; ++i) y[i] = x[i]; return 0;", problem)
    assert unwritten.verdict is Verdict.INCORRECT and "1 of 400000 elements" in unwritten.message


def test_a_path_of_any_letters_is_no_obstacle(bench: Bench, tmp_path: Path) -> None:
    bench.root = tmp_path / "größe и 空白 x"
    bench.root.mkdir()
    assert bench.judge_kernel(DOUBLE_KERNEL).verdict is Verdict.PASSED


def test_only_the_chosen_workloads_are_measured(bench: Bench) -> None:
    problem = bench.problem(workloads=[workload("a"), workload("b", {"n": 10}), workload("c", {"n": 20})])
    result = bench.judge_kernel(DOUBLE_KERNEL, problem, workload_uuids=("b",))
    assert [w.uuid for w in result.workloads] == ["b"]


def test_a_torch_kernel_writes_into_the_outputs_it_is_given(bench: Bench) -> None:
    result = bench.judge_kernel(
        "import torch\n\ndef run(x, y):\n    print('hello from the candidate')\n    torch.mul(x, 2, out=y)\n",
        language=Language.TORCH,
    )
    assert result.verdict is Verdict.PASSED, result.message
    assert "hello from the candidate" in result.runner_log and result.build is None


def test_workloads_whose_files_are_absent_are_left_out_and_the_rest_is_judged(bench: Bench) -> None:
    blob = {"type": "safetensors", "path": "absent/blob.safetensors", "tensor_key": "x"}
    lines = [workload("absent", inputs={"x": blob}), workload("here")]
    result = bench.judge_kernel(DOUBLE_KERNEL, bench.problem(workloads=lines))
    assert result.passed and [w.uuid for w in result.workloads] == ["here"]
    nothing_left = bench.judge_kernel(DOUBLE_KERNEL, bench.problem(workloads=lines[:1]))
    assert nothing_left.verdict is Verdict.INFRA_ERROR and "safetensors files are absent" in nothing_left.message


def test_without_a_sandbox_the_check_is_skipped_and_the_stamp_says_so(bench: Bench) -> None:
    result = bench.judge_kernel(DOUBLE_KERNEL, sandbox="none")
    assert result.passed and result.stamp.sandbox == "none"
    sandboxed = next(c for c in result.checks if c.name is CheckName.SANDBOXED)
    assert sandboxed.status is CheckStatus.SKIP and "not mergeable" in sandboxed.message


def test_a_reference_that_fails_is_our_fault_and_not_the_candidates(bench: Bench) -> None:
    broken = {**DOUBLE, "reference": "def run(x):\n    raise RuntimeError('out of memory')\n"}
    result = bench.judge_kernel(DOUBLE_KERNEL, bench.problem(broken))
    assert result.verdict is Verdict.INFRA_ERROR and "out of memory" in result.message


def test_a_digest_follows_names_and_bytes_and_nothing_else(tmp_path: Path) -> None:
    def made(name: str, files: dict[str, str]) -> str:
        root = tmp_path / name
        for file, text in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text)
        return kernel_digest(root)

    base = made("a", {"kernel.cpp": "x", "sub/part.h": "y"})
    assert made("b", {"sub/part.h": "y", "kernel.cpp": "x"}) == base
    assert made("c", {"kernel.cpp": "x", "sub/part.h": "z"}) != base
    assert made("d", {"kernel.cpp": "x", "part.h": "y"}) != base
    assert made("e", {"kernel.cpp": "xy", "sub/part.h": ""}) != base
    (tmp_path / "a" / "link").symlink_to("/etc/hostname")
    assert kernel_digest(tmp_path / "a") == base


def test_checks_of_a_workload_that_was_not_timed_say_which_were_skipped_for_the_bound(bench: Bench) -> None:
    result = bench.judge_kernel("return 3;")
    assert CheckName.CLOCK_AGREES not in checks_of(result)
    assert result.workloads[0].latency_us is None


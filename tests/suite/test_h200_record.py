"""The results recorded on an H200 hold together: schema, bounds below times, and what they say about repeatability.

The files under tests/data/h200 were written by ``kernelyard judge`` there; no number here is computed by this test.
All are of harness version 6, CuTe DSL and Triton of its first day; sanitizers are of 2. Version 7 has the same launches
in the same order; it compares one copy of the outputs, where 6 looked at the runner's memory several times.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from agentcore.bounds.score import sol_score
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import CheckName, CheckStatus, HardwareName, Language, Verdict
from tests.bench.profiler import AGREES_SHARE, AGREES_US, agrees

RECORD = Path(__file__).parents[1] / "data" / "h200"
KERNELS = sorted(RECORD.glob("kernels/*.json"))
BASELINES = sorted(RECORD.glob("baselines/*.json"))
REPEATED = (CheckName.FRESH_EVERY_CALL, CheckStatus.PASS)


def load(file: Path) -> EvaluationResult:
    return EvaluationResult.model_validate_json(file.read_text())


def test_what_was_judged_there_are_problems_of_the_suite_each_with_its_baseline() -> None:
    suite = {p.parent.name for p in (RECORD.parents[2] / "problems").glob("*/definition.json")}
    judged = {file.stem for file in KERNELS}
    with_baseline = {file.stem for file in BASELINES}
    assert len(judged) >= 10 and judged <= with_baseline == suite
    assert {load(file).stamp.harness_version for file in [*KERNELS, *BASELINES]} == {"6"}


@pytest.mark.parametrize("file", [*KERNELS, *BASELINES], ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_a_recorded_result_passed_confined_and_above_its_bound(file: Path) -> None:
    result = load(file)
    assert result.verdict is Verdict.PASSED and result.hardware is HardwareName.H200
    assert result.stamp.sandbox == "bubblewrap" and result.stamp.device_name == "NVIDIA H200"
    assert len([w for w in result.workloads if not w.heldout]) >= 8
    for workload in result.workloads:
        # A baseline that waits for the device in its calls is timed one by one; what lies around them has no meaning.
        gated = workload.timing_method == "gated"
        # Inputs were given again in three workloads drawn at random.
        skipped = {check.name for check in workload.checks if check.status is CheckStatus.SKIP}
        assert workload.latency_us and not workload.failed_checks()
        assert not gated or skipped <= {CheckName.FRESH_EVERY_CALL}
        if workload.bound:  # held-out shapes are kept secret, and with them what their bounds are made of
            assert workload.bound.t_sol_us < workload.latency_us
    repeated = [c for w in result.workloads for c in w.checks if (c.name, c.status) == REPEATED]
    assert len(repeated) == 3 or any(w.timing_method == "wall" for w in result.workloads)


@pytest.mark.parametrize("file", KERNELS, ids=lambda f: f.stem)
def test_scores_follow_from_kernel_baseline_and_bound(file: Path) -> None:
    baseline = {w.uuid: w.latency_us for w in load(RECORD / "baselines" / file.name).workloads}
    for workload in load(file).workloads:
        t_b, t_k = baseline.get(workload.uuid), workload.latency_us
        if t_b and t_k and workload.bound:
            score = sol_score(t_k, t_b, workload.bound.t_sol_us)
            assert 0 < score < 1 and (score > 0.5) == (t_k < t_b)


def test_the_judge_agrees_with_the_profiler() -> None:
    """Within 2 % or 0.3 µs in 16 of 25 cases, of six kernels, from 3 µs to 0.6 ms. The shortest are up to 0.6 µs
    shorter by the judge, for which a launch of nothing takes 0.4 µs less; some products on tensor cores 2 %, where
    power decides how fast they are.
    """
    assert (AGREES_US, AGREES_SHARE) == (0.3, 0.02)
    kernels = json.loads((RECORD / "profiler.json").read_text())["kernels"]
    close: list[tuple[float, str]] = []
    for name, rows in kernels.items():
        for row in rows:
            assert abs(row["judge_us"] - row["ncu_us"]) <= max(0.65, 0.025 * row["ncu_us"]), (name, row)
            if agrees(row["ncu_us"], row["judge_us"]):
                close.append((row["ncu_us"], name))
    assert len({name for _, name in close}) == 6 and len(close) == 16 and sum(map(len, kernels.values())) == 25
    assert min(close)[0] < 3 and max(close)[0] > 600


def test_five_evaluations_of_one_kernel_agree() -> None:
    """Above 20 µs their standard deviation is below 0.75 %; all five lie within 1.7 %, above 80 µs within 1 %."""
    for name, times in json.loads((RECORD / "repeatability.json").read_text()).items():
        spread, middle = max(times) - min(times), statistics.median(times)
        assert len(times) == 5 and spread <= max(0.5, (0.01 if middle > 80 else 0.017) * middle), name
        assert middle < 20 or statistics.stdev(times) <= 0.0075 * middle, name


@pytest.mark.parametrize("name", ["rmsnorm_h4096", "softmax_softcap", "swiglu_gate_i14336"])
def test_a_cute_kernel_was_judged_there(name: str) -> None:
    result = load(RECORD / "cute" / f"{name}.json")
    assert result.verdict is Verdict.PASSED and result.language is Language.CUTE
    assert all(w.timing_method == "gated" for w in result.workloads)


def test_a_triton_kernel_was_judged_there() -> None:
    result = load(RECORD / "triton" / "rmsnorm_h4096.json")
    assert result.verdict is Verdict.PASSED and result.language is Language.TRITON
    assert all(w.timing_method == "gated" for w in result.workloads)


def test_two_kernels_in_turn_show_a_difference_of_a_twentieth_and_none_where_there_is_none() -> None:
    same, slower = load(RECORD / "ab_same.json").comparison, load(RECORD / "ab_slower.json").comparison
    assert same is not None and same.change == "unproven" and same.low < 1 < same.high
    assert slower is not None
    largest = max(slower.workloads, key=lambda w: w.axes["tokens"])
    assert largest.change == "regressed" and largest.high < 0.96


@pytest.mark.parametrize(
    ("kernel", "tool", "line"),
    [("oob_write", "memcheck", 8), ("shared_race", "racecheck", 7), ("uninitialised", "initcheck", 7),
     ("divergent_barrier", "synccheck", 9)],
)
def test_each_sanitizer_named_the_kernel_and_line_of_its_fault(kernel: str, tool: str, line: int) -> None:
    found = load(RECORD / "sanitizer" / f"{kernel}.json").sanitizer
    assert found is not None
    assert ("twice", "kernel.cu", line) in {(f.kernel, f.file, f.line) for f in found.findings if f.tool == tool}


def test_a_clean_kernel_was_clean_under_every_sanitizer() -> None:
    assert load(RECORD / "sanitizer" / "rmsnorm_h4096.json").verdict is Verdict.CLEAN


def test_what_an_evaluation_of_fourteen_workloads_cost_there() -> None:
    cost = json.loads((RECORD / "cost.json").read_text())
    built, sustained = cost["warm_built"], cost["sustained"]
    assert built["workloads"] == 14 and built["wall_s"] <= 3.0 and built["phases_s"]["lease"] <= 2.8
    assert sustained["per_hour"] >= 1300 and sustained["leased_share"] >= 0.85
    assert sustained["busy_share_of_lease"] >= 0.5


def test_no_cheat_was_accepted_and_no_honest_kernel_refused_there() -> None:
    record = json.loads((RECORD / "cheats.json").read_text())
    summary = record["summary"]
    assert summary["accepted"] == summary["refused"] == summary["misjudged"] == 0
    assert summary["exploits"] >= 95 and summary["controls"] >= 29 and len(record["cases"]) >= 130
    # It stops waiting once timed call by call; the judge, which then tried twice where a call waits, did that later.
    wrong = {c["case"]: c["verdict"] for c in record["cases"] if not c["as_expected"]}
    assert wrong == {"cuda/wall_early_answer": "runtime_error"} and summary["misnamed"] == 1

"""The results recorded on an H200 hold together: schema, bounds below times, and what they say about repeatability.

The files under tests/data/h200 were written by ``kernelyard judge`` there; no number here is computed by this test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcore.bounds.score import sol_score
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import CheckStatus, HardwareName, Verdict

RECORD = Path(__file__).parents[1] / "data" / "h200"
KERNELS = sorted(RECORD.glob("kernels/*.json"))
BASELINES = sorted(RECORD.glob("baselines/*.json"))


def load(file: Path) -> EvaluationResult:
    return EvaluationResult.model_validate_json(file.read_text())


def test_every_problem_of_the_suite_was_judged_there() -> None:
    suite = {p.parent.name for p in (RECORD.parents[2] / "problems").glob("*/definition.json")}
    assert {file.stem for file in KERNELS} == suite


@pytest.mark.parametrize("file", [*KERNELS, *BASELINES], ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_a_recorded_result_passed_confined_and_above_its_bound(file: Path) -> None:
    result = load(file)
    assert result.verdict is Verdict.PASSED and result.hardware is HardwareName.H200
    assert result.stamp.sandbox == "bubblewrap" and result.stamp.device_name == "NVIDIA H200"
    assert len([w for w in result.workloads if not w.heldout]) >= 8
    for workload in result.workloads:
        assert workload.timing_method == "gated" and workload.latency_us
        assert all(check.status is CheckStatus.PASS for check in workload.checks)
        if workload.bound:  # held-out shapes are kept secret, and with them what their bounds are made of
            assert workload.bound.t_sol_us < workload.latency_us


@pytest.mark.parametrize("file", BASELINES, ids=lambda f: f.stem)
def test_scores_follow_from_kernel_baseline_and_bound(file: Path) -> None:
    baseline = {w.uuid: w.latency_us for w in load(file).workloads}
    for workload in load(RECORD / "kernels" / file.name).workloads:
        t_b, t_k = baseline.get(workload.uuid), workload.latency_us
        if t_b and t_k and workload.bound:
            score = sol_score(t_k, t_b, workload.bound.t_sol_us)
            assert 0 < score < 1 and (score > 0.5) == (t_k < t_b)


def test_the_judge_agrees_with_the_profiler_within_eight_percent_or_half_a_microsecond() -> None:
    for rows in json.loads((RECORD / "profiler.json").read_text())["kernels"].values():
        for row in rows:
            assert abs(row["judge_us"] - row["ncu_us"]) <= max(0.55, 0.08 * row["ncu_us"]), row


def test_five_evaluations_of_one_kernel_agree() -> None:
    for name, row in json.loads((RECORD / "repeatability.json").read_text())["kernels"].items():
        times = row["latency_us"]
        spread = max(times) - min(times)
        assert len(times) == 5 and spread <= max(0.4, 0.02 * min(times)), name


def test_honest_controls_passed_and_only_known_cheats_were_accepted() -> None:
    record = json.loads((RECORD / "cheats.json").read_text())
    assert record["summary"]["refused"] == record["summary"]["misjudged"] == 0
    accepted = {c["case"] for c in record["cases"] if c["kind"] == "exploit" and c["verdict"] == "passed"}
    # Neither has been seen on a device since the judge learned to ask the same slots again and to watch begin marks.
    assert accepted == {"cuda/cache_content_sampled", "cuda/delay_begin"}

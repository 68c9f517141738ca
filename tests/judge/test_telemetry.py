"""Throttling and strangers on a GPU: what is concluded from NVML's answers, and on a GPU what a real stranger does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentcore.judge import telemetry
from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.judge.result import EnvironmentStamp
from agentcore.problems import load_problem
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict
from tests.judge.conftest import DOUBLE_KERNEL, Bench, failing

ROOT = Path(__file__).resolve().parents[2]


def seen(*masks: int) -> Counter[str]:
    """Samples by reason, of NVML's bit masks one after another."""
    counted: Counter[str] = Counter()
    for mask in masks:
        counted.update(telemetry.reasons_in(mask))
    return counted


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        ([0x0, 0x1, 0x0], None),  # none, idle
        ([0x2] * 9, None),  # the operator's application clocks
        ([0x4] * 9, None),  # a kernel at the power limit
        ([0x8, 0x0], None),  # reported for a moment while clocks change
        ([0x8, 0x8], "hardware slowdown"),
        ([0x0, 0x20], "software thermal"),
        ([0x48], "hardware thermal"),
        ([0x80, 0x4], "hardware power brake"),
    ],
)
def test_clocks_held_down_spoil_a_measurement_and_settings_or_power_limits_do_not(
    masks: list[int], said: str | None
) -> None:
    found = telemetry.disturbances(seen(*masks), {})
    assert (found == []) if said is None else (len(found) == 1 and said in found[0])


def nobody(_pid: int) -> bool:
    return False


def test_a_stranger_counts_when_it_used_the_device_or_when_nobody_can_say() -> None:
    strangers = telemetry.foreign_processes({10, 11, 77, 78}, {10: 50, 77: 12}, {10, 11}, nobody)
    assert strangers == {77: 12, 78: 0}
    (sentence,) = telemetry.disturbances({}, strangers)
    assert "(12 % of the SMs)" in sentence and "(0 %" not in sentence
    assert telemetry.disturbances({}, {78: 0}) == []
    unknown = telemetry.foreign_processes({10, 77}, None, {10}, nobody)
    assert unknown == {77: None} and len(telemetry.disturbances({}, unknown)) == 1


def test_other_judges_are_no_strangers_and_ids_of_another_namespace_accuse_nobody() -> None:
    assert telemetry.foreign_processes({10, 77}, {77: 99}, {10}, lambda pid: pid == 77) == {}
    assert telemetry.foreign_processes({31001, 31002}, {31001: 99}, {10, 11}, nobody) == {}


def test_a_judge_is_known_by_its_command_line_and_so_is_what_it_started() -> None:
    code = "import subprocess, sys; subprocess.run(['sleep', '30'])"
    judge = subprocess.Popen([sys.executable, "-c", code, "agentcore.judge.serve"])
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)", "notebook"], cwd="/")
    try:
        deadline = time.monotonic() + 10
        while not (child := Path(f"/proc/{judge.pid}/task/{judge.pid}/children").read_text().split()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert telemetry._is_judges(judge.pid) and telemetry._is_judges(int(child[0]))
        assert {judge.pid, int(child[0]), os.getpid()} <= telemetry.own_processes()
        assert not telemetry._is_judges(other.pid) and not telemetry._is_judges(1)
    finally:
        for process in (judge, other):
            process.kill()
            process.wait()
        os.kill(int(child[0]), signal.SIGKILL)


def disturbed(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the target says that a thermal slowdown was seen, as NVML would have."""
    honest = judge.target.stamp

    def stamp(*arguments: object) -> EnvironmentStamp:
        return honest(*arguments).model_copy(  # type: ignore[arg-type]
            update={"disturbances": telemetry.disturbances(seen(0x20), {})}
        )

    monkeypatch.setattr(judge.target, "stamp", stamp)


def test_a_disturbed_measurement_is_an_infra_error_and_a_wrong_answer_stays_wrong(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(bench.judge, monkeypatch)
    result = bench.judge.evaluate(request(bench, DOUBLE_KERNEL))
    assert result.verdict is Verdict.INFRA_ERROR and CheckName.QUIET_DEVICE in failing(result)
    assert "software thermal" in result.message
    wrong = bench.judge.evaluate(request(bench, "for (int64_t i = 0; i < n; ++i) y[i] = 3 * x[i]; return 0;"))
    assert wrong.verdict is Verdict.INCORRECT, wrong.message
    broken = bench.judge.evaluate(request(bench, "return nothing;"))
    assert broken.verdict is Verdict.COMPILE_ERROR


@pytest.mark.parametrize(
    ("check", "verdict"),
    [(CheckName.STEADY_WORK, Verdict.INFRA_ERROR), (CheckName.GUARDS_INTACT, Verdict.REWARD_HACK)],
    ids=lambda value: value.value,
)
def test_what_a_disturbance_can_have_brought_about_is_held_against_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, check: CheckName, verdict: Verdict
) -> None:
    finished = Verifier.check_all

    def failing_too(verifier: Verifier, measurement: Measurement, *given: Any) -> bool:
        measurement.findings.fail(check, "as if")
        return finished(verifier, measurement, *given)

    monkeypatch.setattr(Verifier, "check_all", failing_too)
    alone = bench.judge.evaluate(request(bench, DOUBLE_KERNEL))
    assert alone.verdict is Verdict.REWARD_HACK, alone.message
    disturbed(bench.judge, monkeypatch)
    assert bench.judge.evaluate(request(bench, DOUBLE_KERNEL)).verdict is verdict


def request(bench: Bench, body: str) -> EvaluationRequest:
    problem = bench.problem()
    return EvaluationRequest(
        problem=problem, kernel_dir=bench.kernel(body, problem), language=Language.CPP, hardware=HardwareName.CPU,
        cache_dir=bench.judge.cache_dir, quick=True,
    )


STRANGER = """
import os, sys, torch
if os.fork(): os._exit(0)
os.setsid()
a = torch.randn(4096, 4096, device="cuda")
print(os.getpid(), flush=True)
while True:
    for _ in range(50): a @ a
    torch.cuda.synchronize()
"""


@pytest.mark.gpu
def test_a_real_stranger_on_the_gpu_spoils_the_measurement_and_none_does_not(
    gpu_judge: Judge, tmp_path: Path
) -> None:
    problem = load_problem(ROOT / "problems" / "rmsnorm_h4096")
    wanted = EvaluationRequest(
        problem=problem, kernel_dir=ROOT / "kernels_repo/kernels/rmsnorm_h4096/cuda", language=Language.CUDA,
        hardware=gpu_judge.hardware, cache_dir=gpu_judge.cache_dir,
    )
    alone = gpu_judge.evaluate(wanted)
    assert alone.verdict is Verdict.PASSED and not alone.stamp.disturbances, alone.message
    script = tmp_path / "stranger.py"
    script.write_text(STRANGER)
    started = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd="/")
    assert started.stdout is not None
    pid = int(started.stdout.readline())
    started.wait()
    try:
        time.sleep(2)
        beside = gpu_judge.evaluate(wanted)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert beside.verdict is Verdict.INFRA_ERROR and CheckName.QUIET_DEVICE in failing(beside), beside.message
    assert beside.stamp.foreign_processes and any("other processes" in text for text in beside.stamp.disturbances)

"""``kernelyard baseline`` with the real judge: every kind a candidate, a wrong one shown and never used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.baselines import BaselineKind
from agentcore.baselines.judged import judge_baseline
from agentcore.cli import main
from agentcore.judge.evaluate import Judge
from agentcore.problems import load_problem
from agentcore.sandbox import SandboxUnavailable
from tests.judge.conftest import DOUBLE, workload, write_problem

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = write_problem(tmp_path / "double_it", DOUBLE, [workload("w1", {"n": 50_000})])
    (path / "baseline.py").write_text("def run(x, y):\n    y.copy_(x * 3)\n")
    return path


@pytest.fixture
def baseline(directory: Path, cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable:
    def run(*more: str) -> tuple[int, str, dict]:
        out = tmp_path / "out.json"
        for _ in range(4):
            where = ["--hardware", "cpu", "--cache-dir", str(cache_dir), "--json", str(out)]
            code = main(["baseline", str(directory), *where, *more])
            said = capsys.readouterr().out
            if "run it again" not in said:  # else a busy machine disturbed a measurement
                break
        return code, said, json.loads(out.read_text()) if out.is_file() else {}

    return run


@pytest.mark.slow
def test_every_kind_is_judged_and_only_a_verified_one_is_used(baseline: Callable) -> None:
    """torch.compile finds its C++ compiler inside the sandbox."""
    code, said, results = baseline()
    assert code == 0
    assert set(results) == {"eager", "compile", "hand"}
    assert [results[kind]["verdict"] for kind in ("eager", "compile", "hand")] == ["passed", "passed", "incorrect"]
    assert "hand     incorrect, never used" in said
    assert "agent    empty" in said and "library  there is no library.py" in said
    times = {kind: results[kind]["workloads"][0]["latency_us"] for kind in ("eager", "compile")}
    assert said.splitlines()[-1].split()[-1] == min(times, key=times.__getitem__)


def test_what_passed_is_kept_until_its_source_changes(baseline: Callable, directory: Path) -> None:
    (directory / "baseline.py").write_text("import torch\n\ndef run(x, y):\n    torch.add(x, x, out=y)\n")
    _, _, first = baseline("--kind", "hand")
    _, _, second = baseline("--kind", "hand")
    assert second["hand"]["started_at"] == first["hand"]["started_at"]
    (directory / "baseline.py").write_text("import torch\n\ndef run(x, y):\n    torch.mul(x, 2.0, out=y)\n")
    _, _, third = baseline("--kind", "hand")
    assert third["hand"]["started_at"] != first["hand"]["started_at"]


def test_without_a_sandbox_it_is_said_and_nothing_is_kept(
    baseline: Callable, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(setting: str = "auto") -> None:
        raise SandboxUnavailable("no sandbox can be made on this host")

    monkeypatch.setattr("agentcore.judge.evaluate.find_sandbox", unavailable)
    monkeypatch.setattr("agentcore.baselines.judged.find_sandbox", unavailable)
    kept = set((cache_dir / "baselines").glob("*"))
    code, said, _ = baseline("--kind", "eager")
    assert code == 1 and "not measured, run it again: " in said and "no sandbox can be made" in said
    assert set((cache_dir / "baselines").glob("*")) == kept


def test_a_kind_that_the_problem_lacks_cannot_be_judged(baseline: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = baseline("--kind", "library")
    assert code == 2 and "there is no library.py" in said


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["rmsnorm_h4096", "gemm_bf16_llama8b"])
def test_on_a_gpu_every_kind_of_the_suite_is_verified_and_compiled_ahead_of_its_timing(
    gpu_judge: Judge, cache_dir: Path, name: str
) -> None:
    problem = load_problem(ROOT / "problems" / name)
    for kind in (BaselineKind.EAGER, BaselineKind.COMPILE, BaselineKind.HAND, BaselineKind.LIBRARY):
        result = judge_baseline(gpu_judge, problem, kind, cache_dir)
        assert result.passed, (kind, result.message)
        assert {w.timing_method for w in result.workloads} == {"gated"}, kind

"""The limits a judge compares times with: counted once, and lower when the host turns out to be faster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentcore.bounds import cpu
from agentcore.bounds.cpu import CpuRates
from agentcore.judge.limits import Limits
from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import HardwareName
from tests.judge.conftest import DOUBLE, workload, write_problem


def rates(read_bytes: float, age: timedelta, others_share: float) -> CpuRates:
    return CpuRates(
        cpu="a CPU", threads=2, fp32_flops=1e12, bf16_flops=1e12, read_bytes={1 << 20: read_bytes},
        measured_at=datetime.now(UTC) - age, others_share=others_share,
    )


def test_a_host_seen_busy_is_measured_again_and_bounds_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = load_problem(write_problem(tmp_path / "problem", DOUBLE, [workload(axes={"n": 1 << 16})]))
    factory = InputFactory(problem, "cpu")
    found = [rates(1e10, timedelta(hours=1), 0.5), rates(4e10, timedelta(), 0.0)]
    monkeypatch.setattr(cpu, "_measure", lambda *_: found.pop(0))
    limits = Limits(HardwareName.CPU, tmp_path / "cache")
    before = limits.of(factory, problem.workloads[0])
    limits.measure_again()
    after = limits.of(factory, problem.workloads[0])
    assert not isinstance(before, str) and not isinstance(after, str)
    assert before.t_sol_us / after.t_sol_us == pytest.approx(4, rel=0.01)
    limits.measure_again()  # quiet now, so there is nothing left to measure
    assert limits.of(factory, problem.workloads[0]) is after

"""How many slots a workload gets on a GPU, by the device memory that they take, and how many batches of calls."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentcore.judge import cuda_runner
from agentcore.judge.cuda_runner import MAX_SLOTS, MIN_SLOTS, SLOT_BUDGET_BYTES, CudaBuffers, CudaRunner
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import Effort, Measurement, Verifier
from agentcore.judge.statistics import Estimate
from agentcore.problems import load_problem
from tests.judge.conftest import DOUBLE, workload, write_problem

MIB = 1 << 20


def shared(root: Path, monkeypatch: pytest.MonkeyPatch, n: int) -> Layout:
    """The layout a runner is given for y = 2x of ``n`` floats."""
    problem = load_problem(write_problem(root / "problem", DOUBLE, [workload(axes={"n": n})]))
    verifier = SimpleNamespace(
        factory=SimpleNamespace(problem=problem), workload=problem.workloads[0], scalars=dict
    )
    runner = CudaRunner.__new__(CudaRunner)
    runner._kept, runner.session = [], cast(Any, SimpleNamespace(share=lambda *_a, **_k: None))
    runner.target = cast(Any, SimpleNamespace(kept=SimpleNamespace(limit_bytes=0)))
    monkeypatch.setattr(cuda_runner, "CudaBuffers", lambda layout, *_kept: SimpleNamespace(layout=layout))
    buffers: CudaBuffers = runner._share(cast(Verifier, verifier), writable_inputs=False)
    return buffers.layout


@pytest.mark.parametrize(
    ("tensor_bytes", "slots"), [
        (0, MAX_SLOTS), (4, MAX_SLOTS), (196 * MIB, MAX_SLOTS),  # 12 slots of 4 tensors, and 4 outputs kept
        (230 * MIB, 10), (256 * MIB, 8), (600 * MIB, MIN_SLOTS), (1 << 40, MIN_SLOTS),
    ],
)
def test_what_the_judge_keeps_for_itself_counts_against_the_number_of_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensor_bytes: int, slots: int
) -> None:
    layout = shared(tmp_path, monkeypatch, tensor_bytes // 4)
    assert layout.slots == slots
    if slots > MIN_SLOTS:
        kept = 4 * tensor_bytes if tensor_bytes > MIB else 0
        assert slots * 4 * tensor_bytes + kept <= SLOT_BUDGET_BYTES


@pytest.mark.parametrize(
    ("middle_us", "half_us", "spent_s", "enough"),
    [(5.0, 0.15, 0.01, True), (5.0, 0.3, 0.01, False), (5.0, 0.3, 0.13, True),
     (30.0, 0.15, 0.13, False), (30.0, 0.1, 0.13, True), (30.0, 0.15, 0.31, True)],
)
def test_short_calls_are_counted_to_a_fifth_of_a_microsecond_and_long_ones_to_a_share(
    monkeypatch: pytest.MonkeyPatch, middle_us: float, half_us: float, spent_s: float, enough: bool
) -> None:
    reached = Estimate(middle_us, middle_us - half_us, middle_us + half_us)
    monkeypatch.setattr(cuda_runner, "estimate", lambda *_a, **_k: reached)
    runner = CudaRunner.__new__(CudaRunner)
    runner.effort = Effort()
    assert runner._is_enough(Measurement(), spent_s) is enough

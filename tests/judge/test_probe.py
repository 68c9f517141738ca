"""The steps that a new GPU host is probed by, with the real runner over host memory, as in test_cuda_end_to_end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agentcore.judge import cuda_batches, cuda_target, probe
from agentcore.judge.device_page import DevicePage
from agentcore.judge.host_buffers import HostBuffers
from agentcore.sandbox import Sandbox
from tests.judge.test_cuda_end_to_end import HostTarget, not_stopped


@pytest.fixture
def target(tmp_path: Path, fake_libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> HostTarget:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_libcuda))
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    for module in (cuda_target, probe):
        monkeypatch.setattr(module, "CudaBuffers", HostBuffers)
        monkeypatch.setattr(module, "CALIBRATION_CALLS", 4)
    monkeypatch.setattr(cuda_target, "TOUCHED_BYTES", (1 << 12,))
    monkeypatch.setattr(cuda_target, "CALIBRATION_BATCHES", 1)
    monkeypatch.setattr(probe, "LET_GO_S", 20.0)
    monkeypatch.setattr(cuda_batches, "stopped", not_stopped)
    made = HostTarget(fake_libcuda)
    made._calibrations = {}
    return made


def step_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [step for step in report["steps"] if name in step["name"]]
    return found


def test_every_step_says_what_it_saw(target: HostTarget, sandbox: Sandbox) -> None:
    said: list[str] = []
    report = probe.probe(target, sandbox, said.append)
    assert report["passed"], said
    assert not any(step["error"] for step in report["steps"])
    assert step_of(report, "stopped, and go on")["facts"][0].startswith("stopped after ")
    copied = step_of(report, f"reset and {1 << 16} bytes are copied")["facts"]
    assert copied[-2].startswith("copied after ") and copied[-1].startswith("it was back ")
    pairs = step_of(report, "a batch of 4")["facts"][:2]
    assert [fact[:13] for fact in pairs] == ["calls 0 and 1", "calls 2 and 3"]
    assert all("leaving" in fact for fact in pairs)
    assert "calls of 4096 bytes" in step_of(report, "calibration")["facts"][1]
    assert json.loads(json.dumps(report)) == report
    assert all(any(step["name"] in line for line in said) for step in report["steps"])


def test_a_step_that_fails_is_the_last_and_says_how_far_it_came(
    target: HostTarget, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "ARRIVAL_S", 0.3)
    monkeypatch.setattr(DevicePage, "admit", lambda _page, _through: None)
    report = probe.probe(target, sandbox, lambda _line: None)
    failed = report["steps"][-1]
    assert not report["passed"] and failed["name"].startswith("while a grid fills the GPU: nothing")
    assert "no grid fills the GPU within 0.3 s" in failed["error"]
    assert "the runner is alive" in failed["facts"][-1]
    assert [bool(step["error"]) for step in report["steps"]].count(True) == 1


def test_bytes_that_arrive_changed_fail_the_probe(
    target: HostTarget, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target.copier, "copy", lambda _copies: None)
    report = probe.probe(target, sandbox, lambda _line: None)
    assert "other bytes arrived" in report["steps"][-1]["error"]


def test_a_grid_behind_a_pair_that_says_another_sum_fails_the_probe(
    target: HostTarget, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = DevicePage.leave
    monkeypatch.setattr(
        DevicePage, "leave", lambda page, call, through, keys: leave(page, call, through, (keys[0], keys[1] ^ 1)),
    )
    report = probe.probe(target, sandbox, lambda _line: None)
    assert "said other sums" in report["steps"][-1]["error"]


def test_a_step_that_hangs_is_named_and_ends_the_process() -> None:
    program = textwrap.dedent("""
        import time
        from agentcore.judge.probe import Steps
        steps = Steps(print, lambda: ["the runner is alive"])
        with steps.step("waiting for a device that never answers", 0.2):
            time.sleep(60)
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert done.returncode == probe.STUCK_STATUS
    assert "STUCK in 'waiting for a device that never answers': no end after 0.2 s" in done.stdout
    assert "the runner is alive" in done.stdout and "<module>" in done.stderr


def test_a_host_without_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from agentcore.cli import main
    from agentcore.judge import devices

    monkeypatch.setattr(devices, "gpus", list)
    assert main(["devices", "--probe"]) == 2
    assert "--probe needs an NVIDIA GPU" in capsys.readouterr().err

"""``kernelyard devices``, and commands on a host that lacks what a language needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcore.cli import main
from agentcore.judge import devices

ROOT = Path(__file__).resolve().parents[2]
PROBLEM, KERNEL = str(ROOT / "problems" / "rmsnorm_h4096"), str(ROOT / "kernels_repo" / "kernels" / "rmsnorm_h4096")


@pytest.fixture
def no_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)


def test_devices_lists_this_host_its_toolchains_and_its_sandbox(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", "--json", str(tmp_path / "d.json")]) == 0
    said = capsys.readouterr().out
    stored = json.loads((tmp_path / "d.json").read_text())
    assert "cpu" in said and "sandbox: " in said and "cpp: g++ " in said and "torch: torch " in said
    assert stored["devices"][-1]["hardware"] == "cpu" and stored["devices"][-1]["uuid"].startswith("CPU-")
    assert stored["toolchains"]["cpp"].startswith("g++ ")


@pytest.mark.usefixtures("no_compilers")
def test_devices_names_missing_tools_and_for_a_gpu_its_compiler_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cpp" not in devices.describe_host()["toolchains"]
    missing = devices.describe_host()["missing"]
    assert any(line.startswith("g++ (") and line.endswith("install the Debian package g++") for line in missing)
    assert not any(line.startswith("nvcc") for line in missing)
    monkeypatch.setattr(devices, "gpus", lambda: [{"hardware": "h200", "uuid": "GPU-1", "name": "H200", "driver": "1"}])
    monkeypatch.setattr("agentcore.build.toolchain.cuda_toolkit", lambda: None)
    assert any(line.startswith("nvcc (") and "cuda-toolkit" in line for line in devices.describe_host()["missing"])


@pytest.mark.usefixtures("no_compilers")
@pytest.mark.parametrize("command", ["judge", "ab"])
def test_a_missing_compiler_is_said_before_anything_is_measured(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = [f"{KERNEL}/cpp"] * (2 if command == "ab" else 1)
    assert main([command, PROBLEM, *kernels, "--cache-dir", str(tmp_path / "cache")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kernelyard {command}: g++ is not on PATH")
    assert line.endswith("install the Debian package g++")

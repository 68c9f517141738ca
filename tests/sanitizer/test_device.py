"""compute-sanitizer on a real GPU: the suite's CUDA kernels are clean, and four broken ones are found by their tool.

Without a GPU: the program is built with line numbers for every architecture, and what is missing is said.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.build.source import read_source
from agentcore.build.toolchain import missing_tools
from agentcore.judge.devices import gpus, local_hardware
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import SandboxUnavailable, find_sandbox
from agentcore.sanitizer import tools
from agentcore.sanitizer.evaluate import Choice, sanitize
from agentcore.sanitizer.report import Tool, ToolStatus
from agentcore.sanitizer.tools import DEVICE_TOOLS, why_missing
from agentcore.sanitizer.variant import Variant, build_variant
from agentcore.vocabulary import HardwareName, Language, Verdict
from tests.sanitizer.conftest import KERNELS, fault_lines

ROOT = Path(__file__).resolve().parents[2]
SUITE = sorted(path.parent.name for path in (ROOT / "kernels_repo" / "kernels").glob("*/cuda"))
NO_NVCC = any(tool == "nvcc" for tool, _, _ in missing_tools(cuda=True))
FAULTS = [
    ("oob_write", Tool.MEMCHECK, "invalid-global-write"),
    ("shared_race", Tool.RACECHECK, "shared-memory-race"),
    ("uninitialised", Tool.INITCHECK, "uninitialized-global-read"),
    ("divergent_barrier", Tool.SYNCCHECK, "barrier-error"),
]


@pytest.fixture
def on_gpu(tmp_path: Path, problem: Problem, build_cache: Path) -> Callable[..., EvaluationResult]:
    """Sanitizes a CUDA kernel's directory, or a file of ``kernels/cuda``, on this host's GPU."""
    if not gpus():
        pytest.skip("this host has no NVIDIA GPU")
    hardware = local_hardware()
    if reason := why_missing(Language.CUDA, hardware):
        pytest.skip(reason)

    def run(kernel: str | Path, *chosen: Tool, of: Problem = problem, workloads: int = 1) -> EvaluationResult:
        directory = kernel if isinstance(kernel, Path) else tmp_path
        if isinstance(kernel, str):
            tmp_path.chmod(0o755)
            (tmp_path / "kernel.cu").write_text((KERNELS / "cuda" / f"{kernel}.cu").read_text())
        return sanitize(
            EvaluationRequest(
                problem=of, kernel_dir=directory, language=Language.CUDA, hardware=hardware, cache_dir=build_cache
            ),
            Choice(tools=chosen, workloads=workloads),
        )

    return run


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "tool", "kind"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_found_with_kernel_and_line(
    on_gpu: Callable[..., EvaluationResult], name: str, tool: Tool, kind: str
) -> None:
    result = on_gpu(name, tool)
    assert result.verdict is Verdict.FINDINGS, result.message
    assert result.sanitizer is not None
    found = [finding for finding in result.sanitizer.errors() if finding.kind == kind]
    assert found, result.sanitizer
    assert found[0].kernel == "twice"
    assert (found[0].file, found[0].in_kernel) == ("kernel.cu", True)
    assert found[0].line in fault_lines(KERNELS / "cuda" / f"{name}.cu")


@pytest.mark.gpu
def test_a_clean_kernel_is_clean_for_every_tool(on_gpu: Callable[..., EvaluationResult]) -> None:
    result = on_gpu("clean", workloads=3)
    assert result.verdict is Verdict.CLEAN, result.message
    assert result.sanitizer is not None
    assert {run.tool: run.status for run in result.sanitizer.tools} == dict.fromkeys(DEVICE_TOOLS, ToolStatus.CLEAN)
    assert all(run.workloads == [0, 1, 2] for run in result.sanitizer.tools)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SUITE)
def test_a_suite_kernel_is_clean(on_gpu: Callable[..., EvaluationResult], name: str) -> None:
    result = on_gpu(ROOT / "kernels_repo" / "kernels" / name / "cuda", of=load_problem(ROOT / "problems" / name))
    assert result.verdict is Verdict.CLEAN, result.message


@pytest.mark.skipif(NO_NVCC, reason="nvcc is not on this host")
@pytest.mark.parametrize("hardware", [HardwareName.H200, HardwareName.B200])
def test_the_program_is_built_with_line_numbers_where_there_is_no_gpu(
    tmp_path: Path, problem: Problem, hardware: HardwareName, build_cache: Path
) -> None:
    (tmp_path / "kernel.cu").write_text((KERNELS / "cuda" / "oob_write.cu").read_text())
    try:
        sandbox = find_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    built = build_variant(
        Variant.DEVICE, read_source(tmp_path, Language.CUDA), problem, Language.CUDA, hardware, cache_dir=build_cache,
        sandbox=sandbox,
    )
    assert built.artifact is not None, built.report.log
    assert built.report.arch == hardware.arch
    program = tmp_path / "program"
    program.write_bytes(built.artifact.read_bytes())
    program.chmod(0o755)
    assert b".debug_line" in program.read_bytes()
    # It is a program of our own: without arguments it says how it is used, and touches no device.
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=30)
    assert done.stderr.startswith("ky:failed usage")


def test_a_host_without_compute_sanitizer_says_which_package_brings_it(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "find_tool", lambda tool: Path("/usr/bin") / tool)
    monkeypatch.setattr(tools.shutil, "which", lambda _tool: None)
    monkeypatch.setattr(tools, "cuda_toolkit", lambda: None)
    result = sanitize(EvaluationRequest(
        problem=problem, kernel_dir=tmp_path, language=Language.CUDA, hardware=HardwareName.H200, cache_dir=tmp_path
    ))
    assert result.verdict is Verdict.INFRA_ERROR
    assert "cuda-sanitizer" in result.message

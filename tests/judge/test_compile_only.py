"""Compiling for a hardware that is not here: verdict ``compiled``, the resource report, and no time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcore.build.frameworks import FrameworkMissing, framework_version
from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.cli import main
from agentcore.judge import devices
from agentcore.judge.compile_only import NothingToCompile, compile_only
from agentcore.judge.rendering import render_compiled
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.problems import load_problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import CheckName, CheckStatus, HardwareName, Language, Verdict
from tests.build.test_cute import KERNEL as CUTE_KERNEL
from tests.judge.conftest import DOUBLE, failing, workload, write_kernel, write_problem

HONEST = """
#include "problem.h"
__global__ void twice(const float* x, float* y, int64_t n) {
    __shared__ float part[256];
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = 2.0f * part[threadIdx.x];
}
extern "C" int kernel_launch(const float* x, float* y, int64_t n, cudaStream_t stream) {
    twice<<<unsigned((n + 255) / 256), 256, 0, stream>>>(x, y, n);
    return cudaGetLastError() != cudaSuccess;
}
"""


@pytest.fixture
def needs_nvcc() -> None:
    try:
        find_tool("nvcc")
    except ToolMissing as error:
        pytest.skip(str(error))


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    write_problem(tmp_path / "double_it", DOUBLE, [workload()])
    return tmp_path


@pytest.fixture
def compiled(yard: Path, cache_dir: Path, sandbox: Sandbox) -> Callable[..., EvaluationResult]:
    def run(source: str, language: Language = Language.CUDA, **changed: Any) -> EvaluationResult:
        shutil.rmtree(yard / "kernel", ignore_errors=True)
        return compile_only(EvaluationRequest(**{
            "problem": load_problem(yard / "double_it"), "kernel_dir": write_kernel(yard / "kernel", source, language),
            "language": language, "hardware": HardwareName.B200, "cache_dir": cache_dir, "sandbox": sandbox.kind,
            **changed,
        }))

    return run


@pytest.mark.usefixtures("needs_nvcc")
@pytest.mark.parametrize(("hardware", "arch"), [(HardwareName.B200, "sm_100a"), (HardwareName.H100, "sm_90a")])
def test_a_kernel_for_a_gpu_that_is_not_here_is_compiled_and_its_resources_are_reported(
    compiled: Callable[..., EvaluationResult], hardware: HardwareName, arch: str
) -> None:
    result = compiled(HONEST, hardware=hardware)
    assert result.verdict is Verdict.COMPILED and not result.passed and not result.failed_checks()
    assert result.build is not None and result.build.arch == arch
    (twice,) = result.build.resources
    assert twice.name.startswith("twice(") and twice.arch == arch
    assert twice.registers and twice.shared_bytes == 1024 and twice.spill_store_bytes == 0
    said = render_compiled(result)
    assert f"{twice.registers} registers, 1024 B shared, 0 B stack, 0 + 0 B spilled" in said
    assert result.build.resources_said in said
    assert result.workloads == [] and result.stamp.device_uuid == "" and result.stamp.canary_us == []
    assert {c.name for c in result.checks if c.status is CheckStatus.PASS} == {CheckName.COMPILES, CheckName.SANDBOXED}


@pytest.mark.usefixtures("needs_nvcc")
def test_what_does_not_compile_says_why(compiled: Callable[..., EvaluationResult]) -> None:
    result = compiled(HONEST.replace("part[threadIdx.x];", "absent[0];"))
    assert result.verdict is Verdict.COMPILE_ERROR and failing(result) == {CheckName.COMPILES}
    assert '"absent" is undefined' in result.message and result.message.startswith("kernel.cu(8)")


def test_a_host_without_the_compiler_is_an_infrastructure_fault(
    compiled: Callable[..., EvaluationResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: str) -> Path:
        raise ToolMissing("nvcc", "a toolkit", "it compiles")

    monkeypatch.setattr("agentcore.build.toolchain.find_tool", missing)
    result = compiled(HONEST)
    assert result.verdict is Verdict.INFRA_ERROR and "nvcc is not on PATH" in result.message


def test_a_host_without_cutlass_is_told_of_the_extra(
    compiled: Callable[..., EvaluationResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Language) -> str:
        raise FrameworkMissing("cute kernels need nvidia-cutlass-dsl; .venv/bin/pip install -e '.[cute]'")

    monkeypatch.setattr("agentcore.build.cute.framework_version", missing)
    result = compiled("def run(x, y):\n    pass\n", Language.CUTE)
    assert result.verdict is Verdict.INFRA_ERROR and "'.[cute]'" in result.message


def test_a_cute_kernel_is_compiled_where_cutlass_is(compiled: Callable[..., EvaluationResult]) -> None:
    try:
        framework_version(Language.CUTE)
    except FrameworkMissing as error:
        pytest.skip(str(error))
    result = compiled(CUTE_KERNEL, Language.CUTE)
    assert result.verdict is Verdict.COMPILED, result.message
    assert result.build is not None and result.build.resources and result.workloads == []
    wrong = compiled(CUTE_KERNEL.replace("x[at]", "absent[at]"), Language.CUTE)
    assert wrong.verdict is Verdict.COMPILE_ERROR and "absent" in wrong.message


@pytest.mark.parametrize("language", [Language.TORCH, Language.TRITON])
def test_a_language_that_compiles_by_running_is_refused(
    compiled: Callable[..., EvaluationResult], language: Language
) -> None:
    with pytest.raises(NothingToCompile, match=f"{language} kernels are compiled by running them"):
        compiled("def run(x, y):\n    pass\n", language)


@pytest.mark.usefixtures("needs_nvcc")
def test_the_command_compiles_where_the_gpu_is_missing_and_says_that_nothing_was_measured(
    yard: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "gpus", list)
    kernel = write_kernel(yard / "kernel", HONEST, Language.CUDA)
    out = yard / "result.json"
    command = ["judge", str(yard / "double_it"), str(kernel), "--language", "cuda", "--hardware", "b200",
               "--cache-dir", str(cache_dir), "--json", str(out)]
    assert main(command) == 3
    said = capsys.readouterr()
    assert "for b200: compiled, never run or measured" in said.out and "1024 B shared" in said.out
    assert "no b200 on this host" in said.err
    assert EvaluationResult.model_validate_json(out.read_text()).verdict is Verdict.COMPILED
    assert main([*command, "--compile-only"]) == 0
    (kernel / "kernel.cu").write_text("int broken")
    assert main([*command, "--compile-only"]) == 1
    assert "fail compiles" in capsys.readouterr().out


def test_numbers_of_another_gpu_are_never_given_for_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [{"hardware": "h200", "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580"}]
    monkeypatch.setattr(devices, "gpus", lambda: here)
    devices.refuse_another(HardwareName.H200)
    assert devices.is_here(HardwareName.H200) and not devices.is_here(HardwareName.B200)
    with pytest.raises(RuntimeError, match="b200 is not on this host, which has: NVIDIA H200"):
        devices.refuse_another(HardwareName.B200)

"""Compiling torch extensions without a GPU: the flags torch itself uses, CUDA for both architectures, and bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch.utils.cpp_extension as official_build

from agentcore.build import Build
from agentcore.build.source import read_source
from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.judge.compile_only import compile_only
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.official import OfficialSolution, Origin, export_solution
from agentcore.official import extension as extension_module
from agentcore.official.extension import NVCC_FLAGS, build_extension, plan
from agentcore.official.staging import staged
from agentcore.official.toolchain import torch_files
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import HardwareName, Language, Verdict
from tests.official.conftest import EXPORTED, ROOT, extension, solution


@pytest.fixture
def needs_nvcc() -> None:
    try:
        find_tool("nvcc")
    except ToolMissing as error:
        pytest.skip(str(error))


def cuda(**changed: Any) -> OfficialSolution:
    return OfficialSolution.model_validate(
        solution({"k.cu": "//"}, **{"languages": ["cuda_cpp"], "entry_point": "k.cu::run", **changed})
    )


def test_flags_includes_and_libraries_are_those_of_torchs_own_builder() -> None:
    torch = torch_files()
    assert list(map(str, torch.includes)) == official_build.include_paths("cpu")
    assert [str(torch.library_dir)] == official_build.library_paths("cpu")
    assert set(NVCC_FLAGS) == set(official_build.COMMON_NVCC_FLAGS)
    named = {flag.removeprefix("-l") for flag in re.findall(r"-l[a-z0-9_]+", Path(official_build.__file__).read_text())}
    assert set(torch.libraries(cuda=True)) <= named


def test_a_plan_has_the_authors_flags_and_our_architecture() -> None:
    options = {"cflags": ["-O2", "-fopenmp"], "cuda_cflags": ["-arch=sm_70", "--use_fast_math"], "ld_flags": ["-lm"]}
    host = plan(OfficialSolution.model_validate(extension(compile_options=options)), HardwareName.CPU)
    assert {"-O2", "-fopenmp", "-std=c++20"} <= set(host.host) and "-O3" not in host.host
    assert "-lm" in host.link and "-ltorch_python" in host.link and not any("cuda" in flag for flag in host.link)
    with pytest.raises(ValueError, match="is not compiled for cpu"):
        plan(cuda(), HardwareName.CPU)
    with pytest.raises(ValueError, match="is not compiled for h200"):
        plan(OfficialSolution.model_validate(extension()), HardwareName.H200)


@pytest.mark.usefixtures("needs_nvcc")
def test_a_cuda_plan_is_for_the_hardware_that_is_judged() -> None:
    options = {"cuda_cflags": ["-gencode=arch=compute_70,code=sm_70", "--use_fast_math"]}
    found = plan(cuda(compile_options=options), HardwareName.B200)
    assert [flag for flag in found.device if "arch" in flag] == ["-gencode=arch=compute_100a,code=sm_100a"]
    assert "--use_fast_math" in found.device and "-lcuda" in found.link and "-lcudart" in found.link
    assert not any("fast_math" in flag for flag in plan(cuda(), HardwareName.B200).device)


def test_a_library_that_is_not_here_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUTLASS_DIR", str(tmp_path))
    made = extension(languages=["cutlass"], entry_point="main.cpp::run")
    with pytest.raises((ToolMissing, RuntimeError), match=r"CUTLASS_DIR|nvcc"):
        plan(OfficialSolution.model_validate(made), HardwareName.H200)


def compiled(
    made: OfficialSolution, problem: Problem, hardware: HardwareName, cache_dir: Path, sandbox: Sandbox
) -> tuple[EvaluationResult, Path]:
    """What compiling a CUDA solution for a hardware gives, and the extension."""
    with staged(made, problem.definition) as directory:
        result = compile_only(EvaluationRequest(
            problem=problem, kernel_dir=directory, language=Language.CUDA, hardware=hardware, cache_dir=cache_dir,
            sandbox=sandbox.kind, official=made,
        ))
    assert result.verdict is Verdict.COMPILED, result.message
    assert result.build is not None and {r.arch for r in result.build.resources} == {hardware.arch}
    (artifact,) = cache_dir.rglob("kernel.so")
    assert b"PyInit_benchmark_kernel" in artifact.read_bytes()
    return result, artifact


@pytest.mark.slow
@pytest.mark.usefixtures("needs_nvcc")
def test_an_exported_cuda_kernel_compiles_and_links(tmp_path: Path, sandbox: Sandbox) -> None:
    name, hardware = "gemm_bf16_llama8b", HardwareName.B200
    problem = load_problem(ROOT / "problems" / name)
    files = read_source(ROOT / "kernels_repo" / "kernels" / name / "cuda", Language.CUDA)
    made = OfficialSolution.model_validate(
        export_solution(files, problem.definition, Language.CUDA, hardware, Origin(name, "ada"))
    )
    result, artifact = compiled(made, problem, hardware, tmp_path / "cache", sandbox)
    assert result.interface == "solution.json: torch binding, outputs last"
    assert b"kernel_launch" in artifact.read_bytes()
    assert (artifact.parent / "kernel.py").read_text().endswith("run = entry\n")


ONE_CUDA_FILE = """#include <Python.h>
__global__ void twice(const float* x, float* y, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = 2 * x[i];
}
static PyObject* run(PyObject*, PyObject* arguments) {
    unsigned long long x, y;
    int n;
    if (!PyArg_ParseTuple(arguments, "KKi", &x, &y, &n)) return nullptr;
    twice<<<(n + 255) / 256, 256>>>(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n);
    return PyLong_FromLong(cudaGetLastError());
}
static PyMethodDef methods[] = {{"run", run, METH_VARARGS, "y = 2x"}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "benchmark_kernel", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_benchmark_kernel() { return PyModule_Create(&module); }
"""


@pytest.mark.usefixtures("needs_nvcc")
def test_kernel_and_module_in_one_cuda_file_compile_and_link(
    problem_dir: Path, tmp_path: Path, sandbox: Sandbox
) -> None:
    """Without torch's headers, which take long."""
    made = cuda(sources=[{"path": "k.cu", "content": ONE_CUDA_FILE}])
    result, _ = compiled(made, load_problem(problem_dir), HardwareName.H200, tmp_path / "cache", sandbox)
    assert result.build is not None
    assert [r.name for r in result.build.resources] == ["twice(float const*, float*, int)"]


@pytest.mark.slow
def test_an_extension_is_built_with_its_authors_flags_and_once(
    written: Callable[[Any], Path], built: Callable[..., Build]
) -> None:
    file = written(extension())
    report = built(file).report
    assert report.ok, report.log
    assert "torch 2" in report.compiler and "g++" in report.compiler
    assert "-O1" in report.flags and not any(flag.startswith(("/", "-I/")) for flag in report.flags)
    again = built(file).report
    assert again.cached and again.key == report.key


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_kernel_compiles_and_links(
    built: Callable[..., Build], exported: Callable[[str], tuple[Path, Path]], name: str
) -> None:
    problem, file = exported(name)
    build = built(file, problem)
    assert build.artifact is not None, build.report.log


def test_a_compiler_that_takes_too_long_is_stopped(
    monkeypatch: pytest.MonkeyPatch, problem_dir: Path, tmp_path: Path, sandbox: Sandbox
) -> None:
    monkeypatch.setattr(extension_module, "LIMITS", replace(extension_module.LIMITS, wall_s=0.5))
    made = OfficialSolution.model_validate(extension())
    built = build_extension(
        made, load_problem(problem_dir).definition, HardwareName.CPU, cache_dir=tmp_path / "cache", sandbox=sandbox
    )
    assert built.timed_out and built.artifact is None and "stopped after" in built.report.log


def test_another_outputs_or_flags_make_another_build(
    problem_dir: Path, tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = set()
    definition = load_problem(problem_dir).definition

    def built(work: Any, key: str, *_: Any) -> Any:
        keys.add(key)

    monkeypatch.setattr(extension_module._Work, "build", built)
    variants: list[Callable[[], dict[str, Any]]] = [
        extension, lambda: extension(compile_options={"cflags": ["-O1"]}),
        lambda: extension(destination_passing_style=True), lambda: extension(entry_point="main.cpp::other"),
        lambda: extension(sources=[*extension()["sources"], {"path": "more.h", "content": "//"}]),
    ]
    for variant in variants:
        made = OfficialSolution.model_validate(variant())
        build_extension(made, definition, HardwareName.CPU, cache_dir=tmp_path / "cache", sandbox=sandbox)
    assert len(keys) == len(variants)

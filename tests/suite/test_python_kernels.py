"""The suite's starting kernels in Triton and CuTe DSL: their interface, and their work as far as it needs no GPU.

A Triton kernel runs in Triton's interpreter, a CuTe DSL one as the PTX it compiles to, launched by its own host code;
both are compiled for GPUs that are not here.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from suite_kernels import ROOT, kernel_dir, problem

from agentcore.agents.tunables import parse
from agentcore.build.cute import compile_cute
from agentcore.build.frameworks import FrameworkMissing, framework_version
from agentcore.judge.devices import local_hardware
from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import CheckName, CheckStatus, HardwareName, Language

KERNELS = sorted(
    (file.parent.parent.name, Language(file.parent.name))
    for language in (Language.TRITON, Language.CUTE)
    for file in (ROOT / "kernels_repo" / "kernels").glob(f"*/{language}/kernel.py")
)
# Small enough for an interpreter, and on both sides of what a kernel decides by.
PTX_SHAPES: dict[str, list[dict[str, Any]]] = {
    "rmsnorm_h4096": [{"tokens": 1}, {"tokens": 3}],
    "swiglu_gate_i14336": [{"tokens": 1}, {"tokens": 2}],
    "softmax_softcap": [
        {"rows": 3, "cols": 1}, {"rows": 10, "cols": 777}, {"rows": 9, "cols": 512}, {"rows": 2, "cols": 8192},
        {"rows": 1, "cols": 16400}, {"rows": 1, "cols": 3001},
    ],
}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "rmsnorm_h4096": [{"tokens": 1}, {"tokens": 65}],
    "fused_add_rmsnorm_h4096": [{"tokens": 2}, {"tokens": 65}],
    "swiglu_gate_i14336": [{"tokens": 1}, {"tokens": 65}],
    "softmax_softcap": [{"rows": 3, "cols": 1}, {"rows": 3, "cols": 1000}, {"rows": 2, "cols": 8192}],
}


def needs(language: Language) -> None:
    try:
        framework_version(language)
    except FrameworkMissing as error:
        pytest.skip(str(error))


def test_there_are_kernels_to_start_from_in_both_languages() -> None:
    assert sum(language is Language.TRITON for _, language in KERNELS) >= 3
    assert sum(language is Language.CUTE for _, language in KERNELS) >= 3


@pytest.mark.parametrize(("name", "language"), KERNELS)
def test_run_takes_what_the_definition_says_and_tunables_are_declared(name: str, language: Language) -> None:
    source = (kernel_dir(name, language) / "kernel.py").read_text()
    (run,) = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "run")
    definition = problem(name).definition
    assert [argument.arg for argument in run.args.args] == [*definition.inputs, *definition.outputs]
    parse(source, "kernel.py")


def lines(script: str, name: str, language: Language, *given: str) -> list[dict[str, Any]]:
    """What a script beside this file says of a starting kernel: a process of its own, a line of JSON for each thing."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), str(ROOT / "problems" / name),
         str(kernel_dir(name, language) / "kernel.py"), *given],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def all_right(outputs: list[dict[str, Any]], name: str, shapes: int) -> None:
    assert len(outputs) == shapes * len(problem(name).definition.outputs)
    assert all(output["matched"] >= 0.999 for output in outputs), outputs


@pytest.mark.parametrize("name", [name for name, language in KERNELS if language is Language.TRITON])
def test_a_triton_kernel_agrees_with_the_reference_in_the_interpreter(name: str) -> None:
    needs(Language.TRITON)
    axes = SHAPES[name]
    all_right(lines("triton_interpreter.py", name, Language.TRITON, *map(json.dumps, axes)), name, len(axes))


@pytest.mark.parametrize("name", [name for name, language in KERNELS if language is Language.TRITON])
def test_a_triton_kernel_compiles_for_gpus_that_are_not_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(Language.TRITON)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = lines("triton_compiler.py", name, Language.TRITON, "90", "100")
    for arch in ("sm_90a", "sm_100a"):
        own = [kernel for kernel in kernels if kernel["architecture"] == arch]
        assert 1 <= len(own) <= 8, "a kernel for each way of treating a shape, not for each shape"
        assert all(kernel["cubin_bytes"] > 1000 and kernel["shared_bytes"] < 227 << 10 for kernel in own), own


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", [name for name, language in KERNELS if language is Language.CUTE])
def test_a_cute_kernels_ptx_agrees_with_the_reference_on_the_judges_stream(name: str, arch: str) -> None:
    needs(Language.CUTE)
    axes = PTX_SHAPES[name]
    all_right(lines("cute_interpreter.py", name, Language.CUTE, arch, *map(json.dumps, axes)), name, len(axes))


@pytest.mark.parametrize("hardware", [HardwareName.B200, HardwareName.H200])
@pytest.mark.parametrize("name", [name for name, language in KERNELS if language is Language.CUTE])
def test_a_cute_kernel_compiles_to_few_kernels_for_all_shapes_without_spills(
    name: str, hardware: HardwareName, tmp_path: Path
) -> None:
    needs(Language.CUTE)
    built = compile_cute(kernel_dir(name, Language.CUTE), problem(name), hardware, find_sandbox(), cache_dir=tmp_path)
    assert built.report.ok, built.report.log
    kernels = built.report.resources
    assert len(kernels) == {"softmax_softcap": 5}.get(name, 1), "the sizes that vary are arguments, not constants"
    for kernel in kernels:
        assert kernel.arch == hardware.arch and kernel.spill_store_bytes == kernel.spill_load_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "language"), KERNELS)
def test_a_starting_kernel_passes_on_this_gpu_by_its_languages_rules(
    name: str, language: Language, tmp_path: Path
) -> None:
    hardware = local_hardware()
    if not hardware.is_gpu:
        pytest.skip("no NVIDIA GPU of a known class on this machine")
    needs(language)
    result = Judge(hardware, tmp_path).evaluate(EvaluationRequest(
        problem=problem(name), kernel_dir=kernel_dir(name, language), language=language, hardware=hardware,
        cache_dir=tmp_path, quick=True,
    ))
    assert result.passed, result.message
    rules = [check.status for check in result.checks if check.name is CheckName.LANGUAGE_RULES]
    assert rules == [CheckStatus.PASS]

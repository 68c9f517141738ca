"""The suite's starting kernels in Triton and CuTe DSL: their interface, and as much of their work as needs no GPU."""

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
    assert sum(language is Language.CUTE for _, language in KERNELS) >= 1


@pytest.mark.parametrize(("name", "language"), KERNELS)
def test_run_takes_what_the_definition_says_and_tunables_are_declared(name: str, language: Language) -> None:
    source = (kernel_dir(name, language) / "kernel.py").read_text()
    (run,) = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "run")
    definition = problem(name).definition
    assert [argument.arg for argument in run.args.args] == [*definition.inputs, *definition.outputs]
    parse(source, "kernel.py")


@pytest.mark.parametrize("name", [name for name, language in KERNELS if language is Language.TRITON])
def test_a_triton_kernel_agrees_with_the_reference_in_the_interpreter(name: str) -> None:
    needs(Language.TRITON)
    script = Path(__file__).with_name("triton_interpreter.py")
    for axes in SHAPES[name]:
        done = subprocess.run(
            [sys.executable, str(script), str(ROOT / "problems" / name),
             str(kernel_dir(name, Language.TRITON) / "kernel.py"), json.dumps(axes)],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        outputs = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(outputs) == len(problem(name).definition.outputs)
        assert all(output["matched"] >= 0.999 for output in outputs), (axes, outputs)


@pytest.mark.parametrize("hardware", [HardwareName.B200, HardwareName.H200])
@pytest.mark.parametrize("name", [name for name, language in KERNELS if language is Language.CUTE])
def test_a_cute_kernel_compiles_once_for_all_shapes_without_spills(
    name: str, hardware: HardwareName, tmp_path: Path
) -> None:
    needs(Language.CUTE)
    built = compile_cute(kernel_dir(name, Language.CUTE), problem(name), hardware, find_sandbox(), cache_dir=tmp_path)
    assert built.report.ok, built.report.log
    (kernel,) = built.report.resources
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

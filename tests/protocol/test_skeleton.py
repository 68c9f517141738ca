"""``yard new`` for a problem that has no kernel yet: a source with the right entry, which builds and claims nothing."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from agentcore.build import build
from agentcore.build.header import parameters, problem_header
from agentcore.problems import Problem, find_problems, load_problem
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName, Language

from .conftest import ROOT, YARD, Clone


def load_yard() -> ModuleType:
    loader = SourceFileLoader("yard", str(YARD))
    spec = importlib.util.spec_from_loader("yard", loader)
    assert spec is not None
    yard = importlib.util.module_from_spec(spec)
    loader.exec_module(yard)
    return yard


def seed_problem(clone: Clone, problem: Problem) -> None:
    """Put a problem into the repository's main as the portal publishes it, without any kernel."""
    place = clone.path / "problems" / problem.name
    place.mkdir()
    (place / "definition.json").write_text((problem.root / "definition.json").read_text())
    for language in (Language.CPP, Language.CUDA):
        (place / f"problem.{language}.h").write_text(problem_header(problem.definition, language))
    clone.git("add", "problems")
    clone.git("commit", "-q", "-m", "problem")
    clone.git("push", "-q", "origin", "HEAD:main")


def test_new_without_a_starting_kernel_writes_one_that_builds_and_reports_that_nothing_is_computed(
    clone: Clone, tmp_path: Path
) -> None:
    problem = load_problem(ROOT / "problems" / "moe_nvfp4_gated_qwen3_30b")
    seed_problem(clone, problem)
    said = clone.yard("new", problem.name, "cpp", "first").stdout
    kernel = clone.path / "kernels" / problem.name / "cpp"
    assert f"kernels/{problem.name}/cpp/kernel.cpp" in said and "nobody has left a kernel" in said
    assert (kernel / "kernel.cpp").read_text().count("const uint8_t* weight,") == 1
    built = build(kernel, problem, Language.CPP, HardwareName.CPU, cache_dir=tmp_path / "c", sandbox=find_sandbox())
    assert built.report.ok and built.artifact is not None, built.report.log
    call = ctypes.CDLL(str(built.artifact)).ky_call
    numbers = [ctypes.c_int64(0) for _ in range(20)]
    assert call((ctypes.c_void_p * 20)(*(ctypes.addressof(number) for number in numbers)), None) == 1

    clone.yard("submit", "-m", "Nothing yet")
    changed = clone.git("diff", "--name-only", "origin/main", "HEAD")
    assert changed == f"kernels/{problem.name}/cpp/kernel.cpp"


@pytest.mark.parametrize("language", ["torch", "triton", "cute"])
def test_a_new_python_kernel_has_the_parameters_in_the_definitions_order(clone: Clone, language: str) -> None:
    problem = load_problem(ROOT / "problems" / "quantise_nvfp4")
    seed_problem(clone, problem)
    clone.yard("new", problem.name, language, "first")
    tree = ast.parse((clone.path / "kernels" / problem.name / language / "kernel.py").read_text())
    (run,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    assert run.name == "run"
    definition = problem.definition
    assert [a.arg for a in run.args.args] == [*definition.inputs, *definition.outputs]


def test_every_problem_of_the_suite_has_a_skeleton_in_every_language() -> None:
    yard = load_yard()
    for path in find_problems(ROOT / "problems"):
        definition = load_problem(path).definition
        for language in (Language.CPP, Language.CUDA):
            text = yard.c_skeleton(path.name, language.value, problem_header(definition, language))
            assert text.count("kernel_launch(") == 1 and "return 1;" in text
            assert all(parameter.declaration in text for parameter in parameters(definition, language))
        dumped = definition.model_dump(mode="json")
        compile(yard.python_skeleton(path.name, "triton", dumped["inputs"], dumped["outputs"]), path.name, "exec")


def test_new_says_so_where_there_is_no_interface_to_copy(clone: Clone) -> None:
    said = clone.yard("new", "rmsnorm", "triton", "first").stdout
    assert "nothing to start from" in said

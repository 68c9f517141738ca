"""The suite's own C++ kernels are clean, and the sanitizers do see what they do: one row too many is found in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.build.header import Kind, parameters
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import SandboxUnavailable, find_sandbox
from agentcore.sanitizer.evaluate import Choice, sanitize
from agentcore.sanitizer.report import Tool, ToolStatus
from agentcore.vocabulary import HardwareName, Language, Verdict

ROOT = Path(__file__).resolve().parents[2]
SUITE = sorted(path.parent.name for path in (ROOT / "kernels_repo" / "kernels").glob("*/cpp"))


def run(kernel_dir: Path, problem: Problem, cache: Path, choice: Choice) -> EvaluationResult:
    try:
        find_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return sanitize(
        EvaluationRequest(
            problem=problem, kernel_dir=kernel_dir, language=Language.CPP, hardware=HardwareName.CPU, cache_dir=cache
        ),
        choice,
    )


def test_the_suite_is_all_there() -> None:
    assert len(SUITE) >= 8


@pytest.mark.parametrize("name", SUITE)
def test_a_suite_kernel_is_clean(name: str, build_cache: Path) -> None:
    problem = load_problem(ROOT / "problems" / name)
    result = run(ROOT / "kernels_repo" / "kernels" / name / "cpp", problem, build_cache, Choice())
    assert result.verdict is Verdict.CLEAN, result.message
    assert result.sanitizer is not None
    assert {run.status for run in result.sanitizer.tools} == {ToolStatus.CLEAN}
    assert len(result.sanitizer.tools[0].workloads) == len(problem.cpu_workloads)


@pytest.mark.parametrize("name", SUITE)
def test_one_row_too_many_is_found(name: str, build_cache: Path, tmp_path: Path) -> None:
    """The same kernel, told that its first axis is longer by one: vector loads past the end must not go unseen."""
    problem = load_problem(ROOT / "problems" / name)
    interface = parameters(problem.definition, Language.CPP)
    declared = ", ".join(parameter.declaration for parameter in interface)
    first = next(parameter.name for parameter in interface if parameter.kind is Kind.AXIS)
    given = ", ".join(p.identifier + (" + 1" if p.name == first else "") for p in interface)
    original = (ROOT / "kernels_repo" / "kernels" / name / "cpp" / "kernel.cpp").read_text()
    tmp_path.chmod(0o755)
    (tmp_path / "kernel.cpp").write_text(
        '#include "problem.h"\n#define kernel_launch one_too_many\n#include "original.hpp"\n#undef kernel_launch\n'
        f'extern "C" int kernel_launch({declared}) {{ return one_too_many({given}); }}\n'
    )
    (tmp_path / "original.hpp").write_text(original)
    result = run(tmp_path, problem, build_cache, Choice(tools=(Tool.ADDRESS,), workloads=1))
    assert result.verdict is Verdict.FINDINGS, result.message
    assert result.sanitizer is not None
    finding = result.sanitizer.errors()[0]
    assert finding.kind == "heap-buffer-overflow"
    assert (finding.file, finding.in_kernel) == ("original.hpp", True)
    assert finding.buffer in {parameter.name for parameter in interface}

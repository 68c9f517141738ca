"""Sanitizing the broken kernels of ``kernels/`` for the small problem of ``problem/``; one build cache a session."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.judge.device_lock import device_lease
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import SandboxUnavailable, find_sandbox
from agentcore.sanitizer.evaluate import Choice, sanitize
from agentcore.sanitizer.report import Tool
from agentcore.vocabulary import HardwareName, Language

HERE = Path(__file__).resolve().parent
KERNELS = HERE / "kernels"


@pytest.fixture(autouse=True)
def a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed here: no need to take turns with tests that judge kernels."""
    monkeypatch.setattr("agentcore.sanitizer.evaluate.device_lease", lambda uuid: device_lease(f"sanitizers-{uuid}"))


@pytest.fixture(scope="session")
def problem() -> Problem:
    return load_problem(HERE / "problem")


@pytest.fixture(scope="session")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sanitizer-cache")


@pytest.fixture
def sanitized(tmp_path: Path, problem: Problem, build_cache: Path) -> Callable[..., EvaluationResult]:
    """Sanitizes a C++ kernel given as text or as the name of a file in ``kernels/cpp``."""
    try:
        find_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))

    def run(
        kernel: str, *tools: Tool, of: Problem = problem, workloads: int | None = None, **files: str
    ) -> EvaluationResult:
        source = (KERNELS / "cpp" / f"{kernel}.cpp").read_text() if "\n" not in kernel else kernel
        directory = tmp_path / "kernel"
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir()
        directory.chmod(0o755)
        (directory / "kernel.cpp").write_text(source)
        for name, text in files.items():
            (directory / f"{name}.hpp").write_text(text)
        return sanitize(
            EvaluationRequest(
                problem=of, kernel_dir=directory, language=Language.CPP, hardware=HardwareName.CPU,
                cache_dir=build_cache,
            ),
            Choice(tools=tools, workloads=workloads),
        )

    return run


def fault_lines(file: Path) -> set[int]:
    """The lines of a broken kernel that are at fault, from 1."""
    return {number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("// FAULT")}

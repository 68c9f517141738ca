"""Building given sources in a fresh directory, for the small problem of ``kernels``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.build import Build, build
from agentcore.problems import Problem
from agentcore.sandbox import Sandbox, SandboxUnavailable, find_sandbox
from agentcore.vocabulary import HardwareName, Language
from tests.build.kernels import DEFINITION, problem_of


@pytest.fixture
def problem() -> Problem:
    return problem_of(DEFINITION)


@pytest.fixture
def sandbox() -> Sandbox:
    try:
        return find_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that may find what another has built."""
    return tmp_path_factory.mktemp("shared-cache")


@pytest.fixture
def compiled(tmp_path: Path, problem: Problem, sandbox: Sandbox) -> Callable[..., Build]:
    """Writes the sources (path to text) and builds them; by default C++ for the CPU."""

    def run(
        sources: dict[str, str] | str,
        language: Language = Language.CPP,
        hardware: HardwareName | None = None,
        of: Problem = problem,
        cache_dir: Path = tmp_path / "cache",
        source_dir: Path = tmp_path / "kernel",
    ) -> Build:
        if isinstance(sources, str):
            sources = {language.source_name: sources}
        for name, text in sources.items():
            path = source_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if hardware is None:
            hardware = HardwareName.H200 if language is Language.CUDA else HardwareName.CPU
        return build(source_dir, of, language, hardware, cache_dir=cache_dir, sandbox=sandbox)

    return run

"""Every CUDA case compiles here for the H200, or is refused by the compiler as it says: no GPU is needed for that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcore.build import build
from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.problems import load_problem
from agentcore.sandbox import find_sandbox
from agentcore.selftest.canary import Canary, planted
from agentcore.selftest.corpus import Case, default_root, discover
from agentcore.selftest.outcome import kernel_directory
from agentcore.vocabulary import HardwareName, Language, Verdict

CASES = [case for case in discover(default_root()) if case.language is Language.CUDA]


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    with planted() as bait:
        yield bait


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_cuda_case_compiles_for_the_h200_unless_it_says_otherwise(tmp_path: Path, canary: Canary) -> None:
    try:
        find_tool("nvcc")
    except ToolMissing as missing:
        pytest.skip(str(missing))
    sandbox = find_sandbox()

    def wrong(case: Case) -> str:
        with kernel_directory(case, canary) as directory:
            built = build(
                directory, load_problem(case.problem_dir()), case.language, HardwareName.H200,
                cache_dir=tmp_path / "builds", sandbox=sandbox,
            )
        if (built.artifact is None) != (case.verdicts == {Verdict.COMPILE_ERROR}):
            return f"{case.name}: {built.report.log[:2000] or 'compiled'}"
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [each for each in pool.map(wrong, CASES) if each]
    assert not found, "\n".join(found)

"""Every CUDA case compiles here for the H200, or is refused by the compiler as it says: no GPU is needed for that.

The device's half alone, in which the compiler reads the host's half too: the rest of a build takes as long again, and
differs little from case to case.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcore.build.source import read_source
from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.problems import load_problem
from agentcore.sandbox import find_sandbox
from agentcore.selftest.canary import Canary
from agentcore.selftest.corpus import Case, default_root, discover
from agentcore.selftest.outcome import kernel_directory
from agentcore.vocabulary import HardwareName, Language, Verdict
from tests.build.device_half import compile_device_half

CASES = [case for case in discover(default_root()) if case.language is Language.CUDA]


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
            files = read_source(directory, case.language)
            problem = load_problem(case.problem_dir())
            built = compile_device_half(files, problem, HardwareName.H200, tmp_path / "builds", sandbox)
        if (built.artifact is None) != (case.verdicts == {Verdict.COMPILE_ERROR}):
            return f"{case.name}: {built.report.log[:2000] or 'compiled'}"
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [each for each in pool.map(wrong, CASES) if each]
    assert not found, "\n".join(found)

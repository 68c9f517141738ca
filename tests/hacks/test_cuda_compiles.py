"""Every CUDA case compiles here for the H200, or is refused by the compiler as it says: no GPU is needed for that.

The device's half alone, in which the compiler reads the host's half too: the rest of a build takes as long again, and
differs little from case to case. Several cases are compiled at once, and one by one where that fails.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcore.build.source import read_source
from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import Sandbox, find_sandbox
from agentcore.selftest.canary import Canary
from agentcore.selftest.corpus import Case, default_root, discover
from agentcore.selftest.outcome import kernel_directory
from agentcore.vocabulary import HardwareName, Language, Verdict
from tests.build.device_half import compile_device_half
from tests.build.one_unit import Piece, unit_source, units

CASES = {case.name: case for case in discover(default_root()) if case.language is Language.CUDA}
ANY = "cuda/control_straight"
Read = dict[str, tuple[dict[str, bytes], Problem]]


class Compiling:
    """The device's half of cases, by their names in ``read``."""

    def __init__(self, read: Read, place: Path, sandbox: Sandbox) -> None:
        self.read, self._place, self._sandbox = read, place, sandbox

    def error(self, files: Mapping[str, bytes], problem: Problem) -> str:
        """What the compiler says of one source, '' if it compiles."""
        built = compile_device_half(files, problem, HardwareName.H200, self._place, self._sandbox)
        return "" if built.artifact is not None else built.report.log or "failed"

    def errors(self, unit: list[Piece]) -> dict[str, str]:
        """Of the pieces of one source those that do not compile alone, with what the compiler says."""
        _, problem = self.read[unit[0].name]
        if not self.error({Language.CUDA.source_name: unit_source(unit).encode()}, problem):
            return {}
        alone = {piece.name: self.error(*self.read[piece.name]) for piece in unit}
        return {name: said for name, said in alone.items() if said}


@pytest.fixture
def compiling(tmp_path: Path, canary: Canary) -> Compiling:
    try:
        find_tool("nvcc")
    except ToolMissing as missing:
        pytest.skip(str(missing))
    read: Read = {}
    for case in CASES.values():
        with kernel_directory(case, canary) as directory:
            read[case.name] = read_source(directory, case.language), load_problem(case.problem_dir())
    return Compiling(read, tmp_path / "builds", find_sandbox())


def must_fail(case: Case) -> bool:
    return case.verdicts == {Verdict.COMPILE_ERROR}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_cuda_case_compiles_for_the_h200_unless_it_says_otherwise(compiling: Compiling) -> None:
    pieces = [Piece.of(name, *compiling.read[name]) for name, case in CASES.items() if not must_fail(case)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [said for errors in pool.map(compiling.errors, units(pieces)) for said in errors.items()]
    assert not found, "\n".join(f"{name}: {said[:2000]}" for name, said in found)
    refused = [name for name, case in CASES.items() if must_fail(case)]
    assert refused and all(compiling.error(*compiling.read[name]) for name in refused)


def test_a_case_gets_nothing_from_those_that_it_is_compiled_with(compiling: Compiling) -> None:
    """Neither a header nor a macro nor a name; and it is told from the others, with its own line."""
    files, problem = compiling.read[ANY]
    source = Language.CUDA.source_name
    written = {
        "1-defines": "#define NEEDED 1\nconstexpr int needed = NEEDED;\n",
        "1-includes": "#include <vector>\nstd::vector<int> numbers() { return {}; }\n",
    }
    for broken in ("std::vector<int> numbers();\n", "int other = NEEDED;\n", "int other = needed;\n"):
        written["2-broken"] = broken
        compiling.read.update({name: ({**files, source: text.encode()}, problem) for name, text in written.items()})
        (unit,) = units([Piece.of(name, *compiling.read[name]) for name in written])
        assert [piece.name for piece in unit] == ["1-defines", "2-broken", "1-includes"]
        together = compiling.error({source: unit_source(unit).encode()}, problem)
        assert f"{source}(1): error" in together and broken.strip() in together
    errors = compiling.errors(unit)
    assert errors.keys() == {"2-broken"} and f"{source}(1): error" in errors["2-broken"]

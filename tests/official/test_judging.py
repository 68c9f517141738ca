"""Official solutions on the CPU target, for real: Python and torch extensions, both styles, and ours exported."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agentcore.build import Build
from agentcore.cli import main
from agentcore.official import OfficialSolution, SolutionError
from agentcore.official.candidate import candidate
from agentcore.official.staging import staged
from agentcore.problems import load_problem
from tests.judge.conftest import DOUBLE, workload, write_problem
from tests.official.conftest import EXPORTED, RETURNING, ROOT, WRITING, extension, solution

Judged = Callable[..., tuple[int, dict[str, Any], str]]
Written = Callable[[Any], Path]


def failed(result: dict[str, Any]) -> set[str]:
    checks = [*result["checks"], *(check for w in result["workloads"] for check in w["checks"])]
    return {check["name"] for check in checks if check["status"] == "fail"}


@pytest.mark.parametrize(("source", "last"), [(RETURNING, False), (WRITING, True)])
def test_a_python_solution_passes_in_either_style(judged: Judged, written: Written, source: str, last: bool) -> None:
    code, result, said = judged(written(solution(source, destination_passing_style=last)))
    assert code == 0, said
    assert (result["language"], result["verdict"]) == ("torch", "passed")
    how = "outputs last" if last else "outputs returned"
    assert result["interface"] == f"solution.json: Python, {how}"
    assert f"double_it [torch, solution.json: Python, {how}]" in said
    assert [w["verdict"] for w in result["workloads"]] == ["passed", "passed"]


TWO_OUTPUTS: dict[str, Any] = {
    "name": "split",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"sign": {"shape": ["n"], "dtype": "int32"}, "total": {"shape": [], "dtype": "float32"}},
    "reference": "import torch\ndef run(x):\n    return torch.sign(x).int(), x.double().sum().float()\n",
}


def test_several_outputs_may_be_returned_by_position_or_by_name(
    judged: Judged, written: Written, tmp_path: Path
) -> None:
    """Each way in its turn: every call is verified."""
    problem = write_problem(tmp_path / "split", TWO_OUTPUTS, [workload()])
    source = "import itertools\nimport torch\nways = itertools.cycle([\n    lambda sign, total: (sign, total),\n"
    source += "    lambda sign, total: [sign, total],\n    lambda sign, total: (sign, float(total)),\n"
    source += "    lambda sign, total: {'total': total, 'sign': sign, 'more': 1},\n])\n"
    source += "def run(x):\n    return next(ways)(torch.sign(x).int(), x.double().sum().float())\n"
    code, _, said = judged(written(solution(source, definition="split")), problem=problem)
    assert code == 0, said


WRONG = [
    ("(x * 2).double()", "returned torch.float64 [1000] for 'y'; the definition says torch.float32 [1000]"),
    ("(x * 2)[:, None]", "returned torch.float32 [1000, 1] for 'y'"),
    ("(x * 2)[:1]", "returned torch.float32 [1] for 'y'"),
    ("x * 2, x", "returned 2 values for 1 outputs"),
    ("{'z': x * 2}", "returned no y"),
]


@pytest.mark.parametrize(("returned", "said"), WRONG)
def test_what_is_returned_must_be_what_the_definition_says(
    problem_dir: Path, monkeypatch: pytest.MonkeyPatch, returned: str, said: str
) -> None:
    """As the runner does it: the adapter is loaded and called."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = OfficialSolution.model_validate(solution(f"def run(x):\n    return {returned}\n"))
    with staged(made, load_problem(problem_dir).definition) as directory:
        run = runpy.run_path(str(directory / "kernel.py"))["run"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "ky_sources"]:
        del sys.modules[name]  # the next case has one of the same name
    with pytest.raises(ValueError, match=re.escape(said)):
        run(torch.ones(1000), torch.empty(1000))


@pytest.mark.parametrize(("returned", "said"), [WRONG[0], ("None", "runtime_error")])
def test_what_is_returned_wrongly_fails_the_call(judged: Judged, written: Written, returned: str, said: str) -> None:
    code, result, shown = judged(written(solution(f"def run(x):\n    return {returned}\n")))
    assert (code, result["verdict"]) == (1, "runtime_error")
    assert said in shown


def test_a_solution_that_answers_from_memory_is_caught(judged: Judged, written: Written) -> None:
    source = (
        "kept = {}\ndef run(x):\n    key = x.shape\n    if key not in kept:\n        kept[key] = x * 2\n"
        "    return kept[key]\n"
    )
    code, result, _ = judged(written(solution(source)))
    assert (code, result["verdict"]) == (1, "reward_hack")
    assert failed(result) & {"fresh-every-call", "matches-reference"}


def test_its_modules_find_each_other_whatever_their_names_and_run_only_in_the_sandbox(
    judged: Judged, written: Written
) -> None:
    # Named as the runner's own modules are, and imported in each of the ways that the two harnesses allow.
    files: dict[str, str | None] = {
        "kernel.py": "import os\nfrom host import two\nfrom .driver import double\nfrom inner.pages import ready\n"
        "print('imported by uid', os.getuid(), 'pid', os.getpid())\n"
        "def twice(x):\n    assert ready\n    return double(x, two)\n",
        "host.py": "two = 2\n",
        "driver.py": "def double(x, by):\n    return x * by\n",
        "inner/__init__.py": "\n",
        "inner/pages.py": "ready = True\n",
    }
    code, result, said = judged(written(solution(files, entry_point="kernel.py::twice")))
    assert code == 0, said
    uid, pid = map(int, re.findall(r"imported by uid (\d+) pid (\d+)", result["runner_log"])[0])
    assert pid != os.getpid()
    assert os.geteuid() != 0 or uid != 0


# What is judged here was built by test_extension.py, while others ran; alone, these tests build it themselves.


@pytest.mark.slow
def test_an_extension_with_torchs_binding_passes_and_is_built_once(
    judged: Judged, written: Written, built: Callable[..., Build]
) -> None:
    file = written(extension())
    build = built(file)
    code, result, said = judged(file)
    assert code == 0, said
    assert (result["language"], result["verdict"]) == ("cpp", "passed")
    assert result["interface"] == "solution.json: torch binding, outputs returned"
    assert result["build"]["ok"] and result["build"]["cached"] and result["build"]["key"] == build.report.key
    _, again, _ = judged(file)
    assert again["build"]["cached"] and again["build"]["key"] == build.report.key
    assert again["kernel_digest"] == result["kernel_digest"]


EMPTY_MODULE = """#include <Python.h>
static PyModuleDef empty = {PyModuleDef_HEAD_INIT, "benchmark_kernel"};
PyMODINIT_FUNC PyInit_benchmark_kernel() { return PyModule_Create(&empty); }
"""


@pytest.mark.parametrize(("source", "check", "said"), [
    (EMPTY_MODULE, "loads", "has no attribute 'run'"),
    ("int main( {", "compiles", "main.cpp:1"),
    ("int x;\n", "loads", "PyInit_benchmark_kernel"),
    ('#include "/etc/shadow"\n', "compiles", "/etc/shadow"),
], ids=["no run", "syntax", "no module", "host file"])
def test_an_extension_at_fault_is_told_why(
    judged: Judged, written: Written, source: str, check: str, said: str
) -> None:
    code, result, shown = judged(written(extension(sources=[{"path": "main.cpp", "content": source}])))
    assert code == 1 and check in failed(result), shown
    assert said in shown


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_kernel_passes_through_the_official_path(
    judged: Judged, built: Callable[..., Build], exported: Callable[[str], tuple[Path, Path]], name: str
) -> None:
    problem, file = exported(name)
    built(file, problem)
    code, result, said = judged(file, problem=problem)
    assert code == 0, said
    assert (result["verdict"], result["language"]) == ("passed", "cpp")
    assert result["interface"] == "solution.json: torch binding, outputs last"


def test_an_exported_baseline_passes_through_the_official_path(judged: Judged, tmp_path: Path) -> None:
    problem, kernel, file = ROOT / "problems" / "swiglu_gate_i14336", tmp_path / "torch", tmp_path / "exported.json"
    kernel.mkdir()
    (kernel / "kernel.py").write_bytes((problem / "baseline.py").read_bytes())
    assert main(["export-solution", str(kernel), "--problem", str(problem), "--output", str(file)]) == 0
    assert json.loads(file.read_text())["spec"]["languages"] == ["pytorch"]
    code, result, said = judged(file, problem=problem)
    assert (code, result["verdict"]) == (0, "passed"), said


@pytest.mark.parametrize(("changed", "more", "said"), [
    ({"definition": "other"}, (), "definition: is 'other', not 'double_it'"),
    ({}, ("--language", "triton", "--hardware", "cpu"), "spec.languages: is torch here; leave --language out"),
    ({"languages": ["cutile"]}, (), "needs the Python package cuda.tile, which is not installed here"),
    ({"languages": ["cuda_cpp"], "entry_point": "k.cu::run", "sources": [{"path": "k.cu", "content": "//"}]}, (),
     "cuda kernels do not run on cpu"),
    ({"name": ...}, (), ":1: name: Field required"),
])
def test_what_cannot_be_judged_is_refused_before_anything_runs(
    judged: Judged, written: Written, changed: dict[str, Any], more: tuple[str, ...], said: str
) -> None:
    code, result, shown = judged(written(solution(**changed)), *more)
    assert (code, result) == (2, {}) and said in shown


def test_a_kernel_directory_that_could_be_several_languages_needs_one_named(judged: Judged, tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "kernel.py").write_text(WRITING)
    code, _, said = judged(tmp_path / "kernel")
    assert code == 2 and "say which: --language" in said


def test_a_staged_solution_leaves_nothing_behind(written: Written, problem_dir: Path) -> None:
    with candidate(written(solution()), None, load_problem(problem_dir)) as given:
        assert sorted(p.name for p in given.kernel_dir.rglob("*")) == ["kernel.py", "kernel.py", "ky_sources"]
        assert all(p.stat().st_mode & 0o004 for p in given.kernel_dir.rglob("*"))
    assert not given.kernel_dir.parent.exists()
    with pytest.raises(SolutionError), candidate(problem_dir / "absent.json", None, load_problem(problem_dir)):
        pass


def test_a_note_is_made_where_the_solution_is_for_other_hardware(judged: Judged, written: Written) -> None:
    assert "target_hardware does not name cpu" in judged(written(solution(target_hardware=["B200"])))[2]
    assert "target_hardware" not in judged(written(solution(target_hardware=["B200", "CPU"])))[2]


assert DOUBLE["name"] == solution()["definition"]

"""A small problem, solutions for it in both dialects, and the judge of the session."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcore.build import Build
from agentcore.cli import main
from agentcore.official import read_solution
from agentcore.official.extension import build_extension
from agentcore.problems import load_problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import HardwareName
from tests.judge.conftest import DOUBLE, bench, cpu_judge, sandbox, workload, write_problem

__all__ = ["bench", "cpu_judge", "sandbox"]  # the judge's own fixtures

ROOT = Path(__file__).resolve().parents[2]
EXPORTED = ("rope_gqa_h32_kv8_d128", "cross_entropy_v128256")
"""Problems of the suite whose C++ kernels are exported, built and judged."""

RETURNING = "import torch\n\ndef run(x):\n    return x * 2\n"
WRITING = "import torch\n\ndef run(x, y):\n    torch.mul(x, 2, out=y)\n"

EXTENSION = """
#include <torch/extension.h>
#include "twice.h"

torch::Tensor run(const torch::Tensor& x) {
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
    auto y = torch::empty_like(x);
    twice(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "y = 2x"); }
"""
TWICE_H = "#pragma once\n#include <cstdint>\nvoid twice(const float* x, float* y, int64_t n);\n"
TWICE = '#include "twice.h"\nvoid twice(const float* x, float* y, int64_t n) { for (; n--; ++x, ++y) *y = 2 * *x; }\n'


def solution(files: dict[str, str | None] | str = RETURNING, /, **changed: Any) -> dict[str, Any]:
    """A solution of ``double_it``. A string is kernel.py; ``changed`` replaces fields of ``spec``, and of the top.

    A field given as ``...`` is left out, and so is the content of a source that has none.
    """
    if isinstance(files, str):
        files = {"kernel.py": files}
    made: dict[str, Any] = {
        "name": "twice", "definition": "double_it", "author": "ada",
        "spec": {
            "languages": ["pytorch"], "target_hardware": ["LOCAL"], "entry_point": "kernel.py::run",
            "dependencies": ["torch"], "destination_passing_style": False,
        },
        "sources": [
            {"path": path, **({} if content is None else {"content": content})} for path, content in files.items()
        ],
    }
    for name, value in changed.items():
        part = made if name in ("name", "definition", "author", "sources", "spec") else made["spec"]
        if value is ...:
            part.pop(name, None)
        else:
            part[name] = value
    return made


def extension(**changed: Any) -> dict[str, Any]:
    """A solution in host C++ with torch's binding: three files, one of them a header."""
    sources: dict[str, str | None] = {"main.cpp": EXTENSION, "twice.h": TWICE_H, "twice.cpp": TWICE}
    return solution(sources, **{
        "languages": ["cpp"], "binding": "torch", "entry_point": "main.cpp::run", "target_hardware": ["CPU"],
        # Not the default of -O3: torch's headers take a fifth longer then.
        "compile_options": {"cflags": ["-O1"], "cuda_cflags": [], "ld_flags": []}, **changed,
    })


@pytest.fixture
def problem_dir(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return write_problem(tmp_path / "double_it", DOUBLE, [workload(), workload("w1", {"n": 5_000})])


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], Path]:
    """Writes a solution.json (text as it is, else as JSON) and gives its path."""

    def write(content: Any) -> Path:
        file = tmp_path / "solution.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return file

    return write


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Exports the C++ kernel of a problem of the suite: the problem's directory and the solution's file."""

    def export(name: str) -> tuple[Path, Path]:
        problem, file = ROOT / "problems" / name, tmp_path / "exported.json"
        kernel = ROOT / "kernels_repo" / "kernels" / name / "cpp"
        assert main(["export-solution", str(kernel), "--problem", str(problem), "--output", str(file)]) == 0
        return problem, file

    return export


@pytest.fixture(scope="session")
def shared_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all workers of a run of the tests."""
    own = tmp_path_factory.getbasetemp()
    place = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "official"
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    return place


@pytest.fixture(scope="session")
def cache_dir(shared_dir: Path, lay_cpu_rates: Callable[[Path], Path]) -> Path:
    """The cache of the judge of these tests: for one worker, but for its builds."""
    return lay_cpu_rates(shared_dir)


@pytest.fixture
def built(problem_dir: Path, shared_dir: Path, sandbox: Sandbox) -> Callable[..., Build]:
    """Builds the C++ solution at a path for the CPU, where the judge of whichever worker will find it.

    Torch's headers take long to compile, and a judge holds this host's CPU while it compiles for it.
    """

    def build(path: Path, problem: Path = problem_dir) -> Build:
        return build_extension(
            read_solution(path), load_problem(problem).definition, HardwareName.CPU, cache_dir=shared_dir / "builds",
            sandbox=sandbox,
        )

    return build


@pytest.fixture
def judged(
    problem_dir: Path, cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """``kernelyard judge`` on a solution's path: exit status, the result (empty if none) and what was said."""

    def run(path: Path, *more: str, problem: Path = problem_dir) -> tuple[int, dict[str, Any], str]:
        out = tmp_path / "result.json"
        for _ in range(8):
            out.unlink(missing_ok=True)
            code = main([
                "judge", str(problem), str(path), "--baseline", "none", "--quick", "--cache-dir", str(cache_dir),
                "--json", str(out), *(more or ("--hardware", "cpu")),
            ])
            printed = capsys.readouterr()
            result = json.loads(out.read_text()) if out.exists() else {}
            # What a queue does when the machine is busy with something else: once more.
            if result.get("verdict") not in ("infra_error", "clock_mismatch"):
                break
        return code, result, printed.out + printed.err

    return run

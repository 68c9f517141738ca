"""A small valid problem that a test can break in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcore.problems.sources import Found, collect

DEFINITION: dict[str, Any] = {
    "name": "scaled_rows",
    "axes": {
        "rows": {"type": "var"},
        "cols": {"type": "const", "value": 8},
        "half": {"type": "expr", "expression": "cols // 2"},
    },
    "inputs": {
        "x": {"shape": ["rows", "half * 2"], "dtype": "float32"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "cols"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(x, scale):\n    return x * scale\n",
}
WORKLOAD: dict[str, Any] = {
    "uuid": "w0",
    "axes": {"rows": 3},
    "inputs": {"x": {"type": "random"}, "scale": {"type": "scalar", "value": 2}},
}

Write = Callable[..., Path]


@pytest.fixture
def write_problem(tmp_path: Path) -> Write:
    """Write a problem after ``change(definition, workload)`` edited it; keywords are extra files (``a__b`` is a.b)."""

    def write(change: Callable[[dict[str, Any], dict[str, Any]], object] | None = None, **files: str) -> Path:
        definition, workload = copy.deepcopy(DEFINITION), copy.deepcopy(WORKLOAD)
        if change is not None:
            change(definition, workload)
        root = tmp_path / "problem"
        root.mkdir(exist_ok=True)
        (root / "definition.json").write_text(json.dumps(definition, indent=2))
        (root / "workload.jsonl").write_text(json.dumps(workload) + "\n")
        for name, text in files.items():
            (root / name.replace("__", ".")).write_text(text)
        return root

    return write


@pytest.fixture(scope="session")
def sample() -> Path:
    """The public sample of problems beside the repository, where there is one."""
    root = Path(__file__).resolve().parents[3] / "shared" / "sol-execbench-sample"
    if not root.is_dir():
        pytest.skip("the SOL-ExecBench sample is not beside this repository")
    return root


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., list[Found]]:
    """What ``collect`` finds, staged below ``staging``."""
    return lambda *paths: list(collect(paths, tmp_path / "staging"))

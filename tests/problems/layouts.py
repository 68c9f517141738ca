"""Problems in every layout that is read, tiny ones, for the tests to write and to break."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from agentcore.problems.sources import Found
from tests.problems.conftest import DEFINITION, WORKLOAD

BLOB = {"type": "safetensors", "path": "blob/workloads/x.safetensors", "tensor_key": "x"}


def definition(name: str = "scaled_rows", **changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DEFINITION) | {"name": name} | changes


def workload(uuid: str = "w0", **inputs: Any) -> dict[str, Any]:
    made = copy.deepcopy(WORKLOAD) | {"uuid": uuid}
    made["inputs"] |= inputs
    return made


def write_lines(file: Path, *values: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values))
    return file


def write_directory(root: Path, name: str, **changes: Any) -> Path:
    write_lines(root / "definition.json", definition(name, **changes))
    write_lines(root / "workload.jsonl", workload())
    return root


def names(found: list[Found]) -> list[str]:
    return [each.problem.name if each.problem else "-" for each in found]


def error_of(found: list[Found]) -> str:
    (error,) = [each.error for each in found if each.error]
    return error

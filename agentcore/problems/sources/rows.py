"""One problem from one JSON object: a line of JSONL, a row of a table, a member of a list.

The object is a definition with its ``workloads``, or has the definition under ``definition``. Members that hold JSON as
text, as the columns of the published dataset do, are decoded. Workloads may stand beside the file instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentcore.problems.assemble import Parts
from agentcore.problems.documents import parse_json, read_lines
from agentcore.problems.errors import ProblemError
from agentcore.problems.items import Item
from agentcore.problems.loading import official_beside

MAX_LINE_BYTES = 8 << 20
MAX_PROBLEMS = 100_000
_NOT_DEFINITION = frozenset({"workloads", "workload", "official", "metadata", "definition"})
_DECODED = _NOT_DEFINITION | {"axes", "inputs", "outputs", "tags", "constraints"}

Outcome = Parts | ProblemError


def lines(file: Path) -> Iterator[Item | ProblemError]:
    """One object for each line of ``file`` that is not blank; an error for a line that is no JSON, and for the file."""
    count = 0
    try:
        for number, text in read_lines(file, max_line_bytes=MAX_LINE_BYTES):
            if not text.strip():
                continue
            count += 1
            if count > MAX_PROBLEMS:
                yield ProblemError.at(file, number, "", f"holds more than {MAX_PROBLEMS:,} lines")
                return
            try:
                yield Item(file, text, parse_json(file, text, number), number)
            except ProblemError as error:
                yield error
    except ProblemError as error:
        yield error


def is_problem(value: Any) -> bool:
    """Whether an object looks like a problem: a definition, or one that carries a definition."""
    if not isinstance(value, dict):
        return False
    if {"axes", "inputs", "outputs"} <= value.keys() or {"outputs", "reference"} <= value.keys():
        return True
    held = value.get("definition")
    return isinstance(held, dict) or (isinstance(held, str) and held.lstrip().startswith("{"))


def parts(item: Item, place: str, beside: Mapping[str, list[Item]], folder: Path) -> Parts:
    """The problem that ``item`` holds. ``beside``: workloads by name, from other files; ``folder``: of its data files.

    Raises ProblemError where the object is none.
    """
    if not isinstance(item.value, dict):
        raise item.error("", "must be a JSON object with axes, inputs, outputs, reference and workloads")
    row = {key: _decoded(item, key, value) for key, value in item.value.items()}
    held = row.get("definition")
    if isinstance(held, dict):
        definition = item.part("definition", value=held)
    else:
        definition = item.part(value={key: value for key, value in row.items() if key not in _NOT_DEFINITION})
    if not is_problem(definition.value):
        raise item.error("", "is no problem: it has no axes, inputs, outputs and reference")
    name = definition.value.get("name")
    key = "workloads" if row.get("workloads") is not None else "workload"
    workloads = list(_workloads(item, key, row.get(key)))
    if not workloads and isinstance(name, str):
        workloads = beside.get(name, [])
    official = next((item.part(key, value=row[key]) for key in ("official", "metadata") if row.get(key)), None)
    if official is None and isinstance(name, str):
        official = _official_of(name, folder)
    return Parts(definition, tuple(workloads), official=official, source=place, root=folder)


def workload_index(files: list[Path]) -> tuple[dict[str, list[Item]], list[ProblemError]]:
    """Workloads by the name of their definition, from files whose lines carry both, and what is wrong with them."""
    found: dict[str, list[Item]] = {}
    faults: list[ProblemError] = []
    for file in files:
        for item in lines(file):
            if isinstance(item, ProblemError):
                faults.append(item)
                continue
            value = item.value if isinstance(item.value, dict) else {}
            name = next((value[k] for k in ("definition", "problem") if isinstance(value.get(k), str)), None)
            if name is None:
                faults.append(item.error("definition", "is missing; a line says whose workload it is"))
                continue
            found.setdefault(name, []).append(item.part("workload") if "workload" in value else item)
    return found, faults


def _workloads(item: Item, key: str, value: Any) -> Iterator[Item]:
    if value is None:
        return
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise item.error(key, "must be a list of workloads")
    for index, workload in enumerate(value):
        wrapped = isinstance(workload, dict) and isinstance(workload.get("workload"), dict)
        steps = (key, index, "workload") if wrapped else (key, index)
        yield item.part(*steps, value=workload["workload"] if wrapped else workload)


def _decoded(item: Item, key: str, value: Any) -> Any:
    if key not in _DECODED or not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(item.file, value, 1)
    except ProblemError:
        if key not in ("workloads", "workload"):
            raise item.error(key, "is text that is not JSON") from None
    try:
        # Lines of JSON in one cell.
        return [parse_json(item.file, line, 1) for line in value.splitlines() if line.strip()]
    except ProblemError:
        raise item.error(key, "is text that is neither JSON nor lines of it") from None


def _official_of(name: str, folder: Path) -> Item | None:
    """What a sidecar of the whole collection says of ``name``, by name."""
    sidecar = official_beside(folder)
    if sidecar is None or not isinstance(sidecar.value, dict) or not isinstance(sidecar.value.get(name), dict):
        return None
    return sidecar.part(name)


def as_line(value: Any) -> str:
    """``value`` on one line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))

"""Which problems stand at or below a path, in whatever layout, one by one; what cannot be read is an error among them.

| layout | seen by |
|---|---|
| directory of the benchmark | ``definition.json``; at any depth |
| FlashInfer-Trace | a directory ``definitions`` with JSON files |
| JSONL | ``*.jsonl`` whose first line is a problem; workloads in the line, or in ``(NAME.)workloads.jsonl`` |
| parquet | ``*.parquet`` |
| JSON | a file that is named: one problem, or a list of them |

Hidden directories are passed over, and links to directories are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agentcore.problems.errors import ProblemError
from agentcore.problems.items import Item, read_item
from agentcore.problems.loading import CPU_WORKLOADS, DEFINITION, HELDOUT, WORKLOADS, read_parts
from agentcore.problems.sources import tables, traces
from agentcore.problems.sources.rows import Outcome, is_problem, lines, parts, workload_index

MAX_DEPTH = 32
MAX_DIRECTORIES = 100_000
_NOT_PROBLEMS = frozenset({WORKLOADS, CPU_WORKLOADS, HELDOUT, "workloads.jsonl"})


def discover(path: Path, without: Path | None = None) -> Iterator[Outcome]:
    """Every problem at or below ``path``, in order of their places. Yields an error where there is none.

    A directory ``without`` on the way is passed over: where converted problems are written is no place to find them.
    """
    try:
        if path.is_dir():
            found = _below(path, without)
        elif path.name == DEFINITION:
            found = _directory(path.parent)
        elif path.is_file():
            found = _file(path)
        else:
            found = iter([ProblemError.at(path, None, "", "is not there")])
    except OSError as error:
        found = iter([ProblemError.at(path, None, "", f"cannot be read: {error.strerror or error}")])
    empty = True
    for outcome in found:
        empty = False
        yield outcome
    if empty:
        looked = f"{DEFINITION}, *.jsonl, *.parquet or definitions/*.json"
        yield ProblemError.at(path, None, "", f"no problem here or below: there is no {looked}")


def _below(root: Path, without: Path | None) -> Iterator[Outcome]:
    passed_over = without.resolve() if without is not None and without.resolve() != root.resolve() else None
    faults: list[OSError] = []
    count = 0
    for name, directories, files in os.walk(root, onerror=faults.append):
        place = Path(name)
        yield from (ProblemError.at(Path(f.filename), None, "", f"cannot be read: {f.strerror}") for f in faults)
        faults.clear()
        count += 1
        if count > MAX_DIRECTORIES or len(place.relative_to(root).parts) > MAX_DEPTH:
            yield ProblemError.at(place, None, "", f"is beyond {MAX_DIRECTORIES:,} directories or {MAX_DEPTH} levels")
            if count > MAX_DIRECTORIES:
                return
            directories.clear()
            continue
        seen = (d for d in directories if not d.startswith(".") and (place / d).resolve() != passed_over)
        directories[:] = sorted(seen)
        if DEFINITION in files:
            yield from _directory(place)
            continue
        if traces.is_collection(place):
            yield from traces.problems(place)
            directories[:] = [d for d in directories if d not in traces.FOLDERS]
        for file in sorted(files):
            if file.endswith(".parquet") or (file.endswith(".jsonl") and _may_hold_problems(place / file)):
                yield from _file(place / file)
    yield from (ProblemError.at(Path(f.filename), None, "", f"cannot be read: {f.strerror}") for f in faults)


def _directory(root: Path) -> Iterator[Outcome]:
    try:
        yield read_parts(root)
    except ProblemError as error:
        error.file = root
        yield error


def _file(file: Path) -> Iterator[Outcome]:
    if file.suffix == ".parquet":
        items = tables.rows(file)
    elif file.suffix in (".jsonl", ".ndjson"):
        items = lines(file)
    elif file.suffix == ".json":
        items = _members(file)
    else:
        yield ProblemError.at(file, None, "", "is no layout that is read: a directory, .jsonl, .parquet or .json")
        return
    beside, faults = workload_index(_workload_files(file))
    yield from faults
    for item in items:
        try:
            if isinstance(item, ProblemError):
                raise item
            yield parts(item, _place(item), beside, file.parent)
        except ProblemError as error:
            yield error


def _members(file: Path) -> Iterator[Item | ProblemError]:
    try:
        item = read_item(file)
    except ProblemError as error:
        yield error
        return
    if isinstance(item.value, list):
        yield from (item.part(number) for number in range(len(item.value)))
    else:
        yield item


def _place(item: Item) -> str:
    inside = f"[{item.within[0]}]" if item.within else ""
    return f"{item.file}{inside}" if item.line is None or inside else f"{item.file}:{item.line}"


def _workload_files(file: Path) -> list[Path]:
    names = ("workloads.jsonl", WORKLOADS, f"{file.stem}.workloads.jsonl")
    return [beside for name in names if (beside := file.parent / name).is_file() and beside != file]


def _may_hold_problems(file: Path) -> bool:
    """Whether a JSONL file met on the way is for us: it is, if its first line is a problem or cannot be read at all."""
    if file.name in _NOT_PROBLEMS or file.name.endswith(".workloads.jsonl"):
        return False
    first = next(lines(file), None)
    return isinstance(first, ProblemError) or (first is not None and is_problem(first.value))

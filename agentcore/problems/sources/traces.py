"""FlashInfer-Trace collections: ``definitions/**.json``, ``workloads/**.jsonl``, safetensors files below their root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentcore.problems.errors import ProblemError
from agentcore.problems.items import read_item
from agentcore.problems.sources.rows import Outcome, is_problem, parts, workload_index

DEFINITIONS, WORKLOADS = "definitions", "workloads"
FOLDERS = frozenset({DEFINITIONS, WORKLOADS, "blob", "blobs", "solutions", "traces"})
"""What such a root holds; of these only the first two are read."""


def is_collection(root: Path) -> bool:
    """Whether ``root`` has definitions of its own."""
    return (root / DEFINITIONS).is_dir() and next((root / DEFINITIONS).rglob("*.json"), None) is not None


def problems(root: Path) -> Iterator[Outcome]:
    """Every definition below ``root``, in order of its path, with the workloads that name it."""
    files = sorted((root / WORKLOADS).rglob("*.jsonl")) if (root / WORKLOADS).is_dir() else []
    index, faults = workload_index(files)
    broken = {fault.file.stem for fault in faults if fault.file is not None}
    yield from faults
    for file in sorted((root / DEFINITIONS).rglob("*.json")):
        try:
            item = read_item(file)
            if not is_problem(item.value):
                raise item.error("", "is no definition: it has no axes, inputs, outputs and reference")
            if str(item.value.get("name")) in broken:
                continue  # some of its workloads are broken, which has been said
            found = parts(item, str(file), index, root)
            if not found.workloads:
                message = f"has no workload: no line below {root / WORKLOADS} names {item.value.get('name')!r}"
                raise item.error("name", message, at=["name"])
            yield found
        except ProblemError as error:
            yield error

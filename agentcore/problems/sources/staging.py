"""A problem of another layout written as a directory of ours, so that judge, portal and bounds load it as any other."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

from agentcore.problems.assemble import Parts
from agentcore.problems.blobs import find_blob
from agentcore.problems.errors import ProblemError
from agentcore.problems.loading import (
    CPU_WORKLOADS,
    DEFINITION,
    HELDOUT,
    OFFICIAL,
    SOURCE,
    WORKLOADS,
    load_problem,
)
from agentcore.problems.problem import Problem
from agentcore.problems.sources.rows import as_line
from agentcore.problems.workload import SafetensorsInput

_OWN = frozenset({
    DEFINITION, WORKLOADS, CPU_WORKLOADS, HELDOUT, *OFFICIAL, SOURCE, "reference.py", "baseline.py", "library.py",
    "README.md",
})
"""What a file in a problem's directory means something by; no link to a data file may take its place."""


def stage(parts: Parts, problem: Problem, directory: Path) -> Problem:
    """Write ``problem``, assembled from ``parts``, as ``directory / its name`` and load it from there.

    Data files stay where they are and are linked. What is there already is left alone where it does not change, and
    replaced file by file where it does. Raises ProblemError where that is not possible, and where a problem stands
    there that was not written by this.
    """
    root = directory / problem.name
    if (root / DEFINITION).exists() and not (root / SOURCE).is_file():
        message = f"is a problem that was not converted, so it is not replaced by that of {parts.source}"
        raise ProblemError.at(root, None, "", message)
    official = as_line(problem.official) if problem.official is not None else None
    files = {
        # First, since it says whose the directory is.
        SOURCE: json.dumps({"source": parts.source, "name": problem.original_name}, ensure_ascii=False) + "\n",
        DEFINITION: json.dumps(parts.definition.value, indent=2, ensure_ascii=False) + "\n",
        WORKLOADS: "".join(as_line(item.value) + "\n" for item in parts.workloads),
        OFFICIAL[0]: official + "\n" if official is not None else None,
    }
    links = _links(problem, parts)
    try:
        root.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            _replace(root / name, text)
        for name, target in links.items():
            _link(root / name, target)
    except OSError as error:
        raise ProblemError.at(root, None, "", f"cannot be written: {error.strerror or error}") from None
    staged = load_problem(root)
    if staged.digest != problem.digest:
        raise ProblemError.at(root, None, "", f"does not read back as what {parts.source} holds; report this as a bug")
    return staged


def _replace(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink(missing_ok=True)
        return
    content = text.encode()
    if file.is_file() and not file.is_symlink() and file.read_bytes() == content:
        return
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(file)


def _links(problem: Problem, parts: Parts) -> dict[str, Path]:
    """The first part of each data file's path → what it is below the collection's folder or above it."""
    folder = parts.root
    found: dict[str, Path] = {}
    for workload in problem.all_workloads:
        for source in workload.inputs.values():
            if not isinstance(source, SafetensorsInput):
                continue
            steps = PurePosixPath(source.path).parts
            if steps[0] in _OWN:
                message = f"{source.path!r} has the name of one of a problem's own files"
                raise ProblemError.at(Path(parts.source), None, "inputs", message)
            file = find_blob(folder, source.path) if steps[0] not in found else None
            # One found elsewhere under a shorter path is found again at each use.
            if file is not None and file.parts[-len(steps) :] == steps:
                found[steps[0]] = file.parents[len(steps) - 2] if len(steps) > 1 else file
    return found


def _link(link: Path, target: Path) -> None:
    absolute = target.absolute()
    if link.is_symlink():
        if link.readlink() == absolute:
            return
        link.unlink()
    link.symlink_to(absolute)

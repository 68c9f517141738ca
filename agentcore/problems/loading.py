"""Read a problem's directory into one validated, immutable value.

A directory holds ``definition.json``, optionally ``reference.py`` (else the definition carries the source inline),
``workload.jsonl``, and optionally ``workload.cpu.jsonl``, ``heldout.jsonl``, ``official.json`` (or ``metadata.json``),
``README.md``, ``source.json`` (where an import took it from), and ``baseline.py`` and ``library.py``, of which only the
parameters are looked at. Nothing here runs the reference or imports torch.
"""

from __future__ import annotations

import os
from pathlib import Path

from agentcore.problems.assemble import Parts, assemble
from agentcore.problems.blobs import find_blob, missing_blobs
from agentcore.problems.documents import read_text
from agentcore.problems.errors import Faults, ProblemError
from agentcore.problems.items import Item, read_item, read_items
from agentcore.problems.problem import Problem

__all__ = ["Problem", "find_blob", "find_problems", "load_problem", "missing_blobs", "read_parts"]

DEFINITION = "definition.json"
WORKLOADS, CPU_WORKLOADS, HELDOUT = "workload.jsonl", "workload.cpu.jsonl", "heldout.jsonl"
OFFICIAL = ("official.json", "metadata.json")
SOURCE = "source.json"
PROGRAMS = ("baseline.py", "library.py")


def find_problems(root: Path) -> list[Path]:
    """Every directory at or below ``root`` that holds a ``definition.json``, sorted. Links to directories are not
    followed.
    """
    return sorted(Path(directory) for directory, _, files in os.walk(root) if DEFINITION in files)


def load_problem(path: Path) -> Problem:
    """Load and validate the problem in directory ``path``.

    Raises ProblemError naming file, line and field for anything missing or inconsistent. Safetensors files that are
    absent are no error: see :func:`missing_blobs`.
    """
    return assemble(read_parts(Path(path)))


def read_parts(root: Path) -> Parts:
    """What the files in directory ``root`` say, not yet validated. What cannot be read of definition and workloads is
    among the parts, so that the rest is looked at as well; for other files ProblemError is raised.
    """
    if not root.is_dir():
        raise ProblemError.at(root, None, "", "there is no such directory; give one with a definition.json")
    _refuse_links_outside(root)
    unread = Faults()
    definition = Item(root / DEFINITION, "", None)
    with unread.gathered():
        definition = read_item(root / DEFINITION)
    if (root / WORKLOADS).is_file():
        earlier, workloads = len(unread.found), read_items(root / WORKLOADS, unread)
        if not workloads and len(unread.found) == earlier:
            unread.add(ProblemError.at(root / WORKLOADS, None, "", "holds no workload; write one JSON object per line"))
    else:
        workloads, message = [], "the file is missing; a problem needs at least one workload"
        unread.add(ProblemError.at(root / WORKLOADS, None, "", message))
    cpu_workloads, heldout = (_optional(root / name, unread) for name in (CPU_WORKLOADS, HELDOUT))
    reference, brief = root / "reference.py", root / "README.md"
    programs = tuple((read_text(file), file) for name in PROGRAMS if (file := root / name).is_file())
    source = _source(root)
    return Parts(
        definition=definition,
        workloads=tuple(workloads),
        cpu_workloads=tuple(cpu_workloads),
        heldout=tuple(heldout),
        unread=unread.found,
        reference=(read_text(reference), reference) if reference.is_file() else None,
        programs=programs,
        official=official_beside(root),
        brief=read_text(brief) if brief.is_file() else "",
        source=source.get("source", ""),
        original_name=source.get("name", ""),
        root=root,
    )


def _refuse_links_outside(root: Path) -> None:
    """What stands in a problem's files is published: none may show a file of the host to whoever reads the problem."""
    home = root.resolve()
    for file in sorted(file for file in root.glob("*") if file.suffix in (".json", ".jsonl", ".py", ".md")):
        if file.is_symlink() and not file.resolve().is_relative_to(home):
            raise ProblemError.at(file, None, "", "is a link that leads out of the problem's directory")


def official_beside(root: Path) -> Item | None:
    """The sidecar with the benchmark's own bounds and baselines in directory ``root``, if there is one."""
    for name in OFFICIAL:
        if (root / name).is_file():
            return read_item(root / name)
    return None


def _optional(file: Path, faults: Faults) -> list[Item]:
    return read_items(file, faults) if file.is_file() else []


def _source(root: Path) -> dict[str, str]:
    file = root / SOURCE
    if not file.is_file():
        return {}
    said = read_item(file).value
    if not isinstance(said, dict):
        raise ProblemError.at(file, 1, "", "must be a JSON object")
    return {key: value for key, value in said.items() if isinstance(value, str)}

"""JSON values, wherever they came from, into one validated Problem. Every layout that can be read ends here.

What collections vary in is taken as it comes: null or missing optional fields, an axis or an input source without
its type, a name that cannot be a name here, a workload without a tolerance, sources for inputs that do not exist.
What would change a result is refused, and everything that is wrong is said at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcore.problems.consistency import raw_faults
from agentcore.problems.definition import Definition
from agentcore.problems.documents import dotted
from agentcore.problems.errors import Faults, ProblemError
from agentcore.problems.items import Item, Notes
from agentcore.problems.listing import workloads_of
from agentcore.problems.naming import problem_name
from agentcore.problems.problem import Problem, digest_of
from agentcore.problems.signatures import check_source, fault_of_program, texts_in
from agentcore.problems.workload import Workload


@dataclass(frozen=True, slots=True)
class Parts:
    """What a problem is made of. ``reference`` is a file's text and its path, where it is not in the definition.

    ``programs`` are the baselines beside it: text and path. ``unread`` says what of definition (which is none then) and
    workloads could not be read.
    """

    definition: Item
    workloads: tuple[Item, ...]
    cpu_workloads: tuple[Item, ...] = ()
    heldout: tuple[Item, ...] = ()
    reference: tuple[str, Path] | None = None
    programs: tuple[tuple[str, Path], ...] = ()
    official: Item | None = None
    brief: str = ""
    source: str = ""
    original_name: str = ""
    root: Path = field(default_factory=Path)
    unread: tuple[ProblemError, ...] = ()


def assemble(parts: Parts) -> Problem:
    """Validate ``parts``. Raises ProblemError with a line for each thing that is missing or inconsistent, naming file,
    line and field; what only looks odd is among the problem's warnings.
    """
    faults, notes = Faults(parts.unread), Notes()
    definition = _definition(parts.definition, faults)
    reference = ""
    if definition is not None:
        notes.add_misspelt(parts.definition, Definition)
        _note_programs(parts.programs, definition, notes)
    if not parts.definition.is_unread:
        reference = _reference(parts, definition, faults, notes)
    if not parts.workloads and not parts.unread:
        faults.add(parts.definition.error("", "has no workload; a problem needs at least one"))
    mentioned = texts_in(reference) if definition is not None and definition.custom_inputs_entrypoint else frozenset()
    lists = [
        workloads_of(items, definition, target, mentioned, faults, notes)
        for items, target in ((parts.workloads, "gpu"), (parts.cpu_workloads, "cpu"), (parts.heldout, "gpu"))
    ]
    _distinct_uuids([pair for each in lists for pair in each], faults)
    official = parts.official
    if official is not None and not isinstance(official.value, dict):
        faults.add(official.error("", "must be a JSON object"))
    faults.raise_any()
    assert definition is not None
    workloads, cpu_workloads, heldout = (tuple(workload for _, workload in each) for each in lists)
    return Problem(
        name=definition.name,
        definition=definition,
        reference=reference,
        workloads=workloads,
        cpu_workloads=cpu_workloads,
        heldout=heldout,
        brief=parts.brief,
        root=parts.root,
        digest=digest_of(definition, reference, workloads, cpu_workloads, heldout),
        official=official.value if official is not None else None,
        original_name=parts.original_name or parts.definition.value["name"],
        source=parts.source,
        warnings=notes.lines(),
    )


def _definition(item: Item, faults: Faults) -> Definition | None:
    """The definition under a name that can be one here; None where something is wrong with it."""
    if item.is_unread:
        return None
    try:
        stated = item.as_model(Definition)
    except ProblemError as error:
        # A validator stops before it compares members, where one is malformed.
        faults.add(error, *(item.error(dotted(at), message, at=at) for at, message in raw_faults(item.value)))
        return None
    try:
        return stated.model_copy(update={"name": problem_name(stated.name)})
    except ValueError as error:
        faults.add(item.error("name", str(error), at=["name"]))
        return None


def _reference(parts: Parts, definition: Definition | None, faults: Faults, notes: Notes) -> str:
    """The reference's source; of a definition that is wrong elsewhere as far as it can be told."""
    item = parts.definition
    if definition is not None:
        stated: Mapping[str, Any] = {
            "reference": definition.reference,
            "inputs": definition.inputs,
            "custom_inputs_entrypoint": definition.custom_inputs_entrypoint,
        }
    else:
        stated = item.value if isinstance(item.value, dict) else {}
    inline = stated.get("reference")
    if parts.reference is not None:
        source, beside = parts.reference
        if inline not in (None, "", source):
            message = f"differs from {beside.name} beside it; keep one of the two"
            faults.add(item.error("reference", message, at=["reference"]))
            return source
    elif isinstance(inline, str) and inline:
        source, beside = inline, None
    else:
        if not inline:
            faults.add(item.error("reference", "is missing, and there is no reference.py beside", at=["reference"]))
        return ""

    def place(line: int, message: str) -> ProblemError:
        if beside is not None:
            return ProblemError.at(beside, line, "", message)
        # Inline source is one JSON line: name the line inside the source in the message instead.
        return item.error(f"reference, line {line}", message, at=["reference"])

    inputs, entry = stated.get("inputs"), stated.get("custom_inputs_entrypoint")
    checked = check_source(
        source, tuple(inputs) if isinstance(inputs, Mapping) else None, entry if isinstance(entry, str) else None
    )
    faults.add(*(place(line, message) for line, message in checked.faults))
    for line, message in checked.warnings:
        notes.add_error(place(line, message))
    return source


def _note_programs(programs: Iterable[tuple[str, Path]], definition: Definition, notes: Notes) -> None:
    """Baselines that cannot be called. They would fail when judged and then not be used, which stops nothing."""
    for source, file in programs:
        said = fault_of_program(source, tuple(definition.inputs), tuple(definition.outputs))
        if said is not None:
            notes.add_error(ProblemError.at(file, said[0], "", f"{said[1]}: no baseline"))


def _distinct_uuids(workloads: Iterable[tuple[Item, Workload]], faults: Faults) -> None:
    seen: set[str] = set()
    for item, workload in workloads:
        if workload.uuid in seen:
            faults.add(item.error("uuid", f"{workload.uuid} is used by two workloads", at=["uuid"]))
        seen.add(workload.uuid)

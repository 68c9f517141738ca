"""JSON values, wherever they came from, into one validated Problem. Every layout that can be read ends here.

What collections vary in is taken as it comes: null or missing optional fields, an axis or an input source without
its type, a name that cannot be a name here, a workload without a tolerance, sources for inputs that do not exist.
What would change a result is refused.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.problems import expressions
from agentcore.problems.definition import Definition
from agentcore.problems.errors import ExpressionError, ProblemError
from agentcore.problems.items import Item
from agentcore.problems.naming import problem_name
from agentcore.problems.problem import Problem, digest_of
from agentcore.problems.tolerances import completed
from agentcore.problems.workload import CustomInput, InputSource, RandomInput, SafetensorsInput, Workload


@dataclass(frozen=True, slots=True)
class Parts:
    """What a problem is made of. ``reference`` is a file's text and its path, where it is not in the definition."""

    definition: Item
    workloads: tuple[Item, ...]
    cpu_workloads: tuple[Item, ...] = ()
    heldout: tuple[Item, ...] = ()
    reference: tuple[str, Path] | None = None
    official: Item | None = None
    brief: str = ""
    source: str = ""
    original_name: str = ""
    root: Path = field(default_factory=Path)


def assemble(parts: Parts) -> Problem:
    """Validate ``parts``. Raises ProblemError naming file, line and field for anything missing or inconsistent."""
    stated = parts.definition.as_model(Definition)
    try:
        name = problem_name(stated.name)
    except ValueError as error:
        raise parts.definition.error("name", str(error), at=["name"]) from None
    definition = stated.model_copy(update={"name": name})
    reference = _reference(parts, definition)
    if not parts.workloads:
        raise parts.definition.error("", "has no workload; a problem needs at least one")
    workloads = _workloads(parts.workloads, definition, "gpu")
    cpu_workloads = _workloads(parts.cpu_workloads, definition, "cpu")
    heldout = _workloads(parts.heldout, definition, "gpu")
    items = (*parts.workloads, *parts.cpu_workloads, *parts.heldout)
    _distinct_uuids(zip(items, (*workloads, *cpu_workloads, *heldout), strict=True))
    official = parts.official
    if official is not None and not isinstance(official.value, dict):
        raise official.error("", "must be a JSON object")
    return Problem(
        name=name,
        definition=definition,
        reference=reference,
        workloads=workloads,
        cpu_workloads=cpu_workloads,
        heldout=heldout,
        brief=parts.brief,
        root=parts.root,
        digest=digest_of(definition, reference, workloads, cpu_workloads, heldout),
        official=official.value if official is not None else None,
        original_name=parts.original_name or stated.name,
        source=parts.source,
    )


def _reference(parts: Parts, definition: Definition) -> str:
    item = parts.definition
    inline = definition.reference
    if parts.reference is not None:
        source, beside = parts.reference
        if inline not in (None, "", source):
            message = f"differs from {beside.name} beside it; keep one of the two"
            raise item.error("reference", message, at=["reference"])
    elif inline:
        source, beside = inline, None
    else:
        raise item.error("reference", "is missing, and there is no reference.py beside", at=["reference"])

    def fail(line: int, message: str) -> ProblemError:
        if beside is not None:
            return ProblemError.at(beside, line, "", message)
        # Inline source is one JSON line: name the line inside the source in the message instead.
        return item.error(f"reference, line {line}", message, at=["reference"])

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise fail(line, f"is not Python: {getattr(error, 'msg', None) or error or type(error).__name__}") from None
    defined = _top_level_names(tree)
    if "run" not in defined:
        raise fail(1, "defines no run(...) at its top level")
    entry = definition.custom_inputs_entrypoint
    if entry is not None and entry not in defined:
        raise fail(1, f"defines no {entry}(...), which custom_inputs_entrypoint names")
    return source


def _top_level_names(tree: ast.Module) -> set[str]:
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        match node:
            case ast.Assign(targets=targets):
                defined |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                defined |= {alias.asname or alias.name for alias in aliases}
            case _:
                pass
    return defined


def _workloads(items: Iterable[Item], definition: Definition, default_target: str) -> tuple[Workload, ...]:
    found: list[Workload] = []
    met: Counter[str] = Counter()
    for item in items:
        if isinstance(item.value, dict) and item.value.get("uuid") is None:
            # The content names it, so that it is the same one at the next import.
            uuid = hashlib.sha256(json.dumps(item.value, sort_keys=True).encode()).hexdigest()[:16]
            item = Item(item.file, item.text, item.value | {"uuid": uuid}, item.line, item.within)
        workload = item.as_model(Workload)
        met[workload.uuid] += 1
        # Collections that derive a uuid from the axes list one shape twice under one uuid.
        again = f"~{met[workload.uuid]}" if met[workload.uuid] > 1 else ""
        workload = workload.model_copy(
            update={
                "uuid": workload.uuid[: 64 - len(again)] + again,
                "index": len(found),
                "target": workload.target or default_target,
                "inputs": _sources(item, workload, definition),
                "tolerance": completed(workload.tolerance, definition),
            }
        )
        _check(item, definition, workload)
        found.append(workload)
    return tuple(found)


def _sources(item: Item, workload: Workload, definition: Definition) -> dict[str, InputSource]:
    """The workload's sources without those of no input; an input without one is made like its neighbours."""
    unknown = sorted(workload.inputs.keys() - definition.inputs.keys())
    kept: dict[str, InputSource] = {n: s for n, s in workload.inputs.items() if n in definition.inputs}
    for name in definition.inputs:
        if name in kept:
            continue
        if unknown:
            message = f"{', '.join(unknown)} is not an input of the definition, and {name!r} is missing"
            raise item.error("inputs", message, at=["inputs"])
        custom = definition.custom_inputs_entrypoint and any(_is_custom(source) for source in kept.values())
        kept[name] = CustomInput(type="custom") if custom else RandomInput(type="random")
    return kept


def _is_custom(source: InputSource) -> bool:
    return isinstance(source, CustomInput)


def _check(item: Item, definition: Definition, workload: Workload) -> None:
    try:
        values = definition.axis_values(workload.axes)
    except ExpressionError as error:
        raise item.error("axes", str(error), at=["axes"]) from None
    for side, specs in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        for name, spec in specs.items():
            try:
                definition.shape(spec, values)
            except ExpressionError as error:
                raise item.error(f"axes (for {side}.{name}.shape)", str(error), at=["axes"]) from None
    for name, spec in definition.inputs.items():
        source, at = workload.inputs[name], ["inputs", name]
        if isinstance(source, SafetensorsInput) and spec.is_scalar:
            raise item.error(f"inputs.{name}", "is a scalar, so its source cannot be a file", at=at)
        if isinstance(source, RandomInput):
            _check_limits(item, name, source, values)
        if isinstance(source, CustomInput) and definition.custom_inputs_entrypoint is None:
            message = "is custom, but the definition has no custom_inputs_entrypoint"
            raise item.error(f"inputs.{name}", message, at=at)


def _check_limits(item: Item, name: str, source: RandomInput, values: Mapping[str, int]) -> None:
    for side, limit in (("low", source.low), ("high", source.high)):
        try:
            if isinstance(limit, str):
                expressions.evaluate(limit, values)
        except ExpressionError as error:
            raise item.error(f"inputs.{name}.{side}", str(error), at=["inputs", name, side]) from None


def _distinct_uuids(workloads: Iterable[tuple[Item, Workload]]) -> None:
    seen: set[str] = set()
    for item, workload in workloads:
        if workload.uuid in seen:
            raise item.error("uuid", f"{workload.uuid} is used by two workloads", at=["uuid"])
        seen.add(workload.uuid)

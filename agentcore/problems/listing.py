"""The workloads of one list, validated against their definition: sources completed, tolerances set, uuids distinct."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from agentcore.problems import expressions
from agentcore.problems.definition import Definition
from agentcore.problems.errors import ExpressionError, Faults, ProblemError
from agentcore.problems.items import Item, Notes
from agentcore.problems.tolerances import completed
from agentcore.problems.workload import CustomInput, InputSource, RandomInput, SafetensorsInput, Workload

_SHOWN = 10
"""Of one workload no more is said: each word costs a reading of its line."""


def workloads_of(
    items: Iterable[Item],
    definition: Definition | None,
    default_target: str,
    mentioned: frozenset[str],
    faults: Faults,
    notes: Notes,
) -> list[tuple[Item, Workload]]:
    """Each item with its workload, without those in which something is wrong, which goes to ``faults``.

    Without a definition each is looked at by itself. ``mentioned`` are texts in a generator of inputs, which may ask
    for axes that the definition does not have.
    """
    found: list[tuple[Item, Workload]] = []
    met: Counter[str] = Counter()
    for item in items:
        if faults.is_full:
            break
        if isinstance(item.value, dict) and item.value.get("uuid") is None:
            # The content names it, so that it is the same one at the next import.
            uuid = hashlib.sha256(json.dumps(item.value, sort_keys=True).encode()).hexdigest()[:16]
            item = Item(item.file, item.text, item.value | {"uuid": uuid}, item.line, item.within)
        try:
            workload = item.as_model(Workload)
        except ProblemError as error:
            faults.add(error)
            continue
        met[workload.uuid] += 1
        # Collections that derive a uuid from the axes list one shape twice under one uuid.
        again = f"~{met[workload.uuid]}" if met[workload.uuid] > 1 else ""
        update = {
            "uuid": workload.uuid[: 64 - len(again)] + again,
            "index": len(found),
            "target": workload.target or default_target,
        }
        if again:
            message = f"{workload.uuid} is the uuid of an earlier one, so this one is called {update['uuid']}"
            notes.add(item, "uuid", message, at=["uuid"])
        if definition is not None:
            errors, sources = _sources(item, workload, definition)
            update |= {"inputs": sources, "tolerance": completed(workload.tolerance, definition)}
            errors += itertools.islice(_faults(item, definition, workload, sources), _SHOWN)
            faults.add(*errors)
            if not errors:
                notes.add_misspelt(item, Workload)
                _note_extras(item, workload, definition, mentioned, notes)
        found.append((item, workload.model_copy(update=update)))
    return found


def _note_extras(
    item: Item, workload: Workload, definition: Definition, mentioned: frozenset[str], notes: Notes
) -> None:
    """What of it means nothing to the definition: left out, as published workloads carry such, but said."""
    for name in sorted(workload.axes.keys() - definition.axes.keys() - mentioned)[:_SHOWN]:
        notes.add(item, f"axes.{name}", "is not an axis of the definition; it is ignored", at=["axes", name])
    for name in sorted(workload.inputs.keys() - definition.inputs.keys())[:_SHOWN]:
        notes.add(item, f"inputs.{name}", "is not an input of the definition; it is ignored", at=["inputs", name])


def _sources(
    item: Item, workload: Workload, definition: Definition
) -> tuple[list[ProblemError], dict[str, InputSource]]:
    """The workload's sources without those of no input; an input without one is made like its neighbours."""
    unknown = sorted(workload.inputs.keys() - definition.inputs.keys())
    kept: dict[str, InputSource] = {n: s for n, s in workload.inputs.items() if n in definition.inputs}
    missing = [name for name in definition.inputs if name not in kept]
    if unknown and missing:
        are = "is not an input" if len(unknown) == 1 else "are no inputs"
        lacks = f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing"
        message = f"{', '.join(unknown)} {are} of the definition, and {lacks}"
        return [item.error("inputs", message, at=["inputs"])], kept
    custom = definition.custom_inputs_entrypoint and any(_is_custom(source) for source in kept.values())
    for name in missing:
        kept[name] = CustomInput(type="custom") if custom else RandomInput(type="random")
    return [], kept


def _is_custom(source: InputSource) -> bool:
    return isinstance(source, CustomInput)


def _faults(
    item: Item, definition: Definition, workload: Workload, sources: Mapping[str, InputSource]
) -> Iterator[ProblemError]:
    values: dict[str, int] | None = None
    try:
        values = definition.axis_values(workload.axes)
    except ExpressionError as error:
        yield item.error("axes", str(error), at=["axes"])
    else:
        yield from _faults_of_shapes(item, definition, values)
    yield from _faults_of_sources(item, definition, sources, values)


def _faults_of_shapes(item: Item, definition: Definition, values: Mapping[str, int]) -> Iterator[ProblemError]:
    for side, specs in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        for name, spec in specs.items():
            try:
                definition.shape(spec, values)
            except ExpressionError as error:
                yield item.error(f"axes (for {side}.{name}.shape)", str(error), at=["axes"])


def _faults_of_sources(
    item: Item, definition: Definition, sources: Mapping[str, InputSource], values: Mapping[str, int] | None
) -> Iterator[ProblemError]:
    for name, source in sources.items():
        spec, at = definition.inputs[name], ["inputs", name]
        if isinstance(source, SafetensorsInput) and spec.is_scalar:
            yield item.error(f"inputs.{name}", "is a scalar, so its source cannot be a file", at=at)
        if isinstance(source, RandomInput) and values is not None:
            yield from _faults_of_limits(item, name, source, values)
        if isinstance(source, CustomInput) and definition.custom_inputs_entrypoint is None:
            message = "is custom, but the definition has no custom_inputs_entrypoint"
            yield item.error(f"inputs.{name}", message, at=at)


def _faults_of_limits(
    item: Item, name: str, source: RandomInput, values: Mapping[str, int]
) -> Iterator[ProblemError]:
    for side, limit in (("low", source.low), ("high", source.high)):
        try:
            if isinstance(limit, str):
                expressions.evaluate(limit, values)
        except ExpressionError as error:
            yield item.error(f"inputs.{name}.{side}", str(error), at=["inputs", name, side])

"""Whether the members of a definition fit each other: names, and the axes that shapes and expressions use.

On plain values, so that what of a definition is well-formed can be looked at while another part of it is not.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentcore.problems import expressions
from agentcore.problems.errors import MAX_SHOWN_LINES, ExpressionError

Fault = tuple[tuple[str | int, ...], str]
"""The steps to a member of the definition, and what is wrong with it."""

_SIDES = ("inputs", "outputs")
_SHOWN_AXES = 16


def find_faults(
    axes: Mapping[str, str | None], shapes: Mapping[tuple[str, str], Sequence[int | str]]
) -> list[Fault]:
    """What does not fit, the first few. ``axes``: name → expression, where it has one; ``shapes``: (side, name) →
    entries.
    """
    return list(itertools.islice(_faults(axes, shapes), MAX_SHOWN_LINES))


def _faults(
    axes: Mapping[str, str | None], shapes: Mapping[tuple[str, str], Sequence[int | str]]
) -> Iterator[Fault]:
    inputs = {name for side, name in shapes if side == "inputs"}
    for side, name in shapes:
        if side == "outputs" and name in inputs:
            yield (side, name), f"{name} is both an input and an output; give the output another name"
        if name in axes:
            yield (side, name), f"{name} is both an axis and a parameter"
    yield from _faults_of_expressions(axes)
    for (side, name), entries in shapes.items():
        for position, entry in enumerate(entries):
            message = _fault_of_entry(entry, axes) if isinstance(entry, str) else ""
            if message:
                yield (side, name, "shape", position), message


def raw_faults(stated: Any) -> list[Fault]:
    """The same of a definition as its file states it, passing over what is malformed there."""
    if not isinstance(stated, dict) or not isinstance(stated.get("axes"), dict | None):
        return []
    axes = {name: _expression(axis) for name, axis in (stated.get("axes") or {}).items()}
    shapes: dict[tuple[str, str], Sequence[int | str]] = {}
    for side in _SIDES:
        specs = stated.get(side)
        for name, spec in specs.items() if isinstance(specs, dict) else ():
            shape = spec.get("shape") if isinstance(spec, dict) else None
            entries = shape if isinstance(shape, list) else []
            shapes[side, name] = [entry if isinstance(entry, str) else 0 for entry in entries]
    return find_faults(axes, shapes)


def order(needs: Mapping[str, frozenset[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Expression axes so that each comes after those it uses, or else those that define each other."""
    # Sorted, since the order of a set differs from process to process.
    graph = {name: sorted(used & needs.keys()) for name, used in needs.items()}
    try:
        return tuple(graphlib.TopologicalSorter(graph).static_order()), ()
    except graphlib.CycleError as error:
        return (), tuple(sorted(set(error.args[1])))


def _expression(axis: Any) -> str | None:
    expression = axis.get("expression") if isinstance(axis, dict) and axis.get("type") in ("expr", None) else None
    return expression if isinstance(expression, str) else None


def _faults_of_expressions(axes: Mapping[str, str | None]) -> Iterator[Fault]:
    needs: dict[str, frozenset[str]] = {}
    for axis, expression in axes.items():
        if expression is None:
            continue
        message = _fault_of_entry(expression, axes)
        if message:
            yield ("axes", axis, "expression"), message
        else:
            needs[axis] = expressions.names(expression)
    _, circular = order(needs)
    if circular:
        yield ("axes", circular[0], "expression"), f"axes {', '.join(circular)} are defined by each other"


def _fault_of_entry(entry: str, axes: Mapping[str, str | None]) -> str:
    try:
        unknown = expressions.names(entry) - axes.keys()
    except ExpressionError as error:
        return str(error)
    if not unknown:
        return ""
    verb = "is not an axis" if len(unknown) == 1 else "are no axes"
    known = [*list(axes)[:_SHOWN_AXES], *(["…"] if len(axes) > _SHOWN_AXES else [])]
    return f"{', '.join(sorted(unknown))} {verb} (axes: {', '.join(known) or 'none'})"

"""A canonical text for a region, so that the same computation on the same shapes is recognised wherever it stands.

Independent of names, of the order in which operators were traced (but for that of the results), and of what the export
called its symbols. Two regions with one text compute the same function of inputs in the same order: a missed merge is
possible, a wrong one is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from agentcore.extract.export import Leaf, size_of
from agentcore.extract.operators import is_size, is_tensor
from agentcore.extract.partition import Region
from agentcore.extract.shapes import Axes, tensor_sizes

_PLACEMENT = ("device", "pin_memory", "layout")
"""Keyword arguments that say where a result lives, not what it is."""


@dataclass(frozen=True, slots=True)
class CanonicalRegion:
    """A region with its inputs and outputs in canonical order, its axes, and the digest of its text."""

    region: Region
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    axes: Axes
    digest: str


def canonical(region: Region, leaves: dict[Node, Leaf]) -> CanonicalRegion:
    """Raises UnsupportedRegion where a size cannot be told from the inputs."""
    inside = set(region.nodes)
    outputs = list(region.outputs)
    inputs: list[Node] = []
    order: list[Node] = []
    _visit(outputs, inside, inputs, order)
    axes = Axes(inputs)
    number = {node: f"i{i}" for i, node in enumerate(inputs)} | {node: f"n{i}" for i, node in enumerate(order)}

    def write(node: Node) -> str:
        return str(axes.express(_size(node))) if is_size(node) else number[node]

    lines = [f"{number[n]} {_role(n, leaves)} {_type(n, axes)}" for n in inputs]
    lines += [f"{number[n]} {_operation(n, write)} {_type(n, axes) if is_tensor(n) else ''}" for n in order]
    lines.append(f"return {' '.join(number[n] for n in outputs)}")
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return CanonicalRegion(region, tuple(inputs), tuple(outputs), axes, digest)


def _visit(outputs: list[Node], inside: set[Node], inputs: list[Node], order: list[Node]) -> None:
    """Depth first from the outputs, arguments left to right, without recursion (regions are small, graphs are not)."""
    seen: set[Node] = set()
    for output in outputs:
        waiting: list[tuple[Node, bool]] = [(output, False)]
        while waiting:
            node, done = waiting.pop()
            if done:
                order.append(node)
                continue
            if node in seen or is_size(node):
                continue
            seen.add(node)
            if node not in inside:
                inputs.append(node)
                continue
            waiting.append((node, True))
            waiting += [(source, False) for source in reversed(node.all_input_nodes)]


def _operation(node: Node, write: Callable[[Node], str]) -> str:
    kwargs = {k: v for k, v in node.kwargs.items() if k not in _PLACEMENT}
    return f"{node.target} {_value(node.args, write)} {_value(kwargs, write)}"


def _value(value: Any, write: Callable[[Node], str]) -> str:
    if isinstance(value, Node):
        return write(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(v, write) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={_value(v, write)}" for k, v in sorted(value.items())) + "}"
    return "device" if isinstance(value, torch.device) else repr(value)


def _type(node: Node, axes: Axes) -> str:
    return f"{node.meta['val'].dtype} {[axes.express(size) for size in tensor_sizes(node)]}"


def _role(node: Node, leaves: dict[Node, Leaf]) -> str:
    """Weights stay apart from activations: their random content differs."""
    leaf = leaves.get(node)
    return "activation" if leaf is None or leaf.kind == "argument" else leaf.kind


def _size(node: Node) -> Any:
    value = node.meta["val"]
    return size_of(value) if isinstance(value, int | torch.SymInt) else value

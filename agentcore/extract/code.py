"""The ``reference.py`` of a region: ``run(...)`` as PyTorch code a person can read, one statement per step."""

from __future__ import annotations

import ast
import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from agentcore.extract.canonical import CanonicalRegion
from agentcore.extract.errors import UnsupportedRegion
from agentcore.extract.export import size_of
from agentcore.extract.operators import is_element, is_size, operator_name
from agentcore.extract.shapes import unique
from agentcore.extract.spelling import SPELLERS, SUM, Arguments, Text

_LINE = 116
_INLINE = 72
_NEVER_INLINE = frozenset(["linear", "matmul", "mm", "bmm", "addmm", "scaled_dot_product_attention", "cat"])
_MAKERS = frozenset(["arange", "full", "zeros", "ones", "scalar_tensor", "eye", "linspace"])
"""Operators that ``torch`` has under the same name with the same arguments."""
_PLACES = ("device", "pin_memory", "layout")


def reference_source(
    found: CanonicalRegion,
    names: Mapping[Node, str],
    axis_names: Mapping[str, str],
    docstring: str,
    extra: str = "",
) -> str:
    """The module's text. ``names`` has every input and output and hints for the rest; ``extra`` is code before run.

    Raises UnsupportedRegion where the region holds something that cannot be written down.
    """
    writer = _Writer(found, names, axis_names)
    body = writer.statements()
    returned = [names[node] for node in found.outputs]
    parameters = [f"{names[node]}: torch.Tensor" for node in found.inputs]
    result = "torch.Tensor" if len(returned) == 1 else f"tuple[{', '.join(['torch.Tensor'] * len(returned))}]"
    head = f"def run({', '.join(parameters)}) -> {result}:"
    if len(head) > _LINE:
        head = "def run(\n" + "".join(f"    {p},\n" for p in parameters) + f") -> {result}:"
    text = "\n".join([head, *(f"    {line}" for line in (*writer.preamble(), *body, f"return {', '.join(returned)}"))])
    functional = "import torch.nn.functional as F\n" if "F." in text else ""
    extra = f"{extra}\n\n\n" if extra else ""
    return f'"""{docstring}"""\n\nimport torch\n{functional}\n\n{extra}@torch.no_grad()\n{text}\n'


class _Writer:
    def __init__(self, found: CanonicalRegion, names: Mapping[Node, str], axis_names: Mapping[str, str]) -> None:
        self._found = found
        self._inside = set(found.region.nodes)
        self._axis_names = axis_names
        self._hints = names
        self._used_names = {names[node] for node in (*found.inputs, *found.outputs)} | set(axis_names.values())
        self._used_axes: set[str] = set()
        self._written: dict[Node, Text] = {node: Text(names[node]) for node in found.inputs}
        # A node may read one tensor twice, which all_input_nodes counts once.
        self._reads = Counter(source for node in found.region.nodes for source in _occurrences(node.args, node.kwargs))

    def statements(self) -> list[str]:
        lines: list[str] = []
        for node in self._found.region.nodes:
            if is_element(node) and node in self._written:
                continue
            text = self._spell(node)
            if self._is_split(node):
                lines += self._unpack(node, text)
            elif self._inlined(node, text):
                self._written[node] = text
            else:
                name = self._name(node)
                lines += _wrapped(f"{name} = {text.text}")
                self._written[node] = Text(name)
        return lines

    def preamble(self) -> list[str]:
        """Where the axes that the statements use are read from."""
        by_input: dict[int, list[tuple[int, str]]] = {}
        for axis, (position, dim) in self._found.axes.place.items():
            if axis in self._used_axes:
                by_input.setdefault(position, []).append((dim, self._axis_names[axis]))
        lines = []
        for position, axes in by_input.items():
            source = self._hints[self._found.inputs[position]]
            targets = ", ".join(name for _, name in axes)
            lines.append(f"{targets} = {', '.join(f'{source}.shape[{dim}]' for dim, _ in axes)}")
        return lines

    def _is_split(self, node: Node) -> bool:
        """Whether only elements of this node are read, so that one statement can unpack them."""
        return isinstance(node.meta.get("val"), tuple | list) and all(is_element(user) for user in node.users)

    def _unpack(self, node: Node, text: Text) -> list[str]:
        count = len(node.meta["val"])
        elements = {int(str(user.args[1])): user for user in node.users if user in self._inside}
        targets = []
        for index in range(count):
            if index not in elements:
                targets.append("_")
                continue
            targets.append(self._name(elements[index]))
            self._written[elements[index]] = Text(targets[-1])
        return _wrapped(f"{', '.join(targets)}{',' if count == 1 else ''} = {text.text}")

    def _inlined(self, node: Node, text: Text) -> bool:
        if node in self._found.outputs or self._reads[node] != 1:
            return False
        return len(text.text) <= _INLINE and operator_name(node) not in _NEVER_INLINE

    def _name(self, node: Node) -> str:
        if node in self._found.outputs:
            return self._hints[node]
        name = unique(self._hints[node], self._used_names)
        self._used_names.add(name)
        return name

    def _spell(self, node: Node) -> Text:
        if is_element(node):
            source = node.args[0]
            assert isinstance(source, Node)
            return Text(f"{self._written[source].text}[{node.args[1]}]")
        target = node.target
        assert isinstance(target, torch._ops.OpOverload)
        raw, default = _bound(target, node)
        key = str(target).removeprefix("aten.")
        speller = SPELLERS.get(key)
        if speller is not None:
            spelled = speller(Arguments(raw, {name: self._text(value) for name, value in raw.items()}, default))
            if spelled is not None:
                return spelled
        return self._by_aten_name(target, node)

    def _by_aten_name(self, target: torch._ops.OpOverload, node: Node) -> Text:
        arguments = [self._text(value).text for value in node.args]
        for name, value in node.kwargs.items():
            if name == "device":
                if not self._found.inputs:
                    raise UnsupportedRegion("it reads no tensor, so that its result is a constant")
                arguments.append(f"device={self._hints[self._found.inputs[0]]}.device")
            elif name not in _PLACES:
                arguments.append(f"{name}={self._text(value).text}")
        name = operator_name(node)
        function = f"torch.{name}" if name in _MAKERS else f"torch.ops.aten.{name}.{target._overloadname}"
        return Text(f"{function}({', '.join(arguments)})")

    def _text(self, value: Any) -> Text:
        if isinstance(value, Node):
            return self._size(value) if is_size(value) else self._written[value]
        if isinstance(value, tuple | list):
            inside = ", ".join(self._text(v).text for v in value)
            return Text(f"({inside},)" if len(value) == 1 else f"({inside})")
        if isinstance(value, str):
            return Text(json.dumps(value))
        if isinstance(value, bool | int | None):
            return Text(repr(value), SUM if isinstance(value, int) and value < 0 else 10)
        if isinstance(value, float):
            special = math.isinf(value) or math.isnan(value)
            return Text(f'float("{value}")' if special else repr(value), SUM if value < 0 and not special else 10)
        if isinstance(value, torch.dtype | torch.memory_format):
            return Text(str(value))
        raise UnsupportedRegion(f"an argument of type {type(value).__name__} cannot be written down")

    def _size(self, node: Node) -> Text:
        value = node.meta["val"]
        if not isinstance(value, int | torch.SymInt):
            if isinstance(value, float):
                return self._text(value)
            raise UnsupportedRegion(f"a number that depends on sizes ({node.target}) cannot be written down")
        expressed = self._found.axes.express(size_of(value))
        if isinstance(expressed, int):
            return Text(str(expressed))
        return self._axes_named(expressed)

    def _axes_named(self, expression: str) -> Text:
        tree = ast.parse(expression, mode="eval")
        for part in ast.walk(tree):
            if isinstance(part, ast.Name) and part.id in self._axis_names:
                self._used_axes.add(part.id)
                part.id = self._axis_names[part.id]
        return Text(ast.unparse(tree), 10 if isinstance(tree.body, ast.Name) else 0)


def _bound(target: torch._ops.OpOverload, node: Node) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments and defaults by schema name, without those that only place the result."""
    schema = target._schema
    raw = {a.name: v for a, v in zip(schema.arguments, node.args, strict=False)} | dict(node.kwargs)
    default = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return {k: v for k, v in raw.items() if k not in _PLACES}, default


def _occurrences(*values: Any) -> list[Node]:
    found: list[Node] = []
    for value in values:
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple | list):
            found += _occurrences(*value)
        elif isinstance(value, dict):
            found += _occurrences(*value.values())
    return found


def _wrapped(line: str) -> list[str]:
    """``name = call(a, b)`` over several lines where it is too long for one, cut at the outermost commas."""
    start = line.find("(")
    if len(line) <= _LINE or start < 0 or not line.endswith(")"):
        return [line]
    parts, depth, current = [], 0, ""
    for character in line[start + 1 : -1]:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return [line]  # the first parenthesis is not the last one's partner
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    parts.append(current.strip())
    return [line[: start + 1], *(f"    {part}," for part in parts if part), ")"]

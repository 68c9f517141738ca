"""A model and its example calls as one graph of core ATen operators, with symbols for the sizes that differ.

Compound operators that PyTorch spells as one function (linear, attention, the norms, convolutions, SiLU) are kept
whole: a reference made of them is readable, and rounds where the model rounds.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_map

from agentcore.extract.errors import ExtractError
from agentcore.extract.source import Call, Examples, own_frame

KEPT_WHOLE = (
    "linear", "matmul", "scaled_dot_product_attention", "rms_norm", "layer_norm", "group_norm", "silu", "gelu",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "softplus", "hardswish", "hardsigmoid",
    "mish", "glu", "pixel_shuffle",
)
MAX_OPERATORS = 20_000
_ZERO_ONE = re.compile(r"(>= 2|!= [01])$")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A placeholder of the graph: where its tensor is from (``parameter``, ``buffer``, ``constant``, ``argument``)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Exported:
    """One graph, the calls it serves, and per call the value of each symbol in its shapes."""

    program: ExportedProgram
    graph: torch.fx.GraphModule
    leaves: dict[torch.fx.Node, Leaf]
    calls: tuple[tuple[int, Call], ...]
    bindings: tuple[dict[sympy.Symbol, int], ...]
    symbol_names: dict[sympy.Symbol, str]

    def feeds(self, call: Call) -> list[Any]:
        """What to pass to ``graph``'s placeholders, in order, for ``call``."""
        arguments = iter(call.leaves)
        values: list[Any] = []
        for spec in self.program.graph_signature.input_specs:
            if spec.kind == InputKind.USER_INPUT:
                values.append(next(arguments))
            elif spec.target in self.program.state_dict:
                values.append(self.program.state_dict[spec.target])
            else:
                values.append(self.program.constants[str(spec.target)])
        return values

    @property
    def result_positions(self) -> list[int]:
        """Which of the graph's outputs the model returns; the rest are its updated buffers."""
        specs = self.program.graph_signature.output_specs
        return [i for i, spec in enumerate(specs) if spec.kind == OutputKind.USER_OUTPUT]


def export(model: torch.nn.Module, examples: Examples, notes: list[str]) -> list[Exported]:
    """The graph of ``model`` for all calls, or several: one for each way that calls take through the model, and one per
    shape where the model fixes a size that differs.

    Raises ExtractError with torch's own reason and the line of the model it points at. ``notes`` gains what the
    operator should know.
    """
    return _export_calls(model, examples, tuple(enumerate(examples.calls)), notes)


Numbered = tuple[tuple[int, Call], ...]


def _export_calls(model: torch.nn.Module, examples: Examples, calls: Numbered, notes: list[str]) -> list[Exported]:
    differing = _differing([call for _, call in calls])
    traced = max((call for _, call in calls), key=lambda call: call.tensor_elements)
    if not any(differing):
        return [_finish(_torch_export(model, traced, None), examples, calls)]
    try:
        program = _torch_export(model, traced, differing)
        refusals = _refusals(program, calls)
        served = tuple((number, call) for number, call in calls if not refusals[number])
        exported = _finish(program, examples, served)
        fixed = _fixed_sizes(exported, differing)
    except ExtractError as error:
        # Whether the open sizes are to blame shows when they are fixed: that raises what is left.
        notes.append(f"exported once per shape, because with open sizes it fails: {error}")
        return _export_by_shape(model, examples, calls)
    if fixed or not served:
        notes.append(f"exported once per shape, because the model fixes {fixed or 'its sizes'}")
        return _export_by_shape(model, examples, calls)
    others = tuple((number, call) for number, call in calls if refusals[number])
    if not others:
        return [exported]
    notes.extend(f"example {n} takes another way through the model: {refusals[n]}" for n, _ in others)
    return [exported, *_export_calls(model, examples, others, notes)]


def _export_by_shape(model: torch.nn.Module, examples: Examples, calls: Numbered) -> list[Exported]:
    by_shape: dict[tuple[Any, ...], list[tuple[int, Call]]] = {}
    for number, call in calls:
        key = tuple(tuple(leaf.shape) for leaf in call.leaves if isinstance(leaf, torch.Tensor))
        by_shape.setdefault(key, []).append((number, call))
    return [_finish(_torch_export(model, same[0][1], None), examples, tuple(same)) for same in by_shape.values()]


def _refusals(program: ExportedProgram, calls: Numbered) -> dict[int, str]:
    """Per call, which condition of the exported way through the model it does not meet; empty where it meets all.

    torch takes sizes of 0 and 1 for special even where the model does not. Those conditions are passed over: running
    the graph beside the model shows whether it holds there.
    """
    with _quiet():
        guards = getattr(program.module(), "_guards_fn", None)
    refusals = {number: "" for number, _ in calls}
    if guards is None:
        return refusals
    for number, call in calls:
        try:
            guards(*call.leaves)
        except AssertionError as error:
            message = _reason(error)
            refusals[number] = "" if _ZERO_ONE.search(message) else message
    return refusals


def _differing(calls: Sequence[Call]) -> list[set[int]]:
    """Per leaf, the dimensions whose sizes are not the same in all calls."""
    result: list[set[int]] = []
    for leaves in zip(*(call.leaves for call in calls), strict=True):
        if isinstance(leaves[0], torch.Tensor):
            result.append({d for d in range(leaves[0].dim()) if len({leaf.shape[d] for leaf in leaves}) > 1})
        else:
            result.append(set())
    return result


def _torch_export(model: torch.nn.Module, call: Call, differing: list[set[int]] | None) -> ExportedProgram:
    shapes: Any = None
    if differing is not None:
        # Leaves that are no tensor cannot carry sizes; torch wants None there.
        sizes = iter(differing)
        shapes = tree_map(lambda leaf: {d: Dim.AUTO for d in next(sizes)} or None, call.arguments)  # noqa: C420
    try:
        with torch.no_grad(), _quiet():
            program: ExportedProgram = torch.export.export(model, (), call.arguments, dynamic_shapes=shapes)
            program = program.run_decompositions(_decompositions())
    except Exception as error:
        raise ExtractError(
            f"torch.export refuses the model: {type(error).__name__}: {_reason(error)}{_place(error)}"
        ) from error
    operators = sum(node.op == "call_function" for node in program.graph.nodes)
    if operators > MAX_OPERATORS:
        raise ExtractError(
            f"the model has {operators} operators, more than {MAX_OPERATORS}; extract a few of its layers instead"
        )
    return program


def _decompositions() -> Any:
    table: Any = torch.export.default_decompositions()
    for name in KEPT_WHOLE:
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            table.pop(getattr(packet, overload), None)
    return table


def _finish(program: ExportedProgram, examples: Examples, calls: Numbered) -> Exported:
    graph = program.graph_module
    for node in list(graph.graph.nodes):
        # Checks of what export assumed; they compute nothing.
        if node.op == "call_function" and not node.users and "assert" in str(node.target):
            graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    kinds = {
        InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant",
        InputKind.USER_INPUT: "argument",
    }
    leaves: dict[torch.fx.Node, Leaf] = {}
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    arguments: list[torch.fx.Node] = []
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind not in kinds:
            raise ExtractError(f"the model takes a {spec.kind} as input, which a problem cannot hold")
        leaves[node] = Leaf(kinds[spec.kind], str(spec.target or node.name))
        if spec.kind == InputKind.USER_INPUT:
            arguments.append(node)
    names: dict[sympy.Symbol, str] = {}
    bindings = tuple(_bind(arguments, call, f"example {index}") for index, call in calls)
    places = [(node.name, position, size) for node in arguments for position, size in enumerate(_sizes(node))]
    # A name that the operator gave comes before one made here, whichever argument it was given for.
    for argument, position, size in sorted(places, key=lambda p: p[1] not in examples.axes.get(p[0], {})):
        if isinstance(size, sympy.Symbol) and size not in names:
            names[size] = examples.axes.get(argument, {}).get(position) or f"{argument}_dim{position}"
    return Exported(program, graph, leaves, calls, bindings, names)


def _bind(arguments: list[torch.fx.Node], call: Call, where: str) -> dict[sympy.Symbol, int]:
    known: dict[sympy.Symbol, int] = {}
    derived: list[tuple[str, sympy.Expr, int]] = []
    for node, leaf in zip(arguments, call.leaves, strict=True):
        if not isinstance(leaf, torch.Tensor):
            continue
        for position, (size, actual) in enumerate(zip(_sizes(node), leaf.shape, strict=True)):
            place = f"{where}: {node.name}, dimension {position}"
            if isinstance(size, sympy.Symbol):
                if known.setdefault(size, actual) != actual:
                    raise ExtractError(f"{place} is {actual}, but the model needs {known[size]}")
            else:
                derived.append((place, sympy.sympify(size), actual))
    for place, expression, actual in derived:
        if expression.subs(known) != actual:
            raise ExtractError(f"{place} is {actual}, but the model needs {expression.subs(known)}")
    return known


def _fixed_sizes(exported: Exported, differing: list[set[int]]) -> str:
    arguments = [node for node, leaf in exported.leaves.items() if leaf.kind == "argument"]
    fixed = [
        f"dimension {d} of {node.name} at {_sizes(node)[d]}"
        for node, dims in zip(arguments, differing, strict=True)
        for d in sorted(dims)
        if isinstance(_sizes(node)[d], int)
    ]
    return ", ".join(fixed)


def _sizes(node: torch.fx.Node) -> list[int | sympy.Expr]:
    value = node.meta.get("val")
    return [size_of(size) for size in value.shape] if isinstance(value, torch.Tensor) else []


def size_of(size: int | torch.SymInt) -> int | sympy.Expr:
    """A size as an int, or as the expression over the export's symbols that it is."""
    if isinstance(size, torch.SymInt):
        expression = size.node.expr
        return int(expression) if expression.is_Integer else expression
    return int(size)


def _reason(error: BaseException) -> str:
    """torch's reason without its advice on how to debug torch."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return " ".join(lines[:3])[:600] or "no reason given"


def _place(error: BaseException) -> str:
    seen: BaseException | None = error
    while seen is not None:
        stack = getattr(seen, "real_stack", None)
        if stack:
            frame = stack[-1]
            return f" (at {frame.filename}:{frame.lineno}: {(frame.line or '').strip()[:120]})"
        place = own_frame(seen)
        if place:
            return place
        seen = seen.__cause__ or seen.__context__
    return ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own log of a failed export and its warnings about itself."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)

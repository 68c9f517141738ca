"""What is to be known of each torch operator to follow it: how it writes, whether it selects, moves or casts values.

The tables are by the operator's name without its trailing underscore.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from agentcore.bounds import gathers as gathers  # registers its rules
from agentcore.bounds import masks, rules
from agentcore.bounds.values import Call, Value

SAME_VALUES = frozenset(
    [
        "_to_copy", "clone", "copy", "contiguous", "_unsafe_view", "_reshape_alias", "view_copy",
        "neg", "abs", "mul", "div", "relu", "cat", "stack", "where", "masked_fill", "index", "index_select", "gather",
        "embedding", "repeat", "repeat_interleave", "flip", "roll", "constant_pad_nd", "tril", "triu", "clamp",
        "clamp_min", "clamp_max", "maximum", "minimum", "sort", "topk", "max", "min", "slice_scatter", "select_scatter",
        "index_put", "scatter", "take",
    ]
)  # fmt: skip
"""Operations that select, move, cast or scale values: a kernel can do the product first, at the source's width."""

ROUTING = frozenset(
    ["topk", "argmax", "argmin", "sort", "argsort", "searchsorted", "bucketize", "max", "min", "median"]
)
"""Operations whose integer results say where to read or what to skip, decided by float content."""

CONSTANTS = {"zeros": 0, "ones": 1, "empty": 0, "zeros_like": 0, "ones_like": 1, "empty_like": 0, "new_zeros": 0,
              "new_ones": 1, "new_empty": 0, "empty_strided": 0, "new_empty_strided": 0, "full": None,
              "full_like": None, "new_full": None}  # fmt: skip
_KEEPS_ROUTED = frozenset(
    ["index_put", "scatter", "scatter_add", "index_fill", "index_add", "index_copy", "sum", "any", "all", "amax",
     "cumsum", "max", "cat", "stack", "_unsafe_view", "one_hot", "repeat"]
)  # fmt: skip
_PLAIN = frozenset(
    ["add", "sub", "mul", "div", "exp", "exp2", "log", "cos", "sin", "tanh", "sigmoid", "neg", "abs", "sqrt", "rsqrt",
     "relu", "silu", "gelu", "maximum", "minimum", "reciprocal", "erf", "rsub", "softplus", "pow"]
)  # fmt: skip
AS_QUICK = {torch.ops.aten.mean.dim: torch.ops.aten.sum.dim_IntList}
"""Operators with another one that takes the same arguments, gives the same geometry, and needs no compiler for it."""

LINEAR = frozenset(
    ["_to_copy", "clone", "copy", "contiguous", "_unsafe_view", "mul", "div", "neg", "add", "sub", "rsub", "where",
     "masked_fill", "tril", "triu", "cat", "stack", "sum", "mean", "cumsum", "constant_pad_nd", "flip", "index_select"]
)  # fmt: skip
"""Operations that are linear in a product that reaches them (masked_fill and where: for what they keep)."""

KEEPS = frozenset(["index_put", "_index_put_impl", "index_copy", "index_fill", "scatter"])
"""Writes that leave every element as it was that they do not replace."""

SHAPED_BY_CONTENT = frozenset(
    ["nonzero", "unique", "_unique2", "masked_select", "unique_consecutive", "unique_dim", "bincount"]
)
REAL_BYTES = 1 << 28
VISIBLE = 1 << 20
SAMPLED = 1 << 26
"""Elements of an input that are drawn where routing follows from them."""
_INDICES = 1 << 25


@dataclass(slots=True)
class Operation:
    """What is to be known of one operator overload, looked up once."""

    name: str
    is_view: bool
    in_place_view: bool
    writes: tuple[tuple[int, str], ...]
    composite: bool
    decomposition: Any
    rule: rules.Rule
    random: bool
    pointwise: bool


_operations: dict[Any, Operation] = {}


def is_routed(operation: Operation, call: Call, operands: list[Value]) -> bool:
    """Whether a result is made from indices that float content decides."""
    if operation.name in ROUTING and not call.out.dtype.is_floating_point and call.out.dtype != torch.bool:
        return True
    if operation.pointwise or operation.name in _KEEPS_ROUTED:
        return any(o.routed for o in operands)
    return False


def described(func: Any) -> Operation:
    """What is to be known of one operator overload, looked up once."""
    return _operations.get(func) or _describe(func)


def _describe(func: Any) -> Operation:
    schema = func._schema
    base = schema.name.partition("::")[2]
    writes = tuple(
        (i, a.name) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    )
    in_place_view = torch.Tag.inplace_view in func.tags
    name = base.rstrip("_") if writes and base.endswith("_") and not base.startswith("__") else base
    aliases = any(r.alias_info is not None for r in schema.returns)
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    pointwise = torch.Tag.pointwise in func.tags or name in ("_to_copy", "clone", "contiguous", "bernoulli")
    found = rules.RULES.get(name)
    decomposition = None
    if found is None and not pointwise and not writes and not aliases and func._overloadpacket not in flop_registry:
        decomposition = torch._decomp.decomposition_table.get(func)
    made = Operation(
        name=name, is_view=aliases and not writes, in_place_view=in_place_view, writes=writes,
        composite=composite and func._overloadpacket not in flop_registry, decomposition=decomposition,
        rule=found or (rules.pointwise if pointwise else rules.all_or_nothing),
        random=torch.Tag.nondeterministic_seeded in func.tags, pointwise=pointwise,
    )  # fmt: skip
    _operations[func] = made
    return made


def out_of_place(func: Any) -> Any:
    """The operator that returns what ``func`` makes of its first argument in place."""
    packet = getattr(torch.ops.aten, func._schema.name.partition("::")[2].rstrip("_"))
    return getattr(packet, func._overloadname)


def bare(tensor: torch.Tensor) -> torch.Tensor:
    """The same geometry without content."""
    if tensor.is_meta:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def replaced(value: Any, contents: Any) -> Any:
    """``value`` with each tensor replaced by the next of ``contents``, in the order of ``Call.tensors``."""
    if isinstance(value, torch.Tensor):
        return next(contents)
    if isinstance(value, tuple):
        return tuple(replaced(item, contents) for item in value)
    if isinstance(value, list):
        return [replaced(item, contents) for item in value]
    if isinstance(value, dict):
        return {key: replaced(item, contents) for key, item in value.items()}
    return value


def same_geometry(call: Call) -> torch.Tensor | None:
    """The result of plain arithmetic on floats of one dtype, or of a cast, without asking torch.

    torch may take a while: the first time, a second in which it imports its compiler. Only where every operand lies in
    the order of its dimensions, gaps allowed except in a cast: then the result is contiguous.
    """
    if call.name == "_to_copy" and call.kwargs.keys() <= {"dtype", "device"} and call.args[0].is_contiguous():
        given = call.args[0]
        dtype = call.kwargs.get("dtype") or given.dtype
        return torch.empty_strided(given.shape, given.stride(), dtype=dtype, device="meta")
    if call.name not in _PLAIN or call.kwargs:
        return None
    tensors = call.tensors
    dtype = tensors[0].dtype
    if not dtype.is_floating_point or any(t.dtype != dtype or not _in_order(t) for t in tensors):
        return None
    return torch.empty(masks.broadcast(*(t.shape for t in tensors)), dtype=dtype, device="meta")


def _in_order(tensor: torch.Tensor) -> bool:
    """Whether no dimension's stride is less than that of a dimension after it; those of stride 0 have no say."""
    if tensor.is_contiguous():
        return True
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and stride]
    return all(before > after for before, after in itertools.pairwise(strides))


def is_four_bits(call: Call) -> bool:
    """Whether the integers that result are codes of four bits (an unpacked half byte, one of sixteen buckets)."""
    if call.out.dtype.is_floating_point or call.out.dtype == torch.bool:
        return False
    numbers = [a for a in call.args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    if call.name in ("bitwise_and", "__and__", "remainder"):
        return bool(numbers) and numbers[0] <= 16
    if call.name in ("bitwise_right_shift", "__rshift__", "floor_divide"):
        return call.args[0].dtype.itemsize == 1 and bool(numbers) and numbers[0] >= 4
    if call.name == "bucketize":
        return isinstance(call.args[1], torch.Tensor) and call.args[1].numel() <= 16
    return call.name == "searchsorted" and call.args[0].numel() <= 16


def is_random_data(tensor: torch.Tensor, call: Call) -> bool:
    """Random floats, bytes (packed or quantised numbers) and large integers are data; others are indices and masks."""
    if call.name == "randint" and call.argument("high", 3) <= 2:
        return tensor.numel() > REAL_BYTES
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return True
    return tensor.dtype != torch.bool and (tensor.dtype.itemsize == 1 or tensor.numel() > _INDICES)


def filler(call: Call) -> Any:
    """The number that a constant is filled with."""
    value = CONSTANTS[call.name]
    return call.argument("fill_value") if value is None else value


def constant(call: Call) -> torch.Tensor:
    """A constant of any size, as one number."""
    return torch.full((), filler(call), dtype=call.out.dtype).expand(tuple(call.out.shape))

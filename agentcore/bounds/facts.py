"""What is known of a result before any input is: its zeros, and the scores that a softmax will ignore."""

from __future__ import annotations

from typing import Any

import torch

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask
from agentcore.bounds.rules import reduced_dims, triangle_zero
from agentcore.bounds.values import _NEGLIGIBLE, Call, Value

_KEEP = frozenset(["_to_copy", "clone", "copy", "contiguous", "lift_fresh", "expand_as", "real"])
_ZERO_STAYS = frozenset(
    ["neg", "abs", "relu", "sqrt", "sin", "tan", "tanh", "silu", "gelu", "sgn", "sign", "expm1", "trunc", "round",
     "floor", "ceil", "asinh", "atan", "erf", "square", "nan_to_num", "leaky_relu", "bool", "pow"]
)  # fmt: skip


def conclude(call: Call, value: Value) -> None:
    """Set ``zero`` and ``excluded`` of the result of ``call``."""
    name = call.name
    operands = [call.value(t) for t in call.tensors]
    if not operands:
        return
    for operand, tensor in zip(operands, call.tensors, strict=True):
        if tensor.dtype != torch.bool or name in _KEEP or name == "mul":
            operand.learn()
    shape = value.shape
    first = operands[0]
    _maybe(call, value, operands)
    if not any(o.zero is not None or o.excluded is not None for o in operands) and name not in _MAKERS:
        return
    if name in _KEEP:
        source = operands[-1] if name == "copy" else first
        value.zero, value.excluded = _spread(source.zero, shape), _spread(source.excluded, shape)
    elif name in _ZERO_STAYS:
        value.zero = first.zero
        if name == "relu":
            value.zero = masks.union(first.zero, first.excluded)
    elif name in ("exp", "sigmoid", "exp2") or name in ("_softmax", "_safe_softmax"):
        value.zero = first.excluded
    elif name == "_log_softmax":
        value.excluded = first.excluded
    elif name in ("_softmax_backward_data",):
        value.zero = operands[1].zero
    elif name == "mul":
        value.zero = _union_spread([o.zero for o in operands], shape)
        value.excluded = _scaled(call, operands)
    elif name == "div":
        value.zero = _spread(first.zero, shape) if isinstance(call.args[0], torch.Tensor) else None
        value.excluded = _scaled(call, operands)
    elif name in ("add", "sub"):
        value.excluded = _spread(first.excluded, shape)
        if name == "add" and len(operands) > 1:
            value.excluded = masks.union(value.excluded, _spread(operands[1].excluded, shape))
        if len(operands) > 1:
            value.zero = masks.intersection(_spread(first.zero, shape), _spread(operands[1].zero, shape))
    elif name in ("masked_fill", "where"):
        _select(call, value)
    elif name in ("tril", "triu"):
        value.zero = masks.union(first.zero, triangle_zero(name, call.argument("diagonal", 0), shape))
    elif name in ("sum", "mean", "amax", "amin"):
        dims, keep = reduced_dims(call)
        if first.zero is not None and dims:
            value.zero = masks.complement(
                masks.any_along(masks.complement(first.zero, first.shape), dims, keepdim=keep), shape
            )
    elif name in ("cat", "stack") and len(operands) <= 64:
        value.zero = _joined(call, [o.zero for o in operands], shape)
        value.excluded = _joined(call, [o.excluded for o in operands], shape)
    elif name == "_unsafe_view":
        value.zero = None if first.zero is None else masks.reshape_at_least(first.zero, shape)
    elif name in ("mm", "bmm"):
        value.zero = _empty_rows(operands, shape)
    elif name in _MOVES:
        value.zero, value.excluded = _moved(call, first.zero, padding=True), _moved(call, first.excluded)
    elif name == "cumsum" and first.zero is not None and first.zero.numel() <= masks.LIMIT:
        value.zero = first.zero.to(torch.uint8).cummin(call.args[1]).values.bool()


def _maybe(call: Call, value: Value, operands: list[Value]) -> None:
    """What a mask made from content may have done, carried on."""
    name = call.name
    zero, low = any(o.maybe_zero for o in operands), any(o.maybe_excluded for o in operands)
    if name in _KEEP or name in ("masked_fill", "where", "cat", "stack", "mul", "div", "_unsafe_view"):
        value.maybe_zero, value.maybe_excluded = zero, low
    elif name in ("add", "sub"):
        value.maybe_excluded = low
    elif name in _ZERO_STAYS:
        value.maybe_zero = zero
    elif name in ("exp", "exp2", "sigmoid", "_softmax", "_safe_softmax"):
        value.maybe_zero = low
    elif name == "_softmax_backward_data":
        value.maybe_zero = zero


_MOVES = frozenset(["constant_pad_nd", "flip", "roll", "repeat", "index_select"])


def _moved(call: Call, mask: Mask | None, padding: bool = False) -> Mask | None:
    """A mask of the first operand, moved as the operation moves elements; ``padding``: with the zeros around it."""
    if mask is None or max(mask.numel(), call.out.numel()) > masks.LIMIT:
        return None
    args = list(call.args[1:])
    if call.name == "constant_pad_nd":
        return torch.constant_pad_nd(mask, args[0], padding and not (len(args) > 1 and args[1]))
    if call.name == "index_select":
        known = call.value(args[1]).known
        return None if known is None else mask.index_select(args[0], known)
    moved: Mask = call.func(mask, *args, **call.kwargs)
    return moved


def _empty_rows(operands: list[Value], shape: tuple[int, ...]) -> Mask | None:
    """Where a product is zero because the row of the left or the column of the right factor is."""
    zero: Mask | None = None
    for value, dim in zip(operands[:2], (-1, -2), strict=True):
        if value.zero is not None:
            kept = masks.any_along(masks.complement(value.zero, value.shape), [dim], keepdim=True)
            if not masks.is_everything(kept):
                zero = masks.union(zero, masks.complement(kept, kept.shape).expand(shape))
    return zero


_MAKERS = frozenset(["masked_fill", "where", "tril", "triu"])


def _spread(mask: Mask | None, shape: tuple[int, ...]) -> Mask | None:
    return None if mask is None else mask.expand(shape)


def _union_spread(parts: list[Mask | None], shape: tuple[int, ...]) -> Mask | None:
    result: Mask | None = None
    for part in parts:
        result = masks.union(result, _spread(part, shape))
    return result


def _scaled(call: Call, operands: list[Value]) -> Mask | None:
    """A positive factor leaves what is excluded excluded (unless it is minute, which a mask's scale never is)."""
    numbers: list[Any] = [a for a in call.args if isinstance(a, int | float) and not isinstance(a, bool)]
    if len(operands) == 1 and numbers and numbers[0] > 0:
        return _spread(operands[0].excluded, tuple(call.out.shape))
    if len(operands) == 2 and operands[1].known is not None and operands[1].known.numel() == 1:
        factor = float(operands[1].known.item())
        return _spread(operands[0].excluded, tuple(call.out.shape)) if factor > 0 else None
    return None


def _select(call: Call, value: Value) -> None:
    shape = value.shape
    if call.name == "where":
        condition, yes, no = call.args[0], call.args[1], call.args[2]
    else:
        no, condition, yes = call.args[0], call.args[1], call.args[2]
    known = call.value(condition).known
    parts = [_facts_of(call, operand, shape) for operand in (yes, no)]
    if known is None:
        if call.value(condition).routed:
            value.zero = masks.everything(shape) if _is_zero(yes) or _is_zero(no) else None
            value.excluded = masks.everything(shape) if _is_low(yes) or _is_low(no) else None
        else:
            value.zero = masks.intersection(parts[0][0], parts[1][0])
            value.excluded = masks.intersection(parts[0][1], parts[1][1])
            value.maybe_zero |= _is_zero(yes) or _is_zero(no)
            value.maybe_excluded |= _is_low(yes) or _is_low(no)
        return
    chosen = known.bool().clone().expand(shape)
    rest = (~masks.compact(chosen)).expand(shape)
    value.zero = masks.union(masks.intersection(chosen, parts[0][0]), masks.intersection(rest, parts[1][0]))
    value.excluded = masks.union(masks.intersection(chosen, parts[0][1]), masks.intersection(rest, parts[1][1]))


def _facts_of(call: Call, operand: Any, shape: tuple[int, ...]) -> tuple[Mask | None, Mask | None]:
    if isinstance(operand, torch.Tensor):
        value = call.value(operand)
        value.learn()
        return _spread(value.zero, shape), _spread(value.excluded, shape)
    return (
        masks.everything(shape) if _is_zero(operand) else None,
        masks.everything(shape) if _is_low(operand) else None,
    )


def _is_zero(operand: Any) -> bool:
    return isinstance(operand, int | float) and operand == 0


def _is_low(operand: Any) -> bool:
    return isinstance(operand, int | float) and not isinstance(operand, bool) and operand <= _NEGLIGIBLE


def _joined(call: Call, parts: list[Mask | None], shape: tuple[int, ...]) -> Mask | None:
    if all(part is None for part in parts):
        return None
    tensors = call.args[0]
    filled = [
        torch.zeros((), dtype=torch.bool).expand(tuple(t.shape)) if p is None else p
        for t, p in zip(tensors, parts, strict=True)
    ]
    if sum(f.numel() for f in filled) > masks.LIMIT:
        return None
    dim = call.argument("dim", 0)
    return torch.stack(filled, dim) if call.name == "stack" else torch.cat(filled, dim)

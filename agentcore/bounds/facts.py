"""What is known of a result before any input is: its zeros, and the scores that a softmax will ignore."""

from __future__ import annotations

import math
from typing import Any

import torch

from agentcore.bounds import masks
from agentcore.bounds.gathers import written_places
from agentcore.bounds.masks import Mask
from agentcore.bounds.rules import reduced_dims, triangle_zero
from agentcore.bounds.values import _NEGLIGIBLE, SPARSE, Call, Value

_KEEP = frozenset(["_to_copy", "clone", "copy", "contiguous", "lift_fresh", "expand_as", "real"])
_ZERO_STAYS = frozenset(
    ["neg", "abs", "relu", "sqrt", "sin", "tan", "tanh", "silu", "gelu", "sgn", "sign", "expm1", "trunc", "round",
     "floor", "ceil", "asinh", "atan", "erf", "square", "nan_to_num", "leaky_relu", "bool", "pow"]
)  # fmt: skip


def conclude(call: Call, value: Value) -> None:
    """Set ``zero`` and ``excluded`` of the result of ``call``."""
    _conclude(call, value)
    # A mask of no element says nothing, and is carried along in full.
    if value.zero is not None and masks.is_empty(value.zero):
        value.zero = None
    if value.excluded is not None and masks.is_empty(value.excluded):
        value.excluded = None


def _conclude(call: Call, value: Value) -> None:
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
    elif name == "constant_pad_nd":
        filled = call.argument("value", 0)
        value.zero = _padded(call, first.zero, _is_zero(filled))
        value.excluded = _padded(call, first.excluded, _is_low(filled))
    elif name in OVERWRITES:
        value.zero, value.excluded = _left(call, first.zero), _left(call, first.excluded)
        if name == "index_copy":
            value.zero = masks.union(value.zero, _copied_rows(call, operands[-1].zero))
    elif name in _MOVES:
        value.zero, value.excluded = _moved(call, first.zero), _moved(call, first.excluded)
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


_MOVES = frozenset(["flip", "roll", "repeat", "index_select", "embedding", "index", "gather"])


def _moved(call: Call, mask: Mask | None) -> Mask | None:
    """A mask of the first operand, moved as the operation moves elements."""
    if mask is None:
        return None
    args = call.args[1:]
    if call.name == "index_select":
        return _rows(mask, args[0], call.value(args[1]).known)
    if call.name == "embedding":
        return _rows(mask, 0, call.value(args[0]).known)
    if call.name == "index":
        named = [(dim, index) for dim, index in enumerate(args[0]) if index is not None]
        if len(named) != 1 or named[0][1].dtype in (torch.bool, torch.uint8):
            return None
        return _rows(mask, named[0][0], call.value(named[0][1]).known)
    if max(mask.numel(), call.out.numel()) > masks.LIMIT:
        return None
    if call.name == "gather":
        known = call.value(args[1]).known
        return None if known is None else mask.gather(args[0], known)
    moved: Mask = call.func(mask, *args, **call.kwargs)
    return moved


def _rows(mask: Mask, dim: int, index: torch.Tensor | None) -> Mask | None:
    """The rows of ``mask`` along ``dim`` that ``index`` names, in its shape."""
    if index is None:
        return None
    small, dim = masks.compact(mask), dim % mask.dim()
    whole = [*mask.shape[:dim], *index.shape, *mask.shape[dim + 1 :]]
    if small.shape[dim] == 1:
        stored = small.reshape([*small.shape[:dim], *[1] * index.dim(), *small.shape[dim + 1 :]])
        return stored.expand(whole)
    sizes = [*small.shape[:dim], *index.shape, *small.shape[dim + 1 :]]
    if math.prod(sizes) > masks.LIMIT:
        return None
    positions = torch.where(index < 0, index + mask.shape[dim], index).long().reshape(-1)
    return small.index_select(dim, positions).reshape(sizes).expand(whole)


OVERWRITES = frozenset(["index_put", "_index_put_impl", "_unsafe_index_put", "index_copy", "index_add", "scatter",
                        "scatter_add"])  # fmt: skip


def _left(call: Call, mask: Mask | None) -> Mask | None:
    """What is left of a mask of the first operand where something is written; nothing if it is not known where."""
    if mask is None:
        return None
    covered = written_places(call)
    return None if covered is None else masks.without(mask, covered)


def _copied_rows(call: Call, mask: Mask | None) -> Mask | None:
    """A mask of the source of ``index_copy``, where its rows come to lie; nothing where rows may lie on others."""
    dim, index = call.args[1] % max(len(call.shape), 1), call.value(call.args[2]).known
    if mask is None or index is None or not call.shape or torch.unique(index).numel() != index.numel():
        return None
    small = masks.compact(mask)
    rows = small.expand([index.numel() if x == dim else n for x, n in enumerate(small.shape)])
    made = torch.zeros([call.shape[x] if x == dim else n for x, n in enumerate(rows.shape)], dtype=torch.bool)
    return made.index_copy(dim, index.long().reshape(-1), rows).expand(call.shape)


def _padded(call: Call, mask: Mask | None, around: bool) -> Mask | None:
    """A mask of the first operand with what was put around it, where that is meant and worth following."""
    shape, out, pads = tuple(call.args[0].shape), tuple(call.out.shape), call.args[1]
    added = math.prod(out) - math.prod(shape)
    around = around and added * SPARSE > math.prod(out)
    if mask is None and not around:
        return None
    inner = masks.compact(mask) if mask is not None else torch.zeros([1] * len(shape), dtype=torch.bool)
    first = len(shape) - len(pads) // 2
    sizes = [n if d >= first and any(pads[2 * (len(shape) - 1 - d) :][:2]) else inner.shape[d]
             for d, n in enumerate(shape)]  # fmt: skip
    if math.prod(out[d] if n == shape[d] else n for d, n in enumerate(sizes)) > masks.LIMIT:
        return None
    return torch.constant_pad_nd(inner.expand(sizes), pads, around).expand(out)


def _empty_rows(operands: list[Value], shape: tuple[int, ...]) -> Mask | None:
    """Where a product is zero because the row of the left or the column of the right factor is."""
    zero: Mask | None = None
    for value, dim in zip(operands[:2], (-1, -2), strict=True):
        if value.zero is not None:
            kept = masks.any_along(masks.complement(value.zero, value.shape), [dim], keepdim=True)
            if not masks.is_everything(kept):
                zero = masks.union(zero, masks.complement(kept, kept.shape).expand(shape))
    return zero


_MAKERS = frozenset(["masked_fill", "where", "tril", "triu", "constant_pad_nd"])


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

"""Which elements of its operands an operation needs for given elements of its result, by operation.

One function per family, looked up by the operation's name without its trailing underscore. What a family does not know
it leaves out: fewer elements make a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask
from agentcore.bounds.values import Call, Edge, Value

Rule = Callable[[Call], list[Edge]]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function for the operations of these names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def pointwise(call: Call) -> list[Edge]:
    """Each operand's element at the same place."""
    return [broadcast_edge(value) for value in map(call.value, call.tensors)]


def all_or_nothing(call: Call) -> list[Edge]:
    """Everything, where all of the result is wanted; else nothing, for want of knowing better."""
    edges: list[Edge] = []
    for value in map(call.value, call.tensors):
        edges.append((value, if_everything(value.shape)))
    return edges


def if_everything(shape: Sequence[int]) -> Callable[[Mask], Mask | None]:
    """All of an operand of ``shape`` where all of the result is wanted, else nothing."""
    return lambda d: masks.everything(shape) if masks.count(d) == d.numel() else None


def broadcast_edge(value: Value, less: Mask | None = None) -> Edge:
    """The operand's element at the same place, but for those in ``less`` (a mask of the result)."""
    return value, lambda d: masks.unbroadcast(masks.without(d, less), value.shape)


@rule("copy")
def _copy(call: Call) -> list[Edge]:
    return [broadcast_edge(call.value(call.args[1]))]


@rule("fill", "zero", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "bernoulli",
      "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "uniform", "normal", "randint_like",
      "random", "exponential")  # fmt: skip
def _nothing(call: Call) -> list[Edge]:
    return []


@rule("mul")
def _mul(call: Call) -> list[Edge]:
    """An operand is not needed where the other is known to be zero, or may turn out to be zero."""
    tensors = call.tensors
    values = [call.value(t) for t in tensors]
    if len(values) < 2:
        return [broadcast_edge(v) for v in values]
    edges: list[Edge] = []
    for value, other in (values, values[::-1]):
        other.learn()
        if other.routed and other.known is None and not value.routed:
            edges.append((value, _unreachable(call, value.shape)))
            continue
        edges.append(broadcast_edge(value, other.zero))
    return edges


@rule("div")
def _div(call: Call) -> list[Edge]:
    values = [call.value(t) for t in call.tensors]
    if len(values) < 2 or not isinstance(call.args[0], torch.Tensor):
        return [broadcast_edge(v) for v in values]
    return [broadcast_edge(values[0]), broadcast_edge(values[1], values[0].zero)]


@rule("masked_fill", "where")
def _select(call: Call) -> list[Edge]:
    """The chosen operand's element, and the condition's."""
    if call.name == "where":
        condition, chosen, other = call.args[0], call.args[1], call.args[2]
    else:
        condition, chosen, other = call.args[1], call.args[2], call.args[0]
    picks = call.value(condition)
    edges = [broadcast_edge(picks)]
    known = picks.known is not None
    yes = picks.known.bool().clone() if picks.known is not None else None
    for operand, wanted in ((chosen, yes), (other, None if yes is None else ~yes)):
        if not isinstance(operand, torch.Tensor):
            continue
        value = call.value(operand)
        if known:
            edges.append((value, _chosen(value.shape, wanted)))
        elif picks.routed:
            edges.append((value, _unreachable(call, value.shape)))
        else:
            edges.append((value, behind_content(call, value.shape)))
    return edges


def _unreachable(call: Call, shape: Sequence[int]) -> Callable[[Mask], Mask | None]:
    return lambda d: call.policy.unreachable(shape)


def behind_content(call: Call, shape: Sequence[int]) -> Callable[[Mask], Mask | None]:
    """What a mask made from content may hide."""
    call.policy.met = True
    return lambda d: masks.unbroadcast(d, shape) if call.policy.lenient else None


def _chosen(shape: Sequence[int], wanted: Mask | None) -> Callable[[Mask], Mask | None]:
    return lambda d: masks.unbroadcast(masks.intersection(d, wanted), shape)


@rule("_unsafe_view")
def _unsafe_view(call: Call) -> list[Edge]:
    value = call.value(call.args[0])
    return [(value, lambda d: masks.reshape(d, value.shape))]


@rule("tril", "triu")
def _triangle(call: Call) -> list[Edge]:
    value = call.value(call.args[0])
    return [(value, lambda d: masks.without(d, triangle_zero(call.name, call.argument("diagonal", 0), value.shape)))]


def triangle_zero(name: str, diagonal: int, shape: Sequence[int]) -> Mask | None:
    """The elements that tril or triu make zero."""
    rows, columns = shape[-2], shape[-1]
    if rows * columns > masks.LIMIT:
        return None
    ones = torch.ones(rows, columns, dtype=torch.bool)
    cut = ones.triu(diagonal + 1) if name == "tril" else ones.tril(diagonal - 1)
    return cut.expand(tuple(shape))


def reduced_dims(call: Call) -> tuple[list[int], bool]:
    """The dimensions a reduction removes and whether it keeps them as 1."""
    rank = call.args[0].dim()
    dim = call.argument("dim")
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        dims = list(range(rank))
    else:
        dims = [d % rank for d in (dim if isinstance(dim, list | tuple) else [dim])] if rank else []
    return dims, bool(call.argument("keepdim", False))


@rule("sum", "mean", "amax", "amin", "prod", "any", "all", "var", "std", "var_mean", "std_mean", "logsumexp",
      "linalg_vector_norm", "norm", "argmax", "argmin", "max", "min", "median", "nanmedian", "aminmax",
      "count_nonzero", "nansum", "mode", "kthvalue")  # fmt: skip
def _reduce(call: Call) -> list[Edge]:
    """Every element along the reduced dimensions that is not known to make no difference."""
    if call.name in ("max", "min") and len(call.args) > 1 and isinstance(call.args[1], torch.Tensor):
        return pointwise(call)
    value = call.value(call.args[0])
    value.learn()
    dims, keep = reduced_dims(call)
    zero_matters_not = call.name in ("sum", "mean", "any", "linalg_vector_norm", "norm", "count_nonzero", "nansum")
    spared = value.zero if zero_matters_not else value.excluded if call.name in ("logsumexp", "amax", "max") else None

    def needed(d: Mask) -> Mask | None:
        if not keep:
            for dim in sorted(dims):
                d = d.unsqueeze(dim)
        return masks.without(d.expand(value.shape), spared)

    return [(value, needed)]


@rule("_softmax", "_log_softmax", "_safe_softmax", "sort", "topk", "argsort", "_softmax_backward_data",
      "_log_softmax_backward_data", "cummax", "cummin", "logcumsumexp", "cumprod", "renorm")  # fmt: skip
def _rows(call: Call) -> list[Edge]:
    """The whole row along one dimension, but for what a softmax gives no weight."""
    out_rank = len(call.shape)
    dim = call.argument("dim", -1)
    edges: list[Edge] = []
    for tensor in call.tensors:
        value = call.value(tensor)
        value.learn()
        spared = zero = value.excluded if call.name in ("_softmax", "_safe_softmax") else None
        if "softmax" in call.name:
            spared = value.excluded
        axis = dim % out_rank if out_rank else 0
        if spared is not None:
            spared = masks.union(spared, _alone(spared, axis))

        def needed(
            d: Mask, value: Value = value, spared: Mask | None = spared, axis: int = axis, zero: Mask | None = zero
        ) -> Mask | None:
            left = masks.without(d, zero)
            if left is None:
                return None
            d = left
            if d.dim():
                d = masks.any_along(d, [axis], keepdim=True)
            return masks.without(d.expand(value.shape), spared)

        edges.append((value, needed))
    return edges


def _alone(excluded: Mask, axis: int) -> Mask | None:
    """The rows of which a softmax weighs one element at most: it is 1, whatever it was."""
    weighed = masks.compact(masks.complement(excluded, excluded.shape))
    if weighed.shape[axis] == 1 != excluded.shape[axis]:
        return None
    alone = weighed.sum(axis, keepdim=True, dtype=torch.int32) <= 1
    return alone.expand(excluded.shape)


@rule("cumsum")
def _cumsum(call: Call) -> list[Edge]:
    value = call.value(call.args[0])
    dim = call.args[1] if len(call.args) > 1 else call.kwargs["dim"]

    def needed(d: Mask) -> Mask | None:
        if not d.dim() or masks.is_everything(d):
            return d
        small = masks.compact(d)
        if small.shape[dim] == 1:
            return d
        before = small.flip(dim).to(torch.uint8).cummax(dim).values.flip(dim).bool()
        return before.expand(d.shape)

    return [(value, needed)]


@rule("cat", "stack")
def _cat(call: Call) -> list[Edge]:
    dim = call.argument("dim", 0) % max(len(call.shape), 1)
    edges: list[Edge] = []
    start = 0
    for tensor in call.args[0]:
        value = call.value(tensor)
        if call.name == "stack":
            edges.append((value, _part(dim, start, None)))
            start += 1
        elif tensor.dim() == len(call.shape):
            length = tensor.shape[dim]
            edges.append((value, _part(dim, start, length)))
            start += length
    return edges


def _part(dim: int, start: int, length: int | None) -> Callable[[Mask], Mask | None]:
    return lambda d: d.select(dim, start) if length is None else d.narrow(dim, start, length)


@rule("constant_pad_nd")
def _pad(call: Call) -> list[Edge]:
    value, pads = call.value(call.args[0]), call.args[1]

    def needed(d: Mask) -> Mask | None:
        for i in range(0, len(pads), 2):
            dim = d.dim() - 1 - i // 2
            cut = max(pads[i], 0)
            length = d.shape[dim] - cut - max(pads[i + 1], 0)
            d = d.narrow(dim, cut, length)
        if any(p < 0 for p in pads):
            small = torch.nn.functional.pad(masks.compact(d).expand(d.shape), [max(-p, 0) for p in pads])
            return small if small.numel() <= masks.LIMIT else None
        return d

    return [(value, needed)]


@rule("flip", "roll")
def _move(call: Call) -> list[Edge]:
    value = call.value(call.args[0])

    def needed(d: Mask) -> Mask | None:
        if masks.is_everything(d):
            return d
        if d.numel() > masks.LIMIT:
            return None
        if call.name == "flip":
            return d.flip(call.args[1])
        shifts = call.args[1] if isinstance(call.args[1], list | tuple) else [call.args[1]]
        return d.roll([-s for s in shifts], *call.args[2:])

    return [(value, needed)]


@rule("repeat")
def _repeat(call: Call) -> list[Edge]:
    value, times = call.value(call.args[0]), list(call.args[1])

    def needed(d: Mask) -> Mask | None:
        if masks.is_everything(d):
            return masks.everything(value.shape)
        if d.numel() > masks.LIMIT:
            return None
        shape = [1] * (len(times) - len(value.shape)) + list(value.shape)
        split = d.reshape([n for pair in zip(times, shape, strict=True) for n in pair])
        return masks.any_along(split, range(0, 2 * len(times), 2)).reshape(value.shape)

    return [(value, needed)]


@rule("native_layer_norm", "_fused_rms_norm")
def _layer_norm(call: Call) -> list[Edge]:
    """Whole rows of the input; of the weight and the bias what any row shows."""
    value, rank = call.value(call.args[0]), len(call.args[1])
    inner = range(len(value.shape) - rank, len(value.shape))
    edges: list[Edge] = [
        (value, lambda d: masks.any_along(d, [x for x in inner if x < d.dim()], keepdim=True).expand(value.shape))
    ]
    if call.index == 0:
        outer = len(value.shape) - rank
        for operand in call.args[2:4]:
            if isinstance(operand, torch.Tensor):
                edges.append((call.value(operand), lambda d: masks.any_along(d, range(outer))))
    return edges


@rule("convolution")
def _convolution(call: Call) -> list[Edge]:
    """The input's elements under the windows of wanted outputs; all weights for any of them."""
    x, weight = call.value(call.args[0]), call.value(call.args[1])
    stride, padding, dilation, transposed = call.args[3:7]
    spatial = len(weight.shape) - 2
    groups = call.args[8]

    def windows(d: Mask) -> Mask | None:
        d = masks.any_along(d, [1], keepdim=True)
        if transposed or spatial > 3 or masks.compact(d).numel() > masks.LIMIT >> 5:
            return masks.everything(x.shape) if masks.is_everything(d) and transposed else None
        wanted = masks.compact(d).expand(-1, -1, *d.shape[2:]).float()
        kernel = torch.ones(1, 1, *weight.shape[2:])
        conv = (torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d,
                torch.nn.functional.conv_transpose3d)[spatial - 1]  # fmt: skip
        reach = conv(wanted, kernel, stride=stride, padding=padding, dilation=dilation) > 0.5
        made = torch.zeros(wanted.shape[0], 1, *x.shape[2:], dtype=torch.bool)
        common = tuple(slice(0, min(a, b)) for a, b in zip(reach.shape, made.shape, strict=True))
        made[common] = reach[common]
        return made.expand(x.shape)

    def any_output(d: Mask) -> Mask | None:
        if groups == 1:
            rows = masks.any_along(d, [0, *range(2, d.dim())])
            if transposed:
                return masks.everything(weight.shape) if masks.count(rows) == rows.numel() else None
            return rows.reshape(-1, *[1] * (len(weight.shape) - 1)).expand(weight.shape)
        return masks.everything(weight.shape) if masks.count(d) == d.numel() else None

    edges: list[Edge] = [(x, windows), (weight, any_output)]
    if isinstance(call.args[2], torch.Tensor):
        edges.append((call.value(call.args[2]), lambda d: masks.any_along(d, [0, *range(2, d.dim())])))
    return edges

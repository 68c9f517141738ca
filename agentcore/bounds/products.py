"""Multiply-adds that matrix products and convolutions need, and the operand elements that take part.

A product needs, for each wanted element of its result, the terms in which neither factor is known to be zero.
"""

from __future__ import annotations

import math

import torch
from torch.utils.flop_counter import flop_registry

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask
from agentcore.bounds.rules import broadcast_edge, if_everything, rule
from agentcore.bounds.values import Call, Edge, Product, Value, wider

_AFFORDABLE = 1 << 33
"""Multiply-adds that combining two masks may cost here."""

_OPERANDS = {"addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
"""Where the factors begin, if not with the first argument."""

MATRIX_PRODUCTS = frozenset(["mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "_scaled_mm", "_int_mm"])


def _factors(call: Call) -> tuple[Value, Value]:
    first = _OPERANDS.get(call.name, 0)
    return call.value(call.args[first]), call.value(call.args[first + 1])


def _left(mask: Mask, rank: int) -> Mask:
    """A mask of the left factor as [..., i, k]."""
    return mask.unsqueeze(0) if rank == 1 else mask


def _right(mask: Mask, rank: int) -> Mask:
    """A mask of the right factor as [..., k, j]."""
    return mask.unsqueeze(-1) if rank == 1 else mask


def _result(mask: Mask, left_rank: int, right_rank: int) -> Mask:
    """A mask of the result as [..., i, j]."""
    if left_rank == 1 and right_rank == 1:
        return mask.reshape(1, 1)
    return mask.unsqueeze(0) if left_rank == 1 else mask.unsqueeze(-1) if right_rank == 1 else mask


def _nonzero(value: Value) -> Mask | None:
    """The elements not known to be zero; None for all."""
    value.learn()
    return None if value.zero is None else masks.complement(value.zero, value.shape)


@rule(*MATRIX_PRODUCTS)
def _matrix_product(call: Call) -> list[Edge]:
    left, right = _factors(call)
    a, b = _nonzero(left), _nonzero(right)
    ranks = len(left.shape), len(right.shape)

    def of_left(d: Mask) -> Mask | None:
        rows = _reach(_result(d, *ranks), None if b is None else _right(b, ranks[1]).transpose(-1, -2), left.shape[-1])
        if rows is None:
            return None
        rows = rows if ranks[0] > 1 else rows.squeeze(-2)
        return rows if a is None else masks.intersection(rows, a)

    def of_right(d: Mask) -> Mask | None:
        turned = _result(d, *ranks).transpose(-1, -2)
        k = right.shape[-2] if ranks[1] > 1 else right.shape[-1]
        columns = _reach(turned, None if a is None else _left(a, ranks[0]), k)
        if columns is None:
            return None
        columns = columns.squeeze(-2) if ranks[1] == 1 else columns.transpose(-1, -2)
        return columns if b is None else masks.intersection(columns, b)

    edges: list[Edge] = [(left, of_left), (right, of_right)]
    first = _OPERANDS.get(call.name, 0)
    others = call.args[:first] if first else call.args[2:] if call.name == "_scaled_mm" else ()
    for other in others:
        if isinstance(other, torch.Tensor):
            value = call.value(other)
            if first:
                edges.append(broadcast_edge(value))
            else:  # scales: their layout varies, so all or nothing
                edges.append((value, if_everything(value.shape)))
    return edges


def _reach(d: Mask, other: Mask | None, k: int) -> Mask | None:
    """For wanted [..., i, j] and the other factor's non-zeros [..., j, k], which [..., i, k] take part."""
    if other is None:
        return masks.any_along(d, [-1], keepdim=True).expand(*d.shape[:-1], k)
    small, spread = masks.compact(d), masks.compact(other)
    if small.shape[-1] == 1:  # every column is wanted alike
        every = masks.any_along(other, [-2], keepdim=True)
        return masks.intersection(masks.any_along(d, [-1], keepdim=True).expand(*d.shape[:-1], k), every)
    if spread.shape[-2] == 1:
        return masks.intersection(masks.any_along(d, [-1], keepdim=True).expand(*d.shape[:-1], k), other[..., :1, :])
    work = math.prod(masks.broadcast(small.shape[:-2], spread.shape[:-2])) * small.shape[-2] * d.shape[-1]
    if work * spread.shape[-1] > _AFFORDABLE:
        return None
    found = torch.matmul(small.float(), spread.expand(*spread.shape[:-2], d.shape[-1], spread.shape[-1]).float()) > 0.5
    return found.expand(*d.shape[:-1], k)


def needed_terms(d: Mask, a: Mask | None, b: Mask | None, k: int) -> int:
    """Terms of wanted [..., i, j] in which neither factor ([..., i, k], [..., k, j]) is known to be zero."""
    if d.numel() == 0 or k == 0:
        return 0
    if a is None and b is None:
        return masks.count(d) * k
    if a is not None and b is not None:
        small_a, small_b = masks.compact(a), masks.compact(b)
        if small_a.shape[-1] == 1 or small_b.shape[-2] == 1:
            # One factor's zeros are whole rows or columns: its unwanted results are not computed at all.
            if small_a.shape[-1] == 1:
                wanted = masks.intersection(d, a[..., :1].expand(d.shape))
                return needed_terms(wanted, None, b, k) if wanted is not None else 0
            wanted = masks.intersection(d, b[..., :1, :].expand(d.shape))
            return needed_terms(wanted, a, None, k) if wanted is not None else 0
        batch = math.prod(masks.broadcast(small_a.shape[:-2], small_b.shape[:-2]))
        if batch * small_a.shape[-2] * small_b.shape[-1] * k > _AFFORDABLE:
            return 0
        wide_a = small_a.expand(*small_a.shape[:-1], k)
        wide_b = small_b.expand(*small_b.shape[:-2], k, small_b.shape[-1])
        terms = torch.matmul(wide_a.float(), wide_b.float())
        return masks.total([terms.round().long(), masks.compact(d).long()], d.shape)
    if a is not None:
        return masks.total([masks.sum_last(d), masks.sum_last(a)], d.shape[:-1])
    assert b is not None
    turned = d.transpose(-1, -2)
    return masks.total([masks.sum_last(turned), masks.sum_last(b.transpose(-1, -2))], turned.shape[:-1])


def product_of(call: Call) -> Product | None:
    """What the product costs and at which rate; None for operations that are no product, or multiply by a constant."""
    if call.name in MATRIX_PRODUCTS:
        left, right = _factors(call)
        if not (_is_data(left) and _is_data(right)):
            return None
        a, b = _nonzero(left), _nonzero(right)
        ranks = len(left.shape), len(right.shape)
        packed = 2 if "float4" in str(left.dtype) else 1  # two factors to a byte

        def flops(d: Mask) -> int:
            rows = None if a is None else _left(a, ranks[0])
            columns = None if b is None else _right(b, ranks[1])
            return 2 * packed * needed_terms(_result(d, *ranks), rows, columns, left.shape[-1])

        skippable = "bmm" in call.name
        if skippable and (left.maybe_zero or right.maybe_zero):
            return None
        depth = left.shape[-1] * packed
        size = math.prod(call.shape)
        rows = left.shape[-2] if ranks[0] > 1 else 1
        width = right.shape[-1] if ranks[1] > 1 else 1
        outer = size // max(rows * width, 1) * (rows + width)
        return Product(flops, wider(left.origin, right.origin) or "half", 2 * size * depth, skippable, depth=depth,
                       terms=size * depth, outer=outer)  # fmt: skip
    if call.name == "convolution":
        return _convolution_product(call)
    packet = call.func._overloadpacket
    if packet in flop_registry and call.index == 0:
        values = [call.value(t) for t in call.tensors[:3]]
        total = int(flop_registry[packet](*call.args, **call.kwargs, out_val=call.out))
        origin = values[0].origin
        for value in values[1:]:
            origin = wider(origin, value.origin)
        return Product(lambda d: total if masks.count(d) == d.numel() else 0, origin or "half", total)
    return None


def mark_avoidable(call: Call, product: Product) -> None:
    """Mark the products that reach a factor of this one through linear steps and may be cheaper in another order.

    (A B) C may be computed as A (B C), and under a causal mask as a recurrence of the same cost: linear attention and
    state-space layers do. Of such a pair only the second product is counted.
    """
    if call.name not in MATRIX_PRODUCTS:
        return
    left, right = _factors(call)
    rows = left.shape[-2] if len(left.shape) > 1 else 1
    columns = right.shape[-1] if len(right.shape) > 1 else 1
    for factor, across in ((left, columns), (right, rows)):
        for earlier in factor.chained:
            if earlier.depth * earlier.outer * across < earlier.terms + product.terms:
                earlier.avoidable = True


def _is_data(value: Value) -> bool:
    """A constant factor (a table of cosines, a Hadamard matrix) may have a fast algorithm: it costs nothing here."""
    return value.from_input


def fast_factor(kernel: int, stride: int) -> float:
    """By how much a minimal algorithm needs fewer multiplications than a direct convolution, along one dimension.

    F(m, r) needs m + r − 1 multiplications for m results of r taps (Winograd, Arithmetic Complexity of Computations,
    1980); m = 4 is what libraries go to. Beyond five taps transforms may do better: the limit r is taken.
    """
    taps = -(-kernel // stride)
    if taps <= 1:
        return 1.0
    return 4 * taps / (taps + 3) if taps <= 5 else float(taps)


def _convolution_product(call: Call) -> Product | None:
    x, weight = call.value(call.args[0]), call.value(call.args[1])
    if not (_is_data(x) and _is_data(weight)):
        return None
    stride = call.args[3]
    total = int(flop_registry[torch.ops.aten.convolution](*call.args, out_val=call.out))
    factor = math.prod(fast_factor(k, s) for k, s in zip(weight.shape[2:], stride, strict=False))

    def flops(d: Mask) -> int:
        return int(total * (masks.count(d) / max(d.numel(), 1)) / factor)

    return Product(flops, wider(x.origin, weight.origin) or "half", total)



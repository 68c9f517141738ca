"""Which elements of a tensor are meant: boolean tensors that take memory only along the dimensions they vary in.

A mask has the full logical shape of its tensor, with stride 0 along every dimension in which all entries agree, so that
a causal mask of many heads is one square and "everything" is one entry. ``None`` stands for no element at all.
Whatever would grow beyond ``LIMIT`` stored entries is replaced by a subset of itself: a bound may only be too low.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch

Mask = torch.Tensor

LIMIT = 1 << 28
"""Stored entries (bytes) that one mask may take."""


def everything(shape: Sequence[int]) -> Mask:
    """The mask of all elements; one stored entry."""
    return torch.ones((), dtype=torch.bool).expand(tuple(shape))


def compact(mask: Mask) -> Mask:
    """The stored entries alone: dimensions of stride 0 have size 1."""
    for dim, (size, stride) in enumerate(zip(mask.shape, mask.stride(), strict=True)):
        if size > 1 and stride == 0:
            mask = mask.narrow(dim, 0, 1)
    return mask


def stored(*masks: Mask) -> int:
    """Entries that an elementwise combination of ``masks`` would store."""
    return math.prod(torch.broadcast_shapes(*(compact(m).shape for m in masks)))


def is_everything(mask: Mask) -> bool:
    """Whether this is known to be all elements at a glance; False where that would need a look at many entries."""
    small = compact(mask)
    return small.numel() == 1 and bool(small.item())


def count(mask: Mask | None) -> int:
    """How many elements are meant."""
    if mask is None or mask.numel() == 0:
        return 0
    small = compact(mask)
    return int(small.sum().item()) * (mask.numel() // small.numel())


def _combine(op: Callable[[Mask, Mask], Mask], a: Mask, b: Mask) -> Mask:
    return op(compact(a), compact(b)).expand(torch.broadcast_shapes(a.shape, b.shape))


def union(a: Mask | None, b: Mask | None) -> Mask | None:
    """Elements of either; beyond the limit, those of the one with more."""
    if a is None or b is None:
        return b if a is None else a
    if is_everything(a) or is_everything(b):
        return everything(a.shape)
    if stored(a, b) > LIMIT:
        return a if count(a) >= count(b) else b
    return _combine(torch.logical_or, a, b)


def intersection(a: Mask | None, b: Mask | None) -> Mask | None:
    """Elements of both; beyond the limit none."""
    if a is None or b is None:
        return None
    if is_everything(b):
        return a.expand(torch.broadcast_shapes(a.shape, b.shape))
    if stored(a, b) > LIMIT:
        return None
    return _combine(torch.logical_and, a, b)


def without(a: Mask | None, b: Mask | None) -> Mask | None:
    """Elements of ``a`` that are not in ``b`` (None: nothing is taken away); beyond the limit none."""
    if a is None or b is None:
        return a
    if stored(a, b) > LIMIT:
        return None
    return _combine(lambda x, y: x & ~y, a, b)


def complement(mask: Mask | None, shape: Sequence[int]) -> Mask:
    """Every other element of a tensor of ``shape``."""
    return everything(shape) if mask is None else (~compact(mask)).expand(tuple(shape))


def any_along(mask: Mask, dims: Iterable[int], keepdim: bool = False) -> Mask:
    """Whether any element along ``dims`` is meant."""
    dims = sorted({d % mask.dim() for d in dims}) if mask.dim() else []
    small = compact(mask)
    shape = [1 if d in dims else size for d, size in enumerate(mask.shape)]
    if any(mask.shape[d] == 0 for d in dims):
        result = torch.zeros((), dtype=torch.bool).expand(shape)
    else:
        wide = [d for d in dims if small.shape[d] > 1]
        result = (small.amax(dim=wide, keepdim=True) if wide else small).expand(shape)
    return result if keepdim else result.reshape([n for d, n in enumerate(shape) if d not in dims])


def reshape(mask: Mask, shape: Sequence[int]) -> Mask | None:
    """The same elements of a tensor viewed in another ``shape``; beyond the limit none."""
    shape = tuple(shape)
    if is_everything(mask):
        return everything(shape)
    try:
        return mask.view(shape)
    except RuntimeError:
        return mask.reshape(shape) if mask.numel() <= LIMIT else None


def unbroadcast(mask: Mask | None, shape: Sequence[int]) -> Mask | None:
    """Elements of an operand of ``shape`` that reach the meant elements of what it was broadcast to."""
    if mask is None:
        return None
    extra = mask.dim() - len(shape)
    if extra:
        mask = any_along(mask, range(extra))
    repeated = [d for d, size in enumerate(shape) if size == 1 and mask.shape[d] != 1]
    return any_along(mask, repeated, keepdim=True) if repeated else mask


def placed(mask: Mask, shape: Sequence[int], dim: int, index: Callable[[Mask], Mask]) -> Mask | None:
    """The mask of a tensor of ``shape`` of which ``index`` (applied along ``dim``) shows ``mask``; else nothing."""
    small = compact(mask)
    full = list(small.shape) if small.dim() == len(shape) else [*small.shape[:dim], 1, *small.shape[dim:]]
    full[dim] = shape[dim]
    if math.prod(full) > LIMIT:
        return None
    made = torch.zeros(full, dtype=torch.bool)
    index(made).copy_(small)
    return made.expand(tuple(shape))


def sum_last(mask: Mask) -> torch.Tensor:
    """How many elements are meant along the last dimension; stored compactly over the others."""
    small = compact(mask)
    found = small.sum(-1, dtype=torch.int64)
    return found * mask.shape[-1] if small.shape[-1] == 1 != mask.shape[-1] else found


def total(parts: Sequence[torch.Tensor], shape: Sequence[int]) -> int:
    """The sum over a tensor of ``shape`` of the product of ``parts``, each stored compactly."""
    size = math.prod(shape)
    if size == 0:
        return 0
    result = parts[0]
    for part in parts[1:]:
        result = result * part
    return int(result.sum().item()) * (size // result.numel())

"""Which elements of a tensor are meant: boolean tensors that take memory only along the dimensions they vary in.

A mask has the full logical shape of its tensor, with stride 0 along every dimension in which all entries agree, so that
a causal mask of many heads is one square and "everything" is one entry. ``None`` stands for no element at all.
Whatever would grow beyond ``LIMIT`` stored entries is replaced by a subset of itself: a bound may only be too low.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

Mask = torch.Tensor

LIMIT = 1 << 28
"""Stored entries (bytes) that one mask may take."""


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that ``shapes`` broadcast to (torch's own function imports its symbolic engine: a second)."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, start=rank - len(shape)):
            if size != 1:
                result[i] = size
    return tuple(result)


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
    return math.prod(broadcast(*(compact(m).shape for m in masks)))


def is_everything(mask: Mask) -> bool:
    """Whether this is known to be all elements at a glance; False where that would need a look at many entries."""
    small = compact(mask)
    return small.numel() == 1 and bool(small.item())


def count(mask: Mask | None) -> int:
    """How many elements are meant."""
    if mask is None or mask.numel() == 0:
        return 0
    small = compact(mask)
    return int(np.count_nonzero(small.numpy())) * (mask.numel() // small.numel())


def is_empty(mask: Mask) -> bool:
    """Whether no element is meant."""
    return mask.numel() == 0 or not compact(mask).numpy().any()


def _combine(op: Callable[[Mask, Mask], Mask], a: Mask, b: Mask) -> Mask:
    return op(compact(a), compact(b)).expand(broadcast(a.shape, b.shape))


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
        return a.expand(broadcast(a.shape, b.shape))
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
    small = compact(mask)
    if tuple(small.shape) == tuple(mask.shape):
        return small.reshape(shape)
    old_sizes, new_sizes = list(mask.shape), list(shape)
    kept = [size if small.shape[d] == size else 0 for d, size in enumerate(old_sizes)]
    for old, new in _groups(old_sizes, new_sizes):
        # Dimensions that are split or merged among themselves: where the mask varies along none, none is stored.
        if not any(kept[d] > 1 for d in old):
            for d in old:
                old_sizes[d] = 1
            for d in new:
                new_sizes[d] = 1
    if math.prod(old_sizes) > LIMIT:
        return _reshape_part(small, mask.shape, shape)
    return small.expand(old_sizes).reshape(new_sizes).expand(shape)


def reshape_at_least(mask: Mask, shape: Sequence[int]) -> Mask:
    """As :func:`reshape`, but beyond the limit with more elements rather than fewer."""
    shown = reshape(mask, shape)
    if shown is None:
        others = reshape(complement(mask, mask.shape), shape)
        shown = everything(shape) if others is None else complement(others, shape)
    return shown


def _reshape_part(small: Mask, old: Sequence[int], shape: Sequence[int]) -> Mask | None:
    """A part of a mask that is too large in another shape: what is meant all along one group of dimensions."""
    groups = [[d for d in dims if small.shape[d] > 1] for dims, _ in _groups(old, shape)]
    for dims in sorted((g for g in groups if g), key=lambda g: math.prod(small.shape[d] for d in g)):
        part = small
        for d in dims:
            part = part.all(d, keepdim=True)
        if not is_empty(part):
            return reshape(part.expand(tuple(old)), shape)
    return None


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dimensions of two shapes of one size that hold the same number of elements."""
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(left), j + len(right)
        a, b = math.prod(old[d] for d in left), math.prod(new[d] for d in right)
        while a != b and (i < len(old) or j < len(new)):
            if a < b and i < len(old):
                left.append(i)
                a, i = a * old[i], i + 1
            elif j < len(new):
                right.append(j)
                b, j = b * new[j], j + 1
            else:
                left.append(i)
                a, i = a * old[i], i + 1
        groups.append((left, right))
    return groups


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
    if small.dim() < len(shape):
        small = small.unsqueeze(dim)
    full = list(small.shape)
    full[dim] = shape[dim]
    if math.prod(full) > LIMIT:
        return None
    made = torch.zeros(full, dtype=torch.bool)
    index(made).copy_(small)
    return made.expand(tuple(shape))


def sum_last(mask: Mask) -> torch.Tensor:
    """How many elements are meant along the last dimension; stored compactly over the others."""
    small = compact(mask)
    # Summing booleans directly is several times slower.
    found = (small.float() @ torch.ones(small.shape[-1])).long()
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

"""Rules of operations that read or write through indices: the elements that the actual indices reach.

Where the indices are not known, nothing that only they reach is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask
from agentcore.bounds.rules import behind_content, rule
from agentcore.bounds.values import Call, Edge, Policy, Value


def _indices(call: Call, tensor: torch.Tensor) -> torch.Tensor | None:
    known = call.value(tensor).known
    return None if known is None else known.clone()


def _positions(index: torch.Tensor, size: int) -> torch.Tensor:
    return torch.where(index < 0, index + size, index).long()


def _along(value: Value, dim: int, index: torch.Tensor | None, policy: Policy) -> Callable[[Mask], Mask | None]:
    """For a result whose dimension ``dim`` (and as many as ``index`` has) shows rows ``index`` of ``value``."""

    def needed(d: Mask) -> Mask | None:
        if index is None:
            return policy.unreachable(value.shape)
        small = masks.compact(d)
        rows = small.expand(*small.shape[:dim], *index.shape, *small.shape[dim + index.dim() :])
        flat = rows.reshape(*rows.shape[:dim], index.numel(), *rows.shape[dim + index.dim() :])
        shape = [*flat.shape[:dim], value.shape[dim], *flat.shape[dim + 1 :]]
        if math.prod(shape) > masks.LIMIT or flat.numel() > masks.LIMIT:
            others = [x for x in range(flat.dim()) if x != dim]
            flat = flat.all(dim=others, keepdim=True) if others else flat
            shape = [value.shape[dim] if x == dim else 1 for x in range(flat.dim())]
        made = torch.zeros(shape, dtype=torch.int8)
        made.index_add_(dim, _positions(index.reshape(-1), value.shape[dim]), flat.to(torch.int8).clamp(max=1))
        return (made != 0).expand(value.shape)

    return needed


def _by_rows(value: Value, dim: int, index: torch.Tensor | None, policy: Policy) -> Callable[[Mask], Mask | None]:
    step = _along(value, dim, index, policy)

    def needed(d: Mask) -> Mask | None:
        # int8 sums can wrap to zero after 256 repetitions: count each row once.
        if index is None:
            return step(d)
        flat = index.reshape(-1)
        unique, inverse = torch.unique(flat, return_inverse=True)
        if unique.numel() == flat.numel():
            return step(d)
        small = masks.compact(d)
        rows = small.expand(*small.shape[:dim], *index.shape, *small.shape[dim + index.dim() :])
        rows = rows.reshape(*rows.shape[:dim], flat.numel(), *rows.shape[dim + index.dim() :])
        if rows.numel() * 4 > masks.LIMIT:
            others = [x for x in range(rows.dim()) if x != dim]
            rows = rows.all(dim=others, keepdim=True) if others else rows
        merged = torch.zeros([unique.numel() if x == dim else n for x, n in enumerate(rows.shape)], dtype=torch.int32)
        merged.index_add_(dim, inverse, rows.int())
        outer = [value.shape[x] if x != dim else unique.numel() for x in range(len(value.shape))]
        return _along(value, dim, unique, policy)((merged != 0).expand(outer))

    return needed


@rule("index_select")
def _index_select(call: Call) -> list[Edge]:
    value, index = call.value(call.args[0]), call.args[2]
    dim = call.args[1] % max(len(value.shape), 1)
    kept = _indices(call, index)
    return [
        (value, _by_rows(value, dim, None if kept is None else kept.reshape(-1), call.policy)),
        (call.value(index), lambda d: masks.any_along(d, [x for x in range(d.dim()) if x != dim]).reshape(index.shape)),
    ]


@rule("embedding")
def _embedding(call: Call) -> list[Edge]:
    value, index = call.value(call.args[0]), call.args[1]
    return [
        (value, _by_rows(value, 0, _indices(call, index), call.policy)),
        (call.value(index), lambda d: masks.any_along(d, [-1])),
    ]


@rule("gather")
def _gather(call: Call) -> list[Edge]:
    value, index = call.value(call.args[0]), call.args[2]
    kept = _indices(call, index)
    dim = call.args[1] % max(len(value.shape), 1)

    def needed(d: Mask) -> Mask | None:
        if kept is None:
            return call.policy.unreachable(value.shape)
        if math.prod(value.shape) * 4 > masks.LIMIT or not value.shape:
            return None
        made = torch.zeros(value.shape, dtype=torch.int32)
        made.scatter_add_(dim, _positions(kept, value.shape[dim]), d.int())
        return made != 0

    return [(value, needed), (call.value(index), lambda d: d)]


@rule("take")
def _take(call: Call) -> list[Edge]:
    value, index = call.value(call.args[0]), call.args[1]
    kept = _indices(call, index)

    def needed(d: Mask) -> Mask | None:
        if kept is None or math.prod(value.shape) > masks.LIMIT:
            return call.policy.unreachable(value.shape)
        made = torch.zeros(math.prod(value.shape), dtype=torch.bool)
        made[_positions(kept[d], made.numel())] = True
        return made.reshape(value.shape)

    return [(value, needed), (call.value(index), lambda d: d)]


@rule("index")
def _index(call: Call) -> list[Edge]:
    """Advanced indexing. Boolean indices stand for the positions they name."""
    value = call.value(call.args[0])
    given = list(call.args[1])
    kept, unclear = _kept(call, given)
    edges = _index_operands(call, given)
    if unclear:
        return [(value, lambda d: call.policy.unreachable(value.shape)), *edges]
    if len(kept) == 1:
        dim, index = next(iter(kept.items()))
        return [(value, _by_rows(value, dim, index, call.policy)), *edges]
    return [(value, _several(value, kept, _place(kept), call.policy)), *edges]


def _place(kept: dict[int, torch.Tensor]) -> int:
    """Where the indexed dimensions of the result begin: in place if adjacent, else in front."""
    dims = sorted(kept)
    return dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0


def _several(
    value: Value, kept: dict[int, torch.Tensor], place: int, policy: Policy
) -> Callable[[Mask], Mask | None]:
    dims = sorted(kept)
    shape = masks.broadcast(*(kept[d].shape for d in dims))
    indices = [_positions(kept[d], value.shape[d]).expand(shape) for d in dims]
    sizes = [value.shape[d] for d in dims]
    flat = torch.zeros_like(indices[0])
    for index, size in zip(indices, sizes, strict=True):
        flat = flat * size + index
    rank = flat.dim()

    def needed(d: Mask) -> Mask | None:
        # The indexed dimensions as one, in front: rows of a table of shape [product of their sizes, the others].
        moved = d.permute([*range(place, place + rank), *range(place), *range(place + rank, d.dim())])
        rest = [value.shape[x] for x in range(len(value.shape)) if x not in kept]
        table = Value(0, (math.prod(sizes), *rest), value.dtype, None)
        found = _by_rows(table, 0, flat, policy)(moved)
        if found is None:
            return None
        shaped = masks.reshape(found, (*sizes, *rest))
        if shaped is None:
            return None
        order = [*dims, *(x for x in range(len(value.shape)) if x not in kept)]
        return shaped.permute([order.index(x) for x in range(len(value.shape))])

    return needed


def _index_operands(call: Call, given: Sequence[torch.Tensor | None]) -> list[Edge]:
    return [_whole_if_any(v) for v in (call.value(i) for i in given if i is not None)]


@rule("index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce", "index_reduce")
def _scatter(call: Call) -> list[Edge]:
    """What was there before, unless it is overwritten; of the source what lands where it is wanted."""
    value, dim = call.value(call.args[0]), call.args[1] % max(call.args[0].dim(), 1)
    index, source = call.args[2], call.args[3] if len(call.args) > 3 else None
    adds = call.name in ("index_add", "scatter_add") or call.argument("reduce") is not None
    kept = _indices(call, index)
    whole_rows = call.name.startswith("index")

    def before(d: Mask) -> Mask | None:
        if adds:
            return d
        if kept is None or math.prod(value.shape) > masks.LIMIT:
            return call.policy.unreachable(value.shape)
        left = d.clone()
        if whole_rows:
            return left.index_fill(dim, kept.long(), False)
        return left.scatter(dim, kept.long(), False)

    def from_source(d: Mask) -> Mask | None:
        if kept is None:
            if adds and masks.count(d) == d.numel():
                return masks.everything(source_value.shape)
            return call.policy.unreachable(source_value.shape)
        if whole_rows:
            small = masks.compact(d)
            picked = small if small.shape[dim] == 1 else small.index_select(dim, kept.long().reshape(-1))
            full = picked.expand([*d.shape[:dim], kept.numel(), *d.shape[dim + 1 :]])
            return masks.intersection(full, None if adds else _sole_rows(kept, dim, full.dim())) if not adds else full
        if d.numel() > masks.LIMIT:
            return None
        got = d.gather(dim, kept.long())
        if not adds and torch.unique(kept).numel() != kept.numel() and kept.shape[dim] > 1:
            ordered = kept.sort(dim=dim).values
            if bool((ordered.diff(dim=dim) == 0).any()):
                return None
        if tuple(got.shape) == source_value.shape:
            return got
        padded = torch.zeros(source_value.shape, dtype=torch.bool)
        padded[tuple(slice(0, n) for n in got.shape)] = got
        return padded

    edges: list[Edge] = [(value, before)]
    if isinstance(source, torch.Tensor):
        source_value = call.value(source)
        edges.append((source_value, from_source) if source.dim() else _whole_if_any(source_value))
    index_value = call.value(index)
    edges.append(_whole_if_any(index_value))
    return edges


def _whole_if_any(value: Value) -> Edge:
    return value, lambda d: None if masks.is_empty(d) else masks.everything(value.shape)


def _sole_rows(index: torch.Tensor, dim: int, rank: int) -> Mask:
    """The rows that alone are written to their place."""
    first = _sole_writers([index.reshape(-1).long()], [0])
    return first.reshape([-1 if x == dim else 1 for x in range(rank)])


@rule("index_put", "_unsafe_index_put", "_index_put_impl")
def _index_put(call: Call) -> list[Edge]:
    value, given = call.value(call.args[0]), list(call.args[1])
    source = call.value(call.args[2])
    adds = bool(call.argument("accumulate", False))
    kept, unclear = _kept(call, given)
    masked = bool(unclear) and all(i.dtype == torch.bool and not call.value(i).routed for i in unclear)
    hidden_before = behind_content(call, value.shape) if masked else None
    dims = sorted(kept)
    index_shape = masks.broadcast(*(kept[x].shape for x in dims))
    positions = [_positions(kept[x], value.shape[x]).expand(index_shape) for x in dims]

    def key() -> tuple[torch.Tensor | slice, ...]:
        return tuple(positions[dims.index(x)] if x in kept else slice(None) for x in range(len(value.shape)))

    def before(d: Mask) -> Mask | None:
        if adds:
            return d
        if hidden_before is not None:
            return hidden_before(d)
        sizes = [n if x in kept else 1 for x, n in enumerate(value.shape)]
        if unclear or math.prod(sizes) > masks.LIMIT:
            return call.policy.unreachable(value.shape)
        covered = torch.zeros(sizes, dtype=torch.bool)
        covered[key()] = True
        return masks.without(d, covered.expand(value.shape))

    def written(d: Mask) -> Mask | None:
        if unclear:
            if adds and masks.count(d) == d.numel():
                return masks.everything(source.shape)
            return call.policy.unreachable(source.shape)
        small = masks.compact(d)
        wide = small.expand([n if x in kept else small.shape[x] for x, n in enumerate(value.shape)])
        if wide.numel() > masks.LIMIT:
            return None
        got = wide[key()]
        place = _place(kept)
        rest = [n for x, n in enumerate(value.shape) if x not in kept]
        shape = [*rest[:place], *index_shape, *rest[place:]]
        if not adds:
            # Of what is written to one place several times one counts, and which one is not defined: none is counted.
            first = _sole_writers(positions, [value.shape[x] for x in dims])
            got = got & first.reshape([*[1] * place, *first.shape, *[1] * (len(rest) - place)])
        return masks.unbroadcast(got.expand(shape), source.shape)

    return [(value, before), (source, written), *_index_operands(call, given)]


def _sole_writers(positions: Sequence[torch.Tensor], sizes: Sequence[int]) -> Mask:
    """Which entries of an index are the only ones that name their place."""
    flat = torch.zeros_like(positions[0])
    for position, size in zip(positions, sizes, strict=True):
        flat = flat * size + position
    _, inverse, times = torch.unique(flat.reshape(-1), return_inverse=True, return_counts=True)
    sole: Mask = (times[inverse] == 1).reshape(flat.shape)
    return sole


def _kept(
    call: Call, given: Sequence[torch.Tensor | None]
) -> tuple[dict[int, torch.Tensor], list[torch.Tensor]]:
    """The positions named along each indexed dimension (booleans spelled out), and the indices that are not known."""
    kept: dict[int, torch.Tensor] = {}
    unclear: list[torch.Tensor] = []
    axis = 0
    for index in given:
        if index is None:
            axis += 1
            continue
        content = _indices(call, index)
        is_mask = index.dtype in (torch.bool, torch.uint8)
        if content is None:
            unclear.append(index)
            axis += index.dim() if is_mask else 1
        elif is_mask:
            for found in content.nonzero(as_tuple=True):
                kept[axis] = found
                axis += 1
        else:
            kept[axis] = content
            axis += 1
    return kept, unclear


def written_places(call: Call) -> Mask | None:
    """Where the indices of a write put something; None where that is not known."""
    shape = call.value(call.args[0]).shape
    if "index_put" in call.name:
        kept, unclear = _kept(call, list(call.args[1]))
        if unclear or not kept:
            return None
        sizes = [n if x in kept else 1 for x, n in enumerate(shape)]
        key: list[torch.Tensor | int] = [_positions(kept[x], n) if x in kept else 0 for x, n in enumerate(shape)]
    else:
        dim, index = call.args[1] % max(len(shape), 1), _indices(call, call.args[2])
        if index is None or not shape:
            return None
        sizes = [n if x == dim else 1 for x, n in enumerate(shape)]
        key = [_positions(index, shape[dim]).reshape(-1) if x == dim else 0 for x in range(len(shape))]
        if call.name.startswith("scatter"):
            if math.prod(shape) > masks.LIMIT >> 2:
                return None
            return torch.zeros(shape, dtype=torch.bool).scatter_(dim, _positions(index, shape[dim]), True)
    if math.prod(sizes) > masks.LIMIT >> 2:
        return None
    covered = torch.zeros(sizes, dtype=torch.bool)
    covered[tuple(key)] = True
    return covered.expand(shape)


@rule("slice_scatter", "select_scatter")
def _place_in(call: Call) -> list[Edge]:
    value, source = call.value(call.args[0]), call.value(call.args[1])
    rest = call.args[2:]
    shown = torch.ops.aten.slice.Tensor if call.name == "slice_scatter" else torch.ops.aten.select.int

    def before(d: Mask) -> Mask | None:
        if math.prod(value.shape) > masks.LIMIT:
            return None
        left = d.clone()
        shown(left, *rest, **call.kwargs).fill_(False)
        return left

    return [(value, before), (source, lambda d: shown(d, *rest, **call.kwargs))]


@rule("embedding_dense_backward")
def _embedding_backward(call: Call) -> list[Edge]:
    gradient, index = call.value(call.args[0]), call.args[1]
    kept = _indices(call, index)

    def needed(d: Mask) -> Mask | None:
        if kept is None:
            return masks.everything(gradient.shape) if masks.count(d) == d.numel() else None
        small = masks.compact(d)
        rows = small if small.shape[0] == 1 else small.index_select(0, kept.long().reshape(-1))
        return masks.reshape(rows.expand(kept.numel(), d.shape[1]), gradient.shape)

    return [(gradient, needed), _whole_if_any(call.value(index))]

"""Follow what the outputs need backwards through a trace: bytes of each input, and multiply-adds of each product."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcore.bounds import masks
from agentcore.bounds.masks import Mask
from agentcore.bounds.values import Policy, Value


@dataclass(slots=True)
class Needed:
    """``elements`` of each input by name, ``flops`` by origin, and whether masked products were left out."""

    elements: dict[str, int] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)
    skipped: bool = False
    unreached: set[str] = field(default_factory=set)


def needed(outputs: Iterable[Value], policy: Policy) -> Needed:
    """What ``outputs`` need, all of their elements wanted."""
    outputs = list(outputs)
    found = Needed()
    policy.lenient = True
    _follow(outputs, found, skippable=not policy.met)
    if policy.met:
        policy.lenient = False
        strict = Needed()
        _follow(outputs, strict, skippable=True, only_skippable=True)
        policy.lenient = True
        for origin, flops in strict.flops.items():
            found.flops[origin] = found.flops.get(origin, 0) + flops
        found.skipped = True
    return found


def _follow(outputs: list[Value], found: Needed, *, skippable: bool, only_skippable: bool = False) -> None:
    demand: dict[int, Mask] = {}
    values: dict[int, Value] = {}
    queue: list[int] = []

    def want(value: Value, mask: Mask | None) -> None:
        if mask is None:
            return
        before = demand.get(value.order)
        if before is None:
            if value.order not in values:
                heapq.heappush(queue, -value.order)
                values[value.order] = value
            demand[value.order] = mask
        else:
            joined = masks.union(before, mask)
            assert joined is not None
            demand[value.order] = joined

    for output in outputs:
        want(output, masks.everything(output.shape))
    while queue:
        order = -heapq.heappop(queue)
        value, wanted = values.pop(order), demand.pop(order)
        if masks.compact(wanted).numel() == 1 and not masks.is_everything(wanted):
            continue
        product = value.product
        if product is not None and (skippable if product.skippable else not only_skippable):
            flops = product.flops(wanted)
            if flops:
                found.flops[product.origin] = found.flops.get(product.origin, 0) + flops
        if value.source is not None:
            found.elements[value.source] = masks.count(wanted)
        for operand, edge in value.edges:
            want(operand, edge(wanted))

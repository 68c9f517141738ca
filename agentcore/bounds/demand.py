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
    """``elements`` of each input by name, ``flops`` by origin, and whether masked products were left out.

    ``direct_flops``: of the same products, as the reference does them; ``largest_result``: elements of the largest.
    """

    elements: dict[str, int] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)
    direct_flops: dict[str, int] = field(default_factory=dict)
    largest_result: int = 0
    skipped: bool = False
    reordered: bool = False


def needed(outputs: Iterable[Value], policy: Policy) -> Needed:
    """What ``outputs`` need, all of their elements wanted."""
    outputs = list(outputs)
    found = Needed()
    policy.lenient = True
    masked = _follow(outputs, found)
    if policy.met:
        policy.lenient = False
        strict = _follow(outputs, Needed())
        policy.lenient = True
        found.skipped = strict != masked
        masked = strict
    for origin, flops in masked.items():
        found.flops[origin] = found.flops.get(origin, 0) + flops
    return found


def at_most(outputs: Iterable[Value], policy: Policy) -> Needed:
    """What ``outputs`` would need if indices made from content reached everything."""
    policy.hopeful = True
    found = needed(outputs, policy)
    policy.hopeful = False
    return found


def _follow(outputs: list[Value], found: Needed) -> dict[str, int]:
    """Fill ``found``, without the products that a mask may spare: their FLOPs by origin are returned."""
    masked: dict[str, int] = {}
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
        amount = masks.count(wanted)
        if not amount:
            continue
        if amount == wanted.numel():
            wanted = masks.everything(value.shape)
        product = value.product
        if product is not None:
            found.direct_flops[product.origin] = found.direct_flops.get(product.origin, 0) + product.direct
            found.largest_result = max(found.largest_result, wanted.numel())
        if product is not None and product.avoidable:
            found.reordered = True
        elif product is not None:
            flops = product.flops(wanted)
            if flops:
                into = masked if product.skippable else found.flops
                into[product.origin] = into.get(product.origin, 0) + flops
        if value.source is not None:
            found.elements[value.source] = amount
        for operand, edge in value.edges:
            want(operand, edge(wanted))
    return masked

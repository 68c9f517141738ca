"""Cuts an exported graph into regions that a kernel can reasonably fuse.

The rule, in the order it is applied. A *stage* is a product, or several products of one tensor inside one module that
do not depend on each other (query, key and value; gate and up), or an attention written out (product, softmax,
product). A *chain* is pointwise work and reductions without a product.

1. Glue (views, widening casts, constants made of nothing) is repeated by each region that reads it, so that borders lie
   on tensors that exist in memory.
2. A reduction takes along the pointwise work before it that only it reads and that reads no product itself.
3. Pointwise work joins the region of its largest operand, the latest of equals (an epilogue), if it is the only reader
   of what it reads there, or stands in the same branch of modules. A reduction joins a chain likewise, never a stage.
   What is read once, to be spread over something larger, stays with its reader.
4. A chain whose results only one other region reads joins that region (a prologue).

Nothing joins where the region would not stay convex (no path leaves it and comes back), or would exceed
``max_operators`` or ``MAX_INPUTS``. Regions are connected by construction: everything joins what it reads or feeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from agentcore.extract.export import size_of
from agentcore.extract.operators import Kind, is_element, is_elementwise, is_size, is_tensor, kind_of, operator_name

MAX_OPERATORS = 48
MAX_INPUTS = 16
MAX_SIBLINGS = 4
_MAX_CONSTANT_OPERATORS = 24


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the graph: nodes in the graph's order (repeated glue included), tensors from outside, results."""

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


class Cut:
    """The regions of one graph, and the nodes that no region may hold."""

    def __init__(self, graph: GraphModule, max_operators: int = MAX_OPERATORS) -> None:
        self._max = max_operators
        self._order = {node: i for i, node in enumerate(graph.graph.nodes)}
        self._kind = {node: kind_of(node) for node in self._order}
        self._constants = self._constant_nodes()
        work = (Kind.PRODUCT, Kind.POINTWISE, Kind.REDUCTION)
        self._work = [n for n in self._order if self._kind[n] in work and n not in self._constants]
        self.opaque = [n for n in self._order if self._kind[n] is Kind.OPAQUE]
        self._reads: dict[Node, list[Node]] = {n: list(self._sources(n)) for n in (*self._work, *self.opaque)}
        self._read_by: dict[Node, list[Node]] = {}
        for reader, sources in self._reads.items():
            for source in sources:
                self._read_by.setdefault(source, []).append(reader)
        self._returned = {s for n in self._order if self._kind[n] is Kind.RESULT for s in self._sources(n)}
        self._group: dict[Node, int] = {}
        self._members: dict[int, list[Node]] = {}
        self._stage: set[int] = set()
        for opaque in self.opaque:
            self._new([opaque])
        self._stages()
        self._before_reductions()
        for node in self._work:
            if node not in self._group:
                self._place(node)
        self._prologues()
        opaque_groups = {self._group[n] for n in self.opaque}
        groups = sorted(self._members, key=lambda g: min(self._order[n] for n in self._members[g]))
        self.regions = [self._region(g) for g in groups if g not in opaque_groups]

    def _constant_nodes(self) -> set[Node]:
        """Nodes that depend on no tensor from outside: made anew by whoever reads them, while they are few."""
        size: dict[Node, int] = {}
        for node in self._order:
            if node.op != "call_function" or self._kind[node] is Kind.OPAQUE or is_size(node):
                continue
            tensors = [n for n in node.all_input_nodes if not is_size(n)]
            if all(n in size for n in tensors) and self._kind[node] is not Kind.PRODUCT:
                size[node] = 1 + sum(size[n] for n in tensors)
        return {node for node, count in size.items() if count <= _MAX_CONSTANT_OPERATORS}

    def _is_glue(self, node: Node) -> bool:
        return self._kind[node] is Kind.GLUE or node in self._constants

    def _sources(self, node: Node) -> Iterator[Node]:
        """The work, opaque nodes and placeholders that ``node`` reads, looking through glue."""
        seen: set[Node] = set()
        waiting = list(node.all_input_nodes)
        while waiting:
            source = waiting.pop()
            if source in seen or is_size(source):
                continue
            seen.add(source)
            if self._is_glue(source):
                waiting += source.all_input_nodes
            else:
                yield source

    def _stages(self) -> None:
        for node in self._work:
            if self._kind[node] is Kind.REDUCTION and "softmax" in operator_name(node):
                attention = self._written_out_attention(node)
                if attention and not any(n in self._group for n in attention) and self._convex(attention):
                    self._stage.add(self._new(attention))
        siblings: dict[tuple[Node, str], list[list[Node]]] = {}
        for node in self._work:
            if self._kind[node] is not Kind.PRODUCT or node in self._group:
                continue
            first = next((a for a in node.all_input_nodes if not is_size(a)), node)
            families = siblings.setdefault((self._through_glue(first), _branch(node)), [])
            family = next((f for f in families if len(f) < MAX_SIBLINGS and self._convex([*f, node])), None)
            if family is None or self._dependent(family, node):
                families.append([node])
            else:
                family.append(node)
        for families in siblings.values():
            for family in families:
                self._stage.add(self._new(family))

    def _written_out_attention(self, softmax: Node) -> list[Node]:
        before = self._path(softmax, backwards=True, depth=8)
        after = self._path(softmax, backwards=False, depth=8)
        return sorted({*before, *after}, key=self._order.__getitem__) if before and after else []

    def _path(self, node: Node, *, backwards: bool, depth: int) -> list[Node]:
        """From ``node`` over pointwise work that is read once to a product, both included; nothing without one."""
        ahead = self._reads[node] if backwards else self._read_by.get(node, [])
        for other in dict.fromkeys(ahead):
            alone = self._only_reader(other, node) if backwards else self._only_reader(node, other)
            if not alone or other not in self._reads:
                continue
            if self._kind[other] is Kind.PRODUCT:
                return [node, other]
            if self._kind[other] is Kind.POINTWISE and depth:
                rest = self._path(other, backwards=backwards, depth=depth - 1)
                if rest:
                    return [node, *rest]
        return []

    def _only_reader(self, source: Node, reader: Node) -> bool:
        return self._read_by.get(source) == [reader] and source not in self._returned

    def _through_glue(self, node: Node) -> Node:
        """The tensor in memory that ``node`` shows, where that is one."""
        while self._is_glue(node):
            tensors = [n for n in node.all_input_nodes if not is_size(n)]
            if len(tensors) != 1:
                return node
            node = tensors[0]
        return node

    def _dependent(self, family: list[Node], node: Node) -> bool:
        return any(member in self._reads[node] for member in family)

    def _before_reductions(self) -> None:
        for node in self._work:
            if self._kind[node] is not Kind.REDUCTION or node in self._group:
                continue
            chain, waiting = {node}, [node]
            while waiting:
                for source in self._reads[waiting.pop()]:
                    free = source in self._reads and source not in self._group and source not in chain
                    if not free or self._kind[source] is not Kind.POINTWISE or source in self._returned:
                        continue
                    if is_element(source):
                        continue
                    if any(self._kind[s] is Kind.PRODUCT for s in self._reads[source]):
                        continue
                    if set(self._read_by[source]) <= chain and len(chain) < self._max:
                        chain.add(source)
                        waiting.append(source)
            if len(chain) > 1 and self._convex(chain):
                self._new(sorted(chain, key=self._order.__getitem__))

    def _place(self, node: Node) -> None:
        """Put one node into the region of its largest operand, or into a region of its own."""
        operands: dict[int, int] = {}
        for source in self._reads[node]:
            if source in self._group:
                group = self._group[source]
                operands[group] = max(operands.get(group, 0), elements(source))
        best = max(operands, key=lambda group: (operands[group], self._last(group)), default=None)
        if best is not None and max(elements(source) for source in self._reads[node]) > operands[best]:
            best = None  # it is about a tensor of the model's, as a gather is
        if best is not None and (is_element(node) or (not self._spread(node) and self._may_follow(node, best))):
            self._group[node] = best
            self._members[best].append(node)
        else:
            self._new([node])

    def _spread(self, node: Node) -> bool:
        readers = self._read_by.get(node, [])
        if len(readers) != 1 or node in self._returned or not is_elementwise(readers[0]):
            return False
        return elements(node) < elements(readers[0])

    def _may_follow(self, node: Node, group: int) -> bool:
        members = self._members[group]
        if any(self._kind[m] is Kind.OPAQUE for m in members) or self._kind[node] is Kind.PRODUCT:
            return False
        if self._kind[node] is Kind.REDUCTION and group in self._stage:
            return False
        read = [s for s in self._reads[node] if self._group.get(s) == group]
        near = all(self._only_reader(s, node) for s in read)
        near = near or any(_related(_branch(member), _branch(node)) for member in members)
        return near and self._fits([*members, node]) and self._convex([*members, node])

    def _prologues(self) -> None:
        for group in sorted(self._members, key=self._last, reverse=True):
            if group in self._stage or any(self._kind[m] is Kind.OPAQUE for m in self._members[group]):
                continue
            members = self._members[group]
            readers = {self._group[r] for m in members for r in self._read_by.get(m, []) if self._group[r] != group}
            if len(readers) != 1 or any(m in self._returned for m in members):
                continue
            (reader,) = readers
            merged = [*members, *self._members[reader]]
            opaque = any(self._kind[m] is Kind.OPAQUE for m in self._members[reader])
            if not opaque and self._fits(merged) and self._convex(merged):
                for member in members:
                    self._group[member] = reader
                self._members[reader] = merged
                del self._members[group]

    def _new(self, nodes: Iterable[Node]) -> int:
        members = list(nodes)
        number = self._order[members[0]]  # unique: a node starts one group only
        for node in members:
            self._group[node] = number
        self._members[number] = members
        return number

    def _last(self, group: int) -> int:
        return max(self._order[n] for n in self._members[group])

    def _fits(self, members: list[Node]) -> bool:
        inside = set(members)
        outside = {s for m in members for s in self._reads[m] if s not in inside}
        return len(members) <= self._max and len(outside) <= MAX_INPUTS

    def _convex(self, nodes: Iterable[Node]) -> bool:
        """Whether the region stays free of cycles with the other regions: no path leaves ``nodes`` and comes back."""
        inside = set(nodes)
        whole = inside | {m for n in inside if n in self._group for m in self._members[self._group[n]]}
        inside = whole
        last = max(self._order[n] for n in inside)
        seen: set[Node] = set()
        waiting = [r for n in inside for r in self._read_by.get(n, []) if r not in inside]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            # A region that a path enters is left through any of its members.
            entered = self._members[self._group[node]] if node in self._group else [node]
            for member in entered:
                if member in seen:
                    continue
                seen.add(member)
                for reader in self._read_by.get(member, []):
                    if reader in inside:
                        return False
                    if reader not in seen and (self._order[reader] < last or reader in self._group):
                        waiting.append(reader)
        return True

    def _region(self, group: int) -> Region:
        members = set(self._members[group])
        inside: set[Node] = set()
        inputs: set[Node] = set()
        waiting = list(members)
        while waiting:
            node = waiting.pop()
            if node in inside:
                continue
            inside.add(node)
            for source in node.all_input_nodes:
                if is_size(source):
                    continue
                if source in members or self._is_glue(source):
                    waiting.append(source)
                else:
                    inputs.add(source)
        needed = {s for n in members for s in [n] if self._leaves(s, members)}
        order = self._order.__getitem__
        return Region(
            tuple(sorted(inside, key=order)), tuple(sorted(inputs, key=order)), tuple(sorted(needed, key=order))
        )

    def _leaves(self, node: Node, members: set[Node]) -> bool:
        read_outside = any(r not in members for r in self._read_by.get(node, []))
        return is_tensor(node) and (node in self._returned or read_outside)


_DENSE_VIEWS = frozenset(["view", "_unsafe_view", "unsqueeze", "squeeze"])


def behind_views(region: Region) -> Region:
    """The same region with its leading views left to whoever makes its inputs: a view of a dense tensor that is dense
    again. For regions whose inputs otherwise do not show every size that they need.
    """
    inside, inputs = set(region.nodes), set(region.inputs)
    for node in region.nodes:
        tensors = [source for source in node.all_input_nodes if not is_size(source)]
        leading = tensors and not any(source in inside for source in tensors)
        if leading and operator_name(node) in _DENSE_VIEWS and kind_of(node) is Kind.GLUE:
            inside.discard(node)
            inputs.add(node)
    read = {source for node in inside for source in node.all_input_nodes}
    order = {node: i for i, node in enumerate((*region.inputs, *region.nodes))}
    return Region(
        tuple(n for n in region.nodes if n in inside),
        tuple(sorted(inputs & read, key=order.__getitem__)),
        region.outputs,
    )


_TYPICAL_SIZE = 1024
"""What an open size counts as when two tensors' sizes are compared."""


def elements(node: Node) -> int:
    """Elements of the node's tensor, open sizes at a typical value; 0 for what is no tensor."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0
    sizes = [size_of(size) for size in value.shape]
    known = [s if isinstance(s, int) else int(s.subs(dict.fromkeys(s.free_symbols, _TYPICAL_SIZE))) for s in sizes]
    return math.prod(known)


def module_path(node: Node) -> str:
    """The dotted path of the module whose forward made ``node``; empty for the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    return next((str(path) for path, _ in reversed(list(stack.values())) if not str(path).startswith("_empty")), "")


def _branch(node: Node) -> str:
    """The module that a node works for: its own, or for the only operator of a leaf such as Linear the one above."""
    path = module_path(node)
    return path.rpartition(".")[0] if is_in_leaf(node) else path


def is_in_leaf(node: Node) -> bool:
    """Whether the node was made by a module of torch that is one step of a model, such as Linear."""
    stack = node.meta.get("nn_module_stack") or {}
    kind = str(list(stack.values())[-1][1]) if stack else ""
    whole = ("MultiheadAttention", "LSTM", "GRU", "RNN", "RNNBase")
    name = kind.rpartition(".")[2]
    return kind.startswith("torch.nn.") and not name.startswith("Transformer") and name not in whole


def _related(a: str, b: str) -> bool:
    return a == b or not a or not b or a.startswith(b + ".") or b.startswith(a + ".")

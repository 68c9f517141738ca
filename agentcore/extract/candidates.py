"""Regions that compute the same on the same shapes, merged into candidates: where they stand and on which shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from torch.fx import Node

from agentcore.extract.canonical import CanonicalRegion, canonical
from agentcore.extract.code import reference_source
from agentcore.extract.errors import UnsupportedRegion
from agentcore.extract.export import Exported
from agentcore.extract.naming import axis_names, candidate_name, label, node_names, size_names
from agentcore.extract.operators import Kind, is_element, is_size, kind_of
from agentcore.extract.partition import Cut, Region, behind_views, module_path
from agentcore.extract.shapes import tensor_sizes
from agentcore.problems.definition import DTYPE_BYTES

AxisValues = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place in the model where a candidate stands."""

    exported: Exported
    found: CanonicalRegion
    modules: tuple[str, ...]


@dataclass(slots=True)
class Candidate:
    """One problem to be: named after its first occurrence. ``run_source`` is its reference without input generators."""

    name: str
    names: dict[Node, str]
    axes: dict[str, str]
    sizes: dict[int, str]
    run_source: str
    occurrences: list[Occurrence] = field(default_factory=list)

    @property
    def found(self) -> CanonicalRegion:
        """The first occurrence's region."""
        return self.occurrences[0].found

    @property
    def exported(self) -> Exported:
        """The graph of the first occurrence."""
        return self.occurrences[0].exported

    @property
    def input_names(self) -> list[str]:
        return [self.names[node] for node in self.found.inputs]

    @property
    def output_names(self) -> list[str]:
        return [self.names[node] for node in self.found.outputs]

    @property
    def operators(self) -> list[str]:
        """What it consists of, for a person, each once: its products and reductions in order, then pointwise work."""
        nodes = [n for n in self.found.region.nodes if any(not is_size(source) for source in n.all_input_nodes)]
        main = [label(n) for n in nodes if kind_of(n) in (Kind.PRODUCT, Kind.REDUCTION)]
        rest = [label(n) for n in nodes if kind_of(n) is Kind.POINTWISE and not is_element(n)]
        return list(dict.fromkeys((*main, *rest)))

    def seen(self) -> dict[AxisValues, Counter[int]]:
        """The axis values that the calls gave it: how often each call (by number) meets them. Smallest first."""
        met: dict[AxisValues, Counter[int]] = {}
        for occurrence in self.occurrences:
            for (number, _), binding in zip(occurrence.exported.calls, occurrence.exported.bindings, strict=True):
                values = occurrence.found.axes.values(binding)
                key = tuple((self.axes[local], value) for local, value in values.items())
                met.setdefault(key, Counter())[number] += 1
        return dict(sorted(met.items(), key=lambda item: [value for _, value in item[0]]))


@dataclass(frozen=True, slots=True)
class Left:
    """Something of the model that is in no candidate, and why."""

    what: str
    modules: tuple[str, ...]
    reason: str


def find_candidates(
    exports: list[Exported], model: str, given_sizes: dict[int, str], max_operators: int
) -> tuple[list[Candidate], list[Left]]:
    """Cut every graph and merge what is identical, in the model's order."""
    by_digest: dict[str, Candidate] = {}
    left: list[Left] = []
    for exported in exports:
        cut = Cut(exported.graph, max_operators)
        left += [Left(str(n.target), (module_path(n),), "cannot be part of a problem") for n in cut.opaque]
        for region in cut.regions:
            if not region.outputs:
                continue
            modules = _modules(region.nodes)
            try:
                found = _canonical(region, exported)
                candidate = by_digest.get(found.digest)
                if candidate is None:
                    taken = {c.name for c in by_digest.values()}
                    candidate = by_digest[found.digest] = _new(found, exported, model, given_sizes, taken)
            except UnsupportedRegion as error:
                reason = str(error)
                for symbol, name in exported.symbol_names.items():
                    reason = reason.replace(str(symbol), name)
                left.append(Left(", ".join(label(n) for n in region.nodes)[:200], modules, reason))
                continue
            candidate.occurrences.append(Occurrence(exported, found, modules))
    return list(by_digest.values()), left


def _canonical(region: Region, exported: Exported) -> CanonicalRegion:
    """Raises UnsupportedRegion where the region cannot become a problem."""
    try:
        found = canonical(region, exported.leaves)
        _check(found, exported)
    except UnsupportedRegion:
        region = behind_views(region)
        found = canonical(region, exported.leaves)
        _check(found, exported)
    return found


def _new(
    found: CanonicalRegion, exported: Exported, model: str, given: dict[int, str], taken: set[str]
) -> Candidate:
    axes = axis_names(found, exported)
    names = node_names(found, exported.leaves, set(axes.values()))
    parameters = {names[node] for node in (*found.inputs, *found.outputs)}
    sizes = size_names(found, given, parameters | set(axes.values()))
    source = reference_source(found, names, axes, "")
    return Candidate(candidate_name(model, found, taken), names, axes, sizes, source)


def _check(found: CanonicalRegion, exported: Exported) -> None:
    if not found.inputs:
        raise UnsupportedRegion("it reads no tensor: its result is a constant")
    for expression in found.axes.symbols.values():
        if not expression.free_symbols <= exported.symbol_names.keys():
            raise UnsupportedRegion("its sizes depend on what tensors hold")
    for node in (*found.inputs, *found.outputs):
        name = str(node.meta["val"].dtype).removeprefix("torch.")
        if name not in DTYPE_BYTES:
            raise UnsupportedRegion(f"{node.name} is {name}; problems hold {', '.join(DTYPE_BYTES)}")
    for node in found.outputs:
        for size in tensor_sizes(node):
            found.axes.express(size)


def _modules(nodes: tuple[Node, ...]) -> tuple[str, ...]:
    """The modules whose work this is: those of products and reductions, else all."""
    main = [n for n in nodes if kind_of(n) in (Kind.PRODUCT, Kind.REDUCTION) and n.all_input_nodes]
    return tuple(dict.fromkeys(module_path(n) or "(model)" for n in main or nodes))

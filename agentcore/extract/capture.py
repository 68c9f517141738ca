"""Runs the exported graph on the example calls and holds every reference against what the model computed there.

Tensors at the borders of regions exist only while they are needed; what later steps want of them is noted on the way.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Interpreter, Node
from torch.utils._pytree import tree_leaves

from agentcore.extract.candidates import Candidate, Occurrence
from agentcore.extract.errors import ExtractError
from agentcore.extract.export import Exported
from agentcore.extract.source import Call, own_frame


@dataclass(slots=True)
class Agreement:
    """How well two sets of tensors agree: bit for bit, or by how much they differ."""

    comparisons: int = 0
    exact: int = 0
    max_abs_error: float = 0.0
    max_relative_error: float = 0.0
    """The largest error over the root mean square of its tensor."""
    failures: list[str] = field(default_factory=list)

    def add(self, got: torch.Tensor, want: torch.Tensor, where: str) -> None:
        """Compare one tensor; another shape, dtype or place of NaN is a failure."""
        self.comparisons += 1
        if got.shape != want.shape or got.dtype != want.dtype:
            self.failures.append(
                f"{where}: {got.dtype} {tuple(got.shape)}, the model gave {want.dtype} {tuple(want.shape)}"
            )
            return
        if torch.equal(got, want):
            self.exact += 1
            return
        a, b = got.double(), want.double()
        same = (a == b) | (a.isnan() & b.isnan())
        if bool(same.all()):
            self.exact += 1
            return
        error = torch.where(same, 0.0, (a - b).abs())
        if bool(error.isnan().any()) or bool(error.isinf().any()):
            self.failures.append(f"{where}: NaN or infinity where the model has none, or the reverse")
            return
        largest = float(error.max())
        self.max_abs_error = max(self.max_abs_error, largest)
        finite = b[b.isfinite()]
        scale = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
        relative = largest / scale if scale else math.inf
        self.max_relative_error = max(self.max_relative_error, relative)
        if relative > ALLOWED.get(want.dtype, 0.0):
            self.failures.append(f"{where}: off by {largest:.3g}, {relative:.2g} of the tensor's own scale")

    def summary(self) -> str:
        """One phrase for a table."""
        if self.failures:
            return f"differs ({self.failures[0]})"
        if not self.comparisons:
            return "not compared"
        if self.exact == self.comparisons:
            return f"bit for bit in {self.comparisons} tensors"
        return (
            f"{self.exact} of {self.comparisons} tensors bit for bit, the others within {self.max_abs_error:.2g}"
            f" ({self.max_relative_error:.1g} of their scale)"
        )


ALLOWED = {torch.bfloat16: 2**-5, torch.float16: 2**-8, torch.float32: 1e-4, torch.float64: 1e-10}
"""How far a reference may be from the model, over the tensor's root mean square: a few roundings of its dtype, since a
library may sum in another order for an input that lies dense where the model had it strided."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One input of a candidate as the model had it: statistics, and the tensor itself where its content may matter."""

    low: float
    high: float
    mean: float
    rms: float
    finite: bool
    strided: bool
    content: torch.Tensor | None


@dataclass(slots=True)
class Captured:
    """What one run over all calls gave: agreement per candidate and of the whole, samples per candidate and call."""

    whole: Agreement = field(default_factory=Agreement)
    by_candidate: dict[str, Agreement] = field(default_factory=dict)
    samples: dict[str, dict[int, list[Sample]]] = field(default_factory=dict)


KEEP_BYTES = 64 << 20
"""Contents beyond this are not kept: a mask of this size is a pattern, or not a problem to carry around."""


def run_all(model: torch.nn.Module, exports: list[Exported], candidates: list[Candidate]) -> Captured:
    """Run every call through its graph and through the model itself. Raises ExtractError where a call fails."""
    captured = Captured(by_candidate={c.name: Agreement() for c in candidates})
    functions = {c.name: _compiled(c) for c in candidates}
    for exported in exports:
        here = [(c, o) for c in candidates for o in c.occurrences if o.exported is exported]
        for number, call in exported.calls:
            observer = _Observer(exported, number, here, functions, captured)
            try:
                with torch.no_grad(), torch.random.fork_rng():
                    # What a model draws belongs to no part; both draw the same, so that the rest can be compared.
                    torch.manual_seed(number)
                    results = observer.run(*exported.feeds(call), enable_io_processing=False)
                    torch.manual_seed(number)
                    expected = _model_results(model, call)
            except Exception as error:
                raise ExtractError(f"example {number}: {type(error).__name__}: {error}{own_frame(error)}") from error
            returned = [results[position] for position in exported.result_positions]
            pairs = zip(tree_leaves(returned), tree_leaves(expected), strict=True)
            for position, (got, want) in enumerate(pairs):
                if isinstance(want, torch.Tensor):
                    captured.whole.add(got, want, f"example {number}: result {position}")
    return captured


def _model_results(model: torch.nn.Module, call: Call) -> Any:
    """What the model returns, with its buffers as they were before."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    results = model(**call.arguments)
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, before[name]):
            buffer.copy_(before[name])
    return results


def _compiled(candidate: Candidate) -> Callable[..., Any]:
    module = types.ModuleType(f"kernelyard_extracted_{candidate.name}")
    exec(compile(candidate.run_source, f"<{candidate.name}>", "exec"), module.__dict__)  # noqa: S102  generated here
    run: Callable[..., Any] = module.run
    return run


class _Observer(Interpreter):
    """Runs the graph, and each region's reference as soon as the region's last node has run."""

    def __init__(
        self,
        exported: Exported,
        number: int,
        here: list[tuple[Candidate, Occurrence]],
        functions: dict[str, Callable[..., Any]],
        captured: Captured,
    ) -> None:
        super().__init__(exported.graph)
        self._number = number
        self._leaves = exported.leaves
        self._functions = functions
        self._captured = captured
        order = {node: i for i, node in enumerate(exported.graph.graph.nodes)}
        self._due: dict[Node, list[tuple[Candidate, Occurrence]]] = {}
        self._users: dict[Node, int] = {}
        self._kept: dict[Node, torch.Tensor] = {}
        for candidate, occurrence in here:
            # Borders may lie after the region's own last node only if it has none: outputs are among its nodes.
            last = max(occurrence.found.region.nodes, key=order.__getitem__)
            self._due.setdefault(last, []).append((candidate, occurrence))
            for node in (*occurrence.found.inputs, *occurrence.found.outputs):
                self._users[node] = self._users.get(node, 0) + 1

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n in self._users and isinstance(result, torch.Tensor):
            self._kept[n] = result
        for candidate, occurrence in self._due.get(n, ()):
            self._compare(candidate, occurrence)
            for node in (*occurrence.found.inputs, *occurrence.found.outputs):
                self._users[node] -= 1
                if not self._users[node]:
                    del self._kept[node]
        return result

    def _compare(self, candidate: Candidate, occurrence: Occurrence) -> None:
        found = occurrence.found
        inputs = [self._kept[node].detach() for node in found.inputs]
        got = self._functions[candidate.name](*(value.contiguous() for value in inputs))
        where = f"example {self._number}, {', '.join(occurrence.modules)[:80]}"
        results = got if isinstance(got, tuple) else (got,)
        for node, value, name in zip(found.outputs, results, candidate.output_names, strict=True):
            self._captured.by_candidate[candidate.name].add(value, self._kept[node], f"{where}: {name}")
        kept = self._captured.samples.setdefault(candidate.name, {})
        if self._number not in kept:
            kept[self._number] = [self._sample(node, value) for node, value in zip(found.inputs, inputs, strict=True)]

    def _sample(self, node: Node, value: torch.Tensor) -> Sample:
        leaf = self._leaves.get(node)
        if leaf is not None and leaf.kind == "parameter" and value.dim() > 1:
            # A weight's content comes from its fan-in; a large one would take long to look at.
            return Sample(0.0, 0.0, 0.0, 0.0, finite=True, strided=not value.is_contiguous(), content=None)
        return _sample(value)


def _sample(value: torch.Tensor) -> Sample:
    numbers = value.double() if value.numel() else torch.zeros(1, dtype=torch.float64)
    finite = numbers[numbers.isfinite()]
    if not finite.numel():
        finite = torch.zeros(1, dtype=torch.float64)
    special = not value.dtype.is_floating_point or finite.numel() < numbers.numel() or float(finite.abs().max()) > 1e4
    keep = (special or value.numel() * value.element_size() <= 1 << 20) and value.nbytes <= KEEP_BYTES
    return Sample(
        low=float(finite.min()),
        high=float(finite.max()),
        mean=float(finite.mean()),
        rms=float(finite.square().mean().sqrt()),
        finite=not special or not value.dtype.is_floating_point,
        strided=not value.is_contiguous(),
        content=value.cpu().clone() if keep else None,
    )

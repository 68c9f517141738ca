"""How far a kernel may be from an extracted reference: the output dtype's own roundings, plus what was measured.

The reference rounds wherever the model does; a kernel that keeps more digits in between is better and yet differs by
about the reference's own error. So that error is measured, against the same computation in double precision.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agentcore.bounds.count import BoundUnavailable, count
from agentcore.problems import Problem, Tolerance, Workload
from agentcore.problems.tensors import InputFactory, Value

BASE = {"bfloat16": 1.6e-2, "float16": 2e-3, "float32": 1e-4, "float64": 1e-7}
"""Relative, and absolute over an output's root mean square: two roundings of the dtype, more where sums are long."""

MATCHED_RATIO = 0.999
MAX_FLOPS = 2e10
_SEED = 20260101
_WIDE = re.compile(r"torch\.(bfloat16|float16|float32)\b")
_MARGIN = 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Tolerances by workload, and what they rest on. ``zeros_pass``: the largest share of an output that zeros pass."""

    tolerances: dict[str, Tolerance]
    workloads: int
    rounding_error: float
    zeros_pass: float


def measure(problem: Problem, workloads: Sequence[Workload], factory: InputFactory) -> Measured:
    """Tolerances for ``workloads`` of ``problem``: measured where they are small enough to run here, elsewhere the
    loosest of those, for an output's scale may fall with its size.
    """
    floating = [spec.dtype for spec in problem.definition.outputs.values() if spec.is_floating]
    if not floating:
        exact = Tolerance(max_atol=0.0, max_rtol=0.0, required_matched_ratio=1.0)
        return Measured({w.uuid: exact for w in workloads}, 0, 0.0, 0.0)
    rtol = max(BASE.get(dtype, 6e-2) for dtype in floating)
    wide = _wide_run(problem)
    atol: dict[str, float] = {}
    error, zeros = 0.0, 0.0
    for workload in workloads:
        if wide is None or not _is_small(problem, workload, factory):
            continue
        inputs = factory.make(workload, torch.Generator().manual_seed(_SEED))
        outputs = factory.reference(inputs, workload)
        pairs = [
            (got.double(), want.double())
            for got, want in zip(outputs.values(), wide(inputs), strict=True)
            if got.is_floating_point() and got.numel()
        ]
        limit = _up(max((_limit(got, want, rtol) for got, want in pairs), default=0.0))
        atol[workload.uuid] = limit
        for got, want in pairs:
            off = (got - want).abs()
            error = max(error, float(off[off.isfinite()].max())) if off.isfinite().any() else error
            zeros = max(zeros, float((got.abs() * (1 - rtol) <= limit).double().mean()))
    loosest = max(atol.values(), default=rtol)
    made = {
        w.uuid: Tolerance(max_atol=atol.get(w.uuid, loosest), max_rtol=rtol, required_matched_ratio=MATCHED_RATIO)
        for w in workloads
    }
    return Measured(made, len(atol), error, zeros)


def _limit(got: torch.Tensor, want: torch.Tensor, rtol: float) -> float:
    """The absolute part that one output needs: its scale's roundings, and twice what the reference was off by."""
    finite = got[got.isfinite()]
    scale = float(finite.square().mean().sqrt()) if finite.numel() else 1.0
    excess = (got - want).abs() - rtol * got.abs()
    return max(rtol * scale, _MARGIN * _quantile(excess[excess.isfinite()]))


def _quantile(values: torch.Tensor) -> float:
    """What all but one in ten thousand are below."""
    if not values.numel():
        return 0.0
    rank = max(1, math.ceil(values.numel() * 0.9999))
    return max(0.0, float(values.flatten().kthvalue(rank).values))


def _up(value: float) -> float:
    """Rounded up to two digits."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.3g}")


def _is_small(problem: Problem, workload: Workload, factory: InputFactory) -> bool:
    try:
        return sum(count(problem, workload, factory).flops.values()) <= MAX_FLOPS
    except BoundUnavailable:
        return False


def _wide_run(problem: Problem) -> _Wide | None:
    """The reference with every float in double precision, or None where an input is of 8 bits or fewer."""
    if any(spec.is_floating and spec.itemsize < 2 for spec in problem.definition.inputs.values()):
        return None
    return _Wide(problem)


class _Wide:
    def __init__(self, problem: Problem) -> None:
        module = types.ModuleType("kernelyard_wide_reference")
        source = _WIDE.sub("torch.float64", problem.reference)
        exec(compile(source, f"<{problem.name} in double precision>", "exec"), module.__dict__)  # noqa: S102
        self._run = module.run
        self._names = list(problem.definition.inputs)

    def __call__(self, inputs: dict[str, Value]) -> tuple[torch.Tensor, ...]:
        values = [inputs[name] for name in self._names]
        wide = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values]
        result = self._run(*wide)
        return result if isinstance(result, tuple) else (result,)

"""The tolerance of a workload that states none: by the output dtypes, from what rounding to them alone costs.

| output | max_atol | max_rtol | because |
|---|---|---|---|
| float64 | 1e-6 | 1e-6 | sums in another order |
| float32 | 1e-3 | 1e-3 | the same, and products of 11-bit mantissas (TF32) |
| float16, bfloat16 | 1e-2 | 1e-2 | SOL-ExecBench's own default; one step of bfloat16 is 2^-8 to 2^-7 |
| float8_e4m3fn | 1e-2 | 0.125 | one step: three bits of mantissa |
| float8_e5m2 | 1e-2 | 0.25 | one step: two bits of mantissa |
| float8_e8m0fnu | 0 | 1 | one step: a power of two |
| float4_e2m1fn_x2 | 0.5 | 0.5 | one step of e2m1 |

Integers and bools are compared exactly whatever the tolerance. A problem with several outputs gets the widest of
theirs, since a workload has one tolerance. The share of elements that must match is 0.99, as the benchmark has it.
"""

from __future__ import annotations

from agentcore.problems.definition import Definition
from agentcore.problems.workload import Tolerance

BY_OUTPUT_DTYPE: dict[str, tuple[float, float]] = {
    "float64": (1e-6, 1e-6),
    "float32": (1e-3, 1e-3),
    "float16": (1e-2, 1e-2),
    "bfloat16": (1e-2, 1e-2),
    "float8_e4m3fn": (1e-2, 0.125),
    "float8_e5m2": (1e-2, 0.25),
    "float8_e8m0fnu": (0.0, 1.0),
    "float4_e2m1fn_x2": (0.5, 0.5),
}
"""Output dtype → (max_atol, max_rtol) where a workload states none."""


def completed(stated: Tolerance, definition: Definition) -> Tolerance:
    """``stated`` with the limits that it leaves out set by the dtypes of the outputs."""
    found = [BY_OUTPUT_DTYPE[spec.dtype] for spec in definition.outputs.values() if spec.dtype in BY_OUTPUT_DTYPE]
    limits = {"max_atol": max((a for a, _ in found), default=0.0), "max_rtol": max((r for _, r in found), default=0.0)}
    absent = {name: value for name, value in limits.items() if name not in stated.model_fields_set}
    return stated.model_copy(update=absent) if absent else stated

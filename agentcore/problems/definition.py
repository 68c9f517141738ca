"""What a kernel computes: axes, inputs, outputs and the reference, as ``definition.json`` states them.

Pure data and arithmetic on shapes; importing this never imports torch.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from agentcore.problems import consistency, expressions
from agentcore.problems.errors import ExpressionError, InconsistentError

DTYPE_BYTES: dict[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e8m0fnu": 1,
    # Two 4-bit values to a byte: shapes of this dtype count bytes, as torch does.
    "float4_e2m1fn_x2": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
}
"""Bytes per element of every dtype a tensor may have."""

_ALIASES = {
    "float": "float32", "fp32": "float32", "half": "float16", "fp16": "float16", "double": "float64", "fp64": "float64",
    "bf16": "bfloat16", "int": "int32", "long": "int64", "float8_e4m3": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn",
    # The benchmark's own harness takes this name for the packed type.
    "float4_e2m1": "float4_e2m1fn_x2",
}
"""Other names for the dtypes; a leading ``torch.`` is dropped as well."""

MAX_SIZE = 1 << 48
"""The largest size of an axis: beyond any memory, and whole in every number format that it passes through."""

_IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]*$"
Identifier = Annotated[str, Field(pattern=_IDENTIFIER, max_length=100)]
Description = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class Part(BaseModel):
    """Unknown fields are ignored, so that a definition with another harness's extras still loads."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AxisConst(Part):
    type: Literal["const"]
    value: Annotated[int, Field(ge=0, le=MAX_SIZE)]
    description: Description = ""


class AxisVar(Part):
    type: Literal["var"]
    description: Description = ""


class AxisExpr(Part):
    type: Literal["expr"]
    expression: str
    description: Description = ""


def _with_type(value: Any) -> Any:
    """An axis that says no type by what it does say: a number or ``value``, ``expression``, or neither."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"type": "const", "value": value}
    if value is None:
        return {"type": "var"}
    if isinstance(value, dict) and value.get("type") is None:
        stated = {key: member for key, member in value.items() if member is not None}
        kind = "const" if "value" in stated else "expr" if "expression" in stated else "var"
        return stated | {"type": kind}
    return value


Axis = Annotated[
    Annotated[AxisConst | AxisVar | AxisExpr, Field(discriminator="type")], BeforeValidator(_with_type)
]


class TensorSpec(Part):
    """One parameter. ``shape`` None is a Python scalar, ``()`` a 0-D tensor; entries are sizes, axes or expressions."""

    shape: tuple[Annotated[int, Field(ge=0, le=MAX_SIZE)] | str, ...] | None
    dtype: str
    description: Description = ""

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str) -> str:
        value = value.removeprefix("torch.").lower()
        value = _ALIASES.get(value, value)
        if value not in DTYPE_BYTES:
            raise ValueError(f"{value!r} is not a dtype; known: {', '.join(DTYPE_BYTES)}")
        return value

    @property
    def is_scalar(self) -> bool:
        """True for a parameter passed as a Python number, not as a tensor."""
        return self.shape is None

    @property
    def is_floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat"))

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return DTYPE_BYTES[self.dtype]


class Definition(Part):
    """The contract of one kernel. ``axes``, ``inputs`` and ``outputs`` keep the order of the file: it is the ABI's."""

    name: Annotated[str, Field(min_length=1, max_length=500)]
    description: Description = ""
    axes: dict[Identifier, Axis]
    inputs: dict[Identifier, TensorSpec]
    outputs: Annotated[dict[Identifier, TensorSpec], Field(min_length=1)]
    reference: str | None = None
    custom_inputs_entrypoint: Identifier | None = None
    op_type: str | None = None
    hf_id: str | None = None
    tags: Annotated[tuple[str, ...], BeforeValidator(lambda value: () if value is None else value)] = ()
    constraints: Annotated[tuple[str, ...], BeforeValidator(lambda value: () if value is None else value)] = ()
    """Relations that hold between axes and inputs, as Python; never evaluated, but random indices keep to some."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_empty(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return data | {key: {} for key in ("axes", "inputs") if data.get(key, ...) is None}
        return data

    @field_validator("outputs")
    @classmethod
    def _scalar_output_is_a_tensor(cls, value: dict[str, TensorSpec]) -> dict[str, TensorSpec]:
        # A kernel writes its results to memory; a reference may return such a one as a Python number.
        return {n: spec.model_copy(update={"shape": ()}) if spec.is_scalar else spec for n, spec in value.items()}

    @model_validator(mode="after")
    def _consistent(self) -> Definition:
        axes = {name: axis.expression if isinstance(axis, AxisExpr) else None for name, axis in self.axes.items()}
        sides = (("inputs", self.inputs), ("outputs", self.outputs))
        shapes = {(side, name): spec.shape or () for side, specs in sides for name, spec in specs.items()}
        faults = consistency.find_faults(axes, shapes)
        if faults:
            raise InconsistentError(faults)
        return self

    @property
    def const_axes(self) -> dict[str, int]:
        """Axes fixed by the definition, in its order."""
        return {name: axis.value for name, axis in self.axes.items() if isinstance(axis, AxisConst)}

    @property
    def var_axes(self) -> tuple[str, ...]:
        """Axes that each workload sets, in the definition's order."""
        return tuple(name for name, axis in self.axes.items() if isinstance(axis, AxisVar))

    @property
    def expr_axes(self) -> tuple[str, ...]:
        """Axes computed from others, in the definition's order."""
        return tuple(name for name, axis in self.axes.items() if isinstance(axis, AxisExpr))

    @functools.cached_property
    def expr_order(self) -> tuple[str, ...]:
        """Expression axes ordered so that each comes after those it uses."""
        needs = {
            name: expressions.names(axis.expression)
            for name, axis in self.axes.items()
            if isinstance(axis, AxisExpr)
        }
        return consistency.order(needs)[0]

    def axis_values(self, workload_axes: Mapping[str, int]) -> dict[str, int]:
        """Every axis's value for a workload, in the definition's order. What else a workload sets is left out.

        Raises ExpressionError where a variable axis is missing, a constant is given another value, or an expression
        gives no whole number ≥ 0.
        """
        values = dict(self.const_axes)
        for name in self.var_axes:
            if name not in workload_axes:
                others = sorted(workload_axes.keys() - self.axes.keys())
                hint = f"; {', '.join(others)} is not an axis" if others else ""
                raise ExpressionError(f"axis {name!r} has no value{hint}")
            values[name] = workload_axes[name]
        for name in self.expr_order:
            axis = self.axes[name]
            assert isinstance(axis, AxisExpr)
            values[name] = expressions.evaluate(axis.expression, values)
            if values[name] < 0:
                raise ExpressionError(f"axis {name!r} = {axis.expression} gives {values[name]}, which is negative")
        for name, given in workload_axes.items():
            if values.get(name, given) != given:
                raise ExpressionError(f"axis {name!r} is {values[name]} by the definition, {given} by the workload")
        return {name: values[name] for name in self.axes}

    def shape(self, spec: TensorSpec, values: Mapping[str, int]) -> tuple[int, ...] | None:
        """The sizes of ``spec`` with axes at ``values`` (from :meth:`axis_values`); None for a scalar parameter."""
        if spec.shape is None:
            return None
        sizes = tuple(e if isinstance(e, int) else expressions.evaluate(e, values) for e in spec.shape)
        if any(size < 0 for size in sizes):
            raise ExpressionError(f"shape {list(spec.shape)} gives a negative size: {list(sizes)}")
        return sizes

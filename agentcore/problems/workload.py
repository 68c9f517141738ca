"""One concrete case of a problem: axis values, where each input's content comes from, and the tolerance."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from agentcore.problems.definition import MAX_SIZE, Part

Finite = Annotated[float, Field(allow_inf_nan=False)]
Limit = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Tolerance(BaseModel):
    """How far an output may be from the reference.

    An element matches where ``|got − want| ≤ max_atol + max_rtol·|want|``; at least ``required_matched_ratio`` of each
    output must match and, where ``max_error_cap`` is set, no element may be further off than it. An unknown field is an
    error: a misspelt limit must not become a loose one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_atol: Limit = 1e-2
    max_rtol: Limit = 1e-2
    required_matched_ratio: Annotated[
        float,
        # The second spelling is found in published workloads.
        Field(gt=0, le=1, validation_alias=AliasChoices("required_matched_ratio", "required_match_ratio")),
    ] = 0.99
    max_error_cap: Limit | None = None
    allow_negative_inf: bool = False

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, data: object) -> object:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


class RandomInput(Part):
    """Fresh random content. ``low`` and ``high`` (half-open; numbers or axis expressions) bound it where given."""

    type: Literal["random"]
    low: int | Finite | str | None = None
    high: int | Finite | str | None = None


class ScalarInput(Part):
    """One fixed number, for a scalar; a tensor is filled with it."""

    type: Literal["scalar"]
    value: bool | int | float


class CustomInput(Part):
    """Made by the function that the definition's ``custom_inputs_entrypoint`` names."""

    type: Literal["custom"]


class SafetensorsInput(Part):
    """One tensor of a file; ``path`` is relative to the problem's directory or one above it."""

    type: Literal["safetensors"]
    path: Annotated[str, Field(min_length=1, max_length=1000)]
    tensor_key: Annotated[str, Field(min_length=1, max_length=1000)]

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or "\0" in value or not path.parts:
            raise ValueError(f"{value!r} must be a relative path without '..'")
        return value


def _with_type(value: Any) -> Any:
    """An input's source that says no type by what it does say: ``path``, ``value``, or neither."""
    if value is None:
        return {"type": "random"}
    if isinstance(value, dict) and value.get("type") is None:
        stated = {key: member for key, member in value.items() if member is not None}
        return stated | {"type": "safetensors" if "path" in stated else "scalar" if "value" in stated else "random"}
    return value


def _whole(value: Any) -> Any:
    """A size that passed through a column of floats; anything else is left to the validator."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


InputSource = Annotated[
    Annotated[RandomInput | ScalarInput | CustomInput | SafetensorsInput, Field(discriminator="type")],
    BeforeValidator(_with_type),
]


class Workload(Part):
    """One line of a workload file. ``index`` is its place in that file, from 0."""

    uuid: Annotated[str, Field(min_length=1, max_length=64)]
    axes: Annotated[
        dict[str, Annotated[int, Field(ge=0, le=MAX_SIZE, strict=True), BeforeValidator(_whole)]],
        BeforeValidator(lambda value: {} if value is None else value),
    ]
    inputs: Annotated[dict[str, InputSource], BeforeValidator(lambda value: {} if value is None else value)]
    tolerance: Annotated[Tolerance, BeforeValidator(lambda value: {} if value is None else value)] = Tolerance()
    target: Literal["cpu", "gpu"] | None = None
    index: int = 0

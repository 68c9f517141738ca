"""Fresh random content for the inputs whose source is ``random``: sensible ranges by name and dtype, made quickly.

The judge makes new content for every call it times, so speed matters: on the CPU, weights are drawn as uniform numbers
straight from raw random bits (several times faster than normal ones) and 16-bit tensors are drawn in float32 first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import numpy as np
import torch

from agentcore.problems import expressions
from agentcore.problems.definition import Definition, TensorSpec
from agentcore.problems.workload import RandomInput

Make = Callable[[torch.Generator], torch.Tensor]

_WEIGHT = re.compile(r"weight|kernel|(^|_)w(_|\d|$)|(^|_)w_?[a-z]?$|_proj$")
_BIAS = re.compile(r"bias|(^|_)beta(_|$)")
_GAIN = re.compile(r"weight|gamma|gain")
_POSITIVE = re.compile(r"(^|_)(rstd|inv_std|inv_rms|variance|var|std)(_|$)")
_TURN = re.compile(r"(^|_)(cos|sin)(_|$)")

_DTYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of a definition's dtype name. Raises ValueError where this torch has none."""
    # Newer 4- and 8-bit dtypes are looked up late: an older torch still serves every other problem.
    found = _DTYPES.get(name) or getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name}; use a newer torch")
    return found


def random_maker(
    name: str,
    spec: TensorSpec,
    source: RandomInput,
    definition: Definition,
    axes: Mapping[str, int],
    device: torch.device,
) -> Make:
    """A function from a generator (on ``device``) to fresh content for input ``name`` of a workload with ``axes``."""
    shape = definition.shape(spec, axes) or ()
    dtype = torch_dtype(spec.dtype)
    low, high = _limit(source.low, axes), _limit(source.high, axes)
    if dtype == torch.bool:
        return lambda g: torch.randint(0, 2, shape, dtype=torch.uint8, generator=g, device=device).view(torch.bool)
    if spec.dtype in ("float4_e2m1fn_x2", "float8_e8m0fnu"):
        # Every byte is a pair of valid 4-bit numbers; scales stay within 2**±3 of one.
        first, last = (0, 256) if spec.dtype == "float4_e2m1fn_x2" else (124, 131)
        return lambda g: torch.randint(first, last, shape, dtype=torch.uint8, generator=g, device=device).view(dtype)
    if not spec.is_floating:
        first = int(low) if low is not None else 0
        # Without a stated range, stay a valid index for every axis of the problem, and a value of the dtype.
        index = max(first + 1, min((v for v in axes.values() if v > 0), default=2))
        last = int(high) if high is not None else min(index, torch.iinfo(dtype).max + 1)
        return lambda g: torch.randint(first, last, shape, dtype=dtype, generator=g, device=device)
    if low is not None or high is not None:
        start, end = (low if low is not None else 0.0), (high if high is not None else 1.0)
        return _uniform(shape, dtype, device, start, end)
    return _by_name(name, shape, dtype, device, definition)


def _by_name(
    name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, definition: Definition
) -> Make:
    lowered = name.lower()
    if len(shape) >= 2 and _WEIGHT.search(lowered) and "grad" not in lowered:
        spread = math.sqrt(3.0 / max(1, shape[-1]))
        return _uniform(shape, dtype, device, -spread, spread)
    if len(shape) == 1 and _GAIN.search(lowered) and "grad" not in lowered:
        return _normal(shape, dtype, device, 1.0, 0.1)
    if _BIAS.search(lowered):
        return _normal(shape, dtype, device, 0.0, 0.1)
    quantised = any(spec.dtype.startswith(("float8", "float4")) for spec in definition.inputs.values())
    if _POSITIVE.search(lowered) or (quantised and "scale" in lowered):
        return _uniform(shape, dtype, device, 0.5, 1.5)
    if _TURN.search(lowered):
        return _uniform(shape, dtype, device, -1.0, 1.0)
    return _normal(shape, dtype, device, 0.0, 1.0)


def _limit(value: int | float | str | None, axes: Mapping[str, int]) -> float | int | None:
    return expressions.evaluate(value, axes) if isinstance(value, str) else value


def _normal(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, mean: float, std: float) -> Make:
    drawn = dtype if device.type != "cpu" and dtype.itemsize >= 2 else torch.promote_types(torch.float32, _plain(dtype))

    def make(generator: torch.Generator) -> torch.Tensor:
        values = torch.empty(shape, dtype=drawn, device=device).normal_(mean, std, generator=generator)
        return values.to(dtype)

    return make


def _uniform(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, low: float, high: float) -> Make:
    if device.type != "cpu" or dtype == torch.float64:
        drawn = dtype if dtype.itemsize >= 2 else torch.float32
        return lambda g: torch.empty(shape, dtype=drawn, device=device).uniform_(low, high, generator=g).to(dtype)
    count = math.prod(shape)
    middle, step = (low + high) / 2, (high - low) / 65536

    def make(generator: torch.Generator) -> torch.Tensor:
        bits = np.random.Generator(np.random.SFC64(draw_seed(generator)))
        words = bits.integers(0, 2**64 - 1, (count + 3) // 4, dtype=np.uint64, endpoint=True)
        # 16 random bits to a value, centred in its step so that neither end is favoured.
        values = torch.from_numpy(words.view(np.int16)[:count]).to(torch.float32)
        return values.mul_(step).add_(middle + step / 2).to(dtype).view(shape)

    return make


def _plain(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.itemsize < 2 else dtype


def draw_seed(generator: torch.Generator) -> int:
    """A fresh 62-bit seed drawn from ``generator``, for a source of randomness that torch does not own."""
    return int(torch.randint(1 << 62, (1,), generator=generator, device=generator.device).item())

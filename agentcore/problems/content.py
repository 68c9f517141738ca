"""Fresh random content for the inputs whose source is ``random``, made quickly; ``roles`` says what each stands for.

The judge makes new content for every call it times, so speed matters: on the CPU, weights are drawn as uniform numbers
straight from raw random bits (several times faster than normal ones) and 16-bit tensors are drawn in float32 first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch

from agentcore.problems import expressions, structured
from agentcore.problems.definition import Definition, TensorSpec
from agentcore.problems.roles import Guess, Role, guess
from agentcore.problems.workload import RandomInput

Make = Callable[[torch.Generator], torch.Tensor]

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


class RandomContent:
    """Makers of the random inputs of one workload on one device. Makers of one object may share what they draw, so they
    are called in the definition's order, all of them each time.
    """

    def __init__(self, definition: Definition, axes: Mapping[str, int], device: torch.device) -> None:
        self._definition, self._axes, self._device = definition, axes, device
        self._angles: dict[tuple[int, ...], tuple[Role, torch.Tensor]] = {}

    def maker(self, name: str, spec: TensorSpec, source: RandomInput) -> Make:
        """A function from a generator (on the device) to fresh content for input ``name``."""
        shape = self._definition.shape(spec, self._axes) or ()
        dtype = torch_dtype(spec.dtype)
        low, high = _limit(source.low, self._axes), _limit(source.high, self._axes)
        role = guess(name, spec, self._definition, self._axes)
        if role.role in (Role.BITS, Role.PACKED):
            return _bytes(spec.dtype, shape, dtype, self._device)
        if not spec.is_floating and (low is not None or high is not None):
            first = int(low) if low is not None else 0
            # Without an upper end, stay a valid index for every axis of the problem, and a value of the dtype.
            index = max(first + 1, min((v for v in self._axes.values() if v > 0), default=2))
            last = int(high) if high is not None else min(index, torch.iinfo(dtype).max + 1)
            return _integers(shape, dtype, self._device, first, last)
        if spec.dtype == "bool" or not spec.is_floating:
            return self._integers(name, role, shape, dtype, spec)
        if low is not None or high is not None:
            start, end = (low if low is not None else 0.0), (high if high is not None else 1.0)
            return _uniform(shape, dtype, self._device, start, end)
        return self._floats(name, role, shape, dtype)

    def _integers(
        self, name: str, role: Guess, shape: tuple[int, ...], dtype: torch.dtype, spec: TensorSpec
    ) -> Make:
        device = self._device
        if role.role is Role.KEEP_MASK:
            inverted = structured.says_true_is_masked(spec.description.lower())
            share = 0.9 if "drop" in name.lower() else 0.5
            return structured.keep_mask(shape, dtype, device, share, inverted=inverted)
        if role.role is Role.OFFSETS:
            return structured.offsets(shape[0], role.below, dtype, device)
        if role.role is Role.DISTINCT_INDICES:
            return structured.distinct(shape, min(role.below, torch.iinfo(dtype).max + 1), dtype, device)
        if role.role is Role.LEVELS:
            return _integers(shape, dtype, device, torch.iinfo(dtype).min, torch.iinfo(dtype).max + 1)
        first = 1 if role.role is Role.LENGTHS else 0
        return _integers(shape, dtype, device, first, max(first + 1, min(role.below, torch.iinfo(dtype).max + 1)))

    def _floats(self, name: str, role: Guess, shape: tuple[int, ...], dtype: torch.dtype) -> Make:
        device, fan_in = self._device, max(1, role.fan_in)
        match role.role:
            case Role.EPSILON:
                return lambda g: torch.full(shape, 1e-5, dtype=dtype, device=device)
            case Role.CAUSAL_MASK:
                return structured.causal_mask(shape, dtype, device)
            case Role.ADDITIVE_MASK:
                return structured.additive_mask(shape, dtype, device)
            case Role.BINARY_MASK:
                return structured.keep_mask(shape, dtype, device, 0.5)
            case Role.NORM_GAIN:
                return _normal(shape, dtype, device, 1.0, 0.1)
            case Role.PROBABILITIES:
                return structured.probabilities(shape, dtype, device)
            case Role.UNIT_INTERVAL:
                return _uniform(shape, dtype, device, 0.0, 1.0)
            case Role.FREQUENCIES:
                return structured.frequencies(shape, dtype, device)
            case Role.COSINES | Role.SINES:
                return self._turn(role.role, shape, dtype)
            case Role.DECAY:
                return structured.decay(name, shape, dtype, device)
            case Role.WEIGHT_SCALE:
                return _uniform(shape, dtype, device, 0.5 / math.sqrt(fan_in), 1.5 / math.sqrt(fan_in))
            case Role.POSITIVE:
                return _uniform(shape, dtype, device, 0.5, 1.5)
            case Role.WEIGHT:
                spread = math.sqrt(3.0 / fan_in)
                return _uniform(shape, dtype, device, -spread, spread)
            case Role.BIAS:
                return _normal(shape, dtype, device, 0.0, 0.1)
            case _:
                return _normal(shape, dtype, device, 0.0, 1.0)

    def _turn(self, role: Role, shape: tuple[int, ...], dtype: torch.dtype) -> Make:
        """Cosines and sines of one shape turn by the same angles: whichever is made first draws them for both."""
        of = torch.cos if role is Role.COSINES else torch.sin

        def make(generator: torch.Generator) -> torch.Tensor:
            drawn = self._angles.pop(shape, None)
            if drawn is None or drawn[0] is role:
                angles = torch.empty(shape, device=self._device).uniform_(-math.pi, math.pi, generator=generator)
                self._angles[shape] = (role, angles)
            else:
                angles = drawn[1]
            return of(angles).to(dtype)

        return make


def _bytes(name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Make:
    # Any byte is a pair of valid 4-bit numbers; scales of one byte stay within 2**±3 of one.
    first, last = {"bool": (0, 2), "float4_e2m1fn_x2": (0, 256)}.get(name, (124, 131))
    return lambda g: torch.randint(first, last, shape, dtype=torch.uint8, generator=g, device=device).view(dtype)


def _integers(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, first: int, last: int) -> Make:
    return lambda g: torch.randint(first, last, shape, dtype=dtype, generator=g, device=device)


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

"""How one workload's tensors lie in shared buffers: a slot per call, poison in every output, guards around it.

One buffer per tensor parameter. Output slots are ``[guard][data][guard]``; input slots are data alone. Offsets keep
the 512-byte alignment torch's own allocations have. Shared by the CPU and the GPU target; owns no memory.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import torch

from agentcore.problems import Problem, Workload
from agentcore.problems.tensors import Value, torch_dtype

ALIGNMENT = 512
GUARD_BYTES = 512
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the call, in ABI order: inputs, outputs, then var and expr axes."""

    name: str
    role: str  # input | output | scalar | axis
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.uint8
    dtype_name: str = ""
    value: float | int | bool = 0
    type: str = ""  # float | int, for scalars and axes

    @property
    def is_tensor(self) -> bool:
        return self.role in ("input", "output")

    @property
    def nbytes(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count * self.dtype.itemsize

    @property
    def offset(self) -> int:
        return GUARD_BYTES if self.role == "output" else 0

    @property
    def stride(self) -> int:
        padded = self.nbytes + 2 * self.offset
        return max(ALIGNMENT, -(-padded // ALIGNMENT) * ALIGNMENT)


class Layout:
    """The parameters of one workload and the number of slots its buffers have."""

    def __init__(self, parameters: list[Parameter], slots: int) -> None:
        self.parameters, self.slots = parameters, slots

    @classmethod
    def of(cls, problem: Problem, workload: Workload, scalars: dict[str, Value], slots: int) -> Layout:
        """The layout of a problem's call at a workload's axes. ``scalars`` are the Python-number inputs by name."""
        definition = problem.definition
        axes = definition.axis_values(workload.axes)
        parameters: list[Parameter] = []
        for name, spec in definition.inputs.items():
            shape = definition.shape(spec, axes)
            if shape is None:
                value = scalars[name]
                assert not isinstance(value, torch.Tensor)
                kind = "float" if spec.is_floating else "int"
                parameters.append(Parameter(name, "scalar", value=value, type=kind))
            else:
                parameters.append(Parameter(name, "input", shape, torch_dtype(spec.dtype), spec.dtype))
        for name, spec in definition.outputs.items():
            shape = definition.shape(spec, axes) or ()
            parameters.append(Parameter(name, "output", shape, torch_dtype(spec.dtype), spec.dtype))
        for kind in ("var", "expr"):
            for name, axis in definition.axes.items():
                if axis.type == kind:
                    parameters.append(Parameter(name, "axis", value=axes[name], type="int"))
        return cls(parameters, slots)

    @property
    def inputs(self) -> list[Parameter]:
        return [p for p in self.parameters if p.role == "input"]

    @property
    def outputs(self) -> list[Parameter]:
        return [p for p in self.parameters if p.role == "output"]

    def bytes_per_slot(self) -> int:
        return sum(p.stride for p in self.parameters if p.is_tensor)

    def describe(
        self, descriptors: dict[str, int], sizes: dict[str, int], writable_inputs: bool
    ) -> list[dict[str, Any]]:
        """The parameters as the runner's ``buffers`` request wants them; ``descriptors`` are indices by name."""
        described: list[dict[str, Any]] = []
        for p in self.parameters:
            if p.is_tensor:
                described.append({
                    "role": p.role, "name": p.name, "fd": descriptors[p.name], "size": sizes[p.name],
                    "offset": p.offset, "stride": p.stride, "nbytes": p.nbytes, "shape": list(p.shape),
                    "dtype": p.dtype_name, "writable": p.role == "output" or writable_inputs,
                })
            else:
                described.append({"role": p.role, "name": p.name, "value": p.value, "type": p.type})
        return described


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SIGNALLING_NAN = {
    # (exponent of all ones, bits of payload below the quiet bit)
    torch.bfloat16: (0x7F80, 6),
    torch.float16: (0x7C00, 9),
    torch.float32: (0x7F800000, 22),
    torch.float64: (0x7FF0000000000000, 51),
}


def poison_for(dtype: torch.dtype) -> int:
    """A fresh bit pattern to fill an output with, one that no arithmetic leaves behind where there is such a one.

    Floats of two bytes and more get a signalling NaN of random payload: results are never signalling, so that a
    legitimate NaN is not taken for poison. Bools get a byte that is neither 0 nor 1.
    """
    if dtype in _SIGNALLING_NAN:
        exponent, bits = _SIGNALLING_NAN[dtype]
        return exponent | (1 + secrets.randbelow((1 << bits) - 1))
    if dtype == torch.bool:
        return 2 + secrets.randbelow(254)
    bits = 8 * dtype.itemsize
    return secrets.randbits(bits) if bits == 8 else secrets.randbits(bits) - (1 << (bits - 1))


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same storage as integers of the same width, to fill and compare without caring for NaN."""
    return tensor.view(_BITS[tensor.dtype.itemsize])


def detects_poison(dtype: torch.dtype) -> bool:
    """Whether a leftover poison value tells anything: every byte is a likely result of the other one-byte dtypes."""
    return dtype.itemsize >= 2 or dtype == torch.bool


def leftover(output: torch.Tensor, pattern: int, reference: torch.Tensor | None = None) -> int:
    """How many elements still hold the poison ``pattern``, not counting those where the reference holds it too."""
    left = as_bits(output) == pattern
    if reference is not None:
        left &= as_bits(reference) != pattern
    return int(left.sum())

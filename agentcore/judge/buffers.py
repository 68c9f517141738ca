"""A workload's tensors as the judge sees them, slot by slot, wherever the memory lies (host_buffers, cuda_buffers)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch

from agentcore.judge.layout import GUARD_BYTES, Layout, Parameter, as_bits, poison_for


class Shared(Protocol):
    """A piece of memory the runner maps by its descriptor."""

    size: int
    descriptor: int

    def close(self) -> None: ...


class SlotBuffers:
    """Views of one raw buffer per tensor parameter; subclasses fill ``_raw`` and ``_memory`` and free the memory."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._raw: dict[str, torch.Tensor] = {}
        self._memory: dict[str, Shared] = {}

    def descriptors(self) -> tuple[dict[str, int], dict[str, int], list[int]]:
        """(index by name, size by name, descriptors) for Layout.describe and the channel."""
        names = list(self._memory)
        return (
            {name: index for index, name in enumerate(names)},
            {name: self._memory[name].size for name in names},
            [self._memory[name].descriptor for name in names],
        )

    def nbytes(self) -> int:
        """What its memory takes."""
        return sum(memory.size for memory in self._memory.values())

    def raw(self, p: Parameter) -> torch.Tensor:
        """A parameter's whole buffer, all slots and guards, as bytes."""
        return self._raw[p.name]

    def rows(self, p: Parameter, slots: range) -> torch.Tensor:
        """The slots of a range, guards and padding included, as bytes: (slots, stride)."""
        return self._raw[p.name][slots.start * p.stride : slots.stop * p.stride].view(len(slots), p.stride)

    def elements(self, p: Parameter, slots: range) -> torch.Tensor:
        """The data of a range of slots as integers of the element's width: (slots, elements), a strided view."""
        width = p.dtype.itemsize
        rows = as_bits(self._raw[p.name][slots.start * p.stride : slots.stop * p.stride].view(p.dtype))
        return rows.view(len(slots), p.stride // width)[:, p.offset // width : (p.offset + p.nbytes) // width]

    def data(self, p: Parameter, slot: int) -> torch.Tensor:
        """One slot's data as bytes."""
        begin = slot * p.stride + p.offset
        return self._raw[p.name][begin : begin + p.nbytes]

    def view(self, p: Parameter, slot: int) -> torch.Tensor:
        """One slot's tensor."""
        return self.data(p, slot).view(p.dtype).reshape(p.shape)

    def snapshot(self, p: Parameter, slot: int) -> torch.Tensor:
        """A copy of a parameter's very bytes; copying bools as bools would turn poison into True."""
        return as_bits(self.view(p, slot)).clone().view(p.dtype)

    def write_inputs(self, slot: int, inputs: Mapping[str, object]) -> None:
        for p in self.layout.inputs:
            value = inputs[p.name]
            assert isinstance(value, torch.Tensor)
            if p.nbytes:
                as_bits(self.view(p, slot)).copy_(as_bits(value.reshape(p.shape)))

    def inputs_equal(self, slot: int, inputs: Mapping[str, object]) -> str:
        """The name of the first input whose shared content differs from ``inputs``, or ''."""
        for p in self.layout.inputs:
            value = inputs[p.name]
            assert isinstance(value, torch.Tensor)
            if p.nbytes and not torch.equal(as_bits(self.view(p, slot)), as_bits(value.reshape(p.shape))):
                return p.name
        return ""

    def poison(self, slot: int) -> dict[str, tuple[int, int]]:
        """Fill outputs and guards of a slot with fresh patterns: {name: (data pattern, guard byte)}."""
        patterns = {}
        for p in self.layout.outputs:
            pattern, guard = poison_for(p.dtype), poison_for(torch.uint8)
            begin = slot * p.stride
            raw = self._raw[p.name][begin : begin + p.stride]
            raw[:GUARD_BYTES].fill_(guard)
            raw[GUARD_BYTES + p.nbytes :].fill_(guard)
            if p.nbytes:
                as_bits(self.view(p, slot)).fill_(pattern)
            patterns[p.name] = (pattern, guard)
        return patterns

    def broken_guard(self, slot: int, patterns: dict[str, tuple[int, int]]) -> str:
        """Which output's surroundings changed, and where; '' where none did."""
        for p in self.layout.outputs:
            guard = patterns[p.name][1]
            begin = slot * p.stride
            raw = self._raw[p.name][begin : begin + p.stride]
            for where, part, base in (
                ("before", raw[:GUARD_BYTES], -GUARD_BYTES),
                ("after", raw[GUARD_BYTES + p.nbytes :], 0),
            ):
                changed = part != guard
                if bool(changed.any()):
                    position = int(changed.to(torch.uint8).argmax()) + base
                    return f"output {p.name!r}: byte {position:+d} {where} the buffer was overwritten"
        return ""

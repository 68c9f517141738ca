"""Buffers of a GPU: CUDA virtual-memory allocations, handed to the runner as file descriptors.

The runner maps inputs read-only, so the hardware refuses a stray write. A hostile process could map them again for
writing; the judge therefore compares every input with its own copy after the calls.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
from cuda.bindings import driver as cu

from agentcore.judge.buffers import SlotBuffers
from agentcore.judge.kept_memory import KeptMemory, Label
from agentcore.judge.layout import Layout

_FD = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class CudaError(RuntimeError):
    """A driver call of the judge failed."""


def check(result: tuple[Any, ...]) -> Any:
    """Unwrap a cuda.bindings result. Raises CudaError."""
    if result[0] != cu.CUresult.CUDA_SUCCESS:
        raise CudaError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


class _View:
    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None,
        }


class SharedAllocation:
    """One VMM allocation on device 0, mapped for the judge, exported as ``descriptor``."""

    def __init__(self, size: int) -> None:
        properties = cu.CUmemAllocationProp()
        properties.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        properties.requestedHandleTypes = _FD
        granularity = check(cu.cuMemGetAllocationGranularity(
            properties, cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        ))
        self.size = -(-max(size, 1) // granularity) * granularity
        with contextlib.ExitStack() as undo:  # a judge that stays up must not lose what it could not use
            self._handle = check(cu.cuMemCreate(self.size, properties, 0))
            undo.callback(cu.cuMemRelease, self._handle)
            self.address = int(check(cu.cuMemAddressReserve(self.size, 0, 0, 0)))
            undo.callback(cu.cuMemAddressFree, self.address, self.size)
            check(cu.cuMemMap(self.address, self.size, 0, self._handle, 0))
            undo.callback(cu.cuMemUnmap, self.address, self.size)
            access = cu.CUmemAccessDesc()
            access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = 0
            access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            check(cu.cuMemSetAccess(self.address, self.size, [access], 1))
            self.descriptor = int(check(cu.cuMemExportToShareableHandle(self._handle, _FD, 0)))
            undo.pop_all()

    def tensor(self) -> torch.Tensor:
        return torch.as_tensor(_View(self.address, self.size), device="cuda")

    def close(self) -> None:
        os.close(self.descriptor)
        check(cu.cuMemUnmap(self.address, self.size))
        check(cu.cuMemAddressFree(self.address, self.size))
        check(cu.cuMemRelease(self._handle))


class CudaBuffers(SlotBuffers):
    """A workload's tensors in device memory. Close, or release, only after everything that looks at them has finished.
    """

    def __init__(
        self, layout: Layout, kept: KeptMemory[SharedAllocation] | None = None, label: Label = ()
    ) -> None:
        """In what ``kept`` has for ``label``, all zeros as new memory is; else in new memory."""
        super().__init__(layout)
        self._kept = kept
        self._pieces: dict[Label, SharedAllocation] = {}
        try:
            for p in layout.parameters:
                if p.is_tensor:
                    nbytes, of_buffer = p.stride * layout.slots, (*label, p.name)
                    memory = SharedAllocation(nbytes) if kept is None else kept.take(of_buffer, nbytes)
                    self._memory[p.name] = self._pieces[of_buffer] = memory
                    self._raw[p.name] = memory.tensor()
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        """Instead of closing: leave the memory for others, once no runner has it mapped any more."""
        assert self._kept is not None
        for raw in self._raw.values():
            raw.zero_()
        torch.cuda.synchronize()
        self._raw.clear()
        self._memory.clear()
        pieces, self._pieces = self._pieces, {}
        self._kept.keep(pieces)

    def close(self) -> None:
        torch.cuda.synchronize()
        self._raw.clear()
        for memory in self._memory.values():
            memory.close()
        self._memory.clear()

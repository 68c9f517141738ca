"""Buffers of the CPU target: sealed memory files. The runner can map an input for reading only, whoever it is.

``F_SEAL_FUTURE_WRITE`` leaves the judge's existing mapping writable and refuses every later writable mapping and
write(), so neither mprotect, nor /proc/self/fd, nor /proc/self/mem gets the runner a writable input.
"""

from __future__ import annotations

import fcntl
import mmap
import os

import torch

from agentcore.judge.buffers import SlotBuffers
from agentcore.judge.layout import PAGE_BYTES, Layout

_F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_FUTURE_WRITE = 0x2, 0x4, 0x10


class SharedMemory:
    """One memory file, mapped by the judge for writing. ``read_only`` seals it for everybody else."""

    def __init__(self, name: str, size: int, *, read_only: bool) -> None:
        self.size = -(-max(size, 1) // PAGE_BYTES) * PAGE_BYTES
        self.descriptor = os.memfd_create(name[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, self.size)
            self.mapping = mmap.mmap(self.descriptor, self.size)
            seals = _F_SEAL_SHRINK | _F_SEAL_GROW | (_F_SEAL_FUTURE_WRITE if read_only else 0)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        except BaseException:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Give up the descriptor, once; the mapping lives as long as a tensor looks at it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class HostBuffers(SlotBuffers):
    """A workload's tensors in shared memory of the host."""

    def __init__(self, layout: Layout, *, writable_inputs: bool = False) -> None:
        super().__init__(layout)
        for p in layout.parameters:
            if p.is_tensor:
                sealed = p.role == "input" and not writable_inputs
                memory = SharedMemory(p.name, p.stride * layout.slots, read_only=sealed)
                self._memory[p.name] = memory
                self._raw[p.name] = torch.frombuffer(memory.mapping, dtype=torch.uint8)

    def close(self) -> None:
        for memory in self._memory.values():
            memory.close()

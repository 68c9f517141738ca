"""The memory that clears a GPU's cache: twice its size of random words, and what a grid that read them all must say.

The judge allocates it and the runner maps it read-only. Each pass over it is answered by a sum under a key that nobody
knew before, so that a flush which read something else, or less, cannot give it (keyed_part in gate.cu).
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_ulonglong, c_void_p
from pathlib import Path

import torch

from agentcore.judge.cuda_buffers import SharedAllocation
from agentcore.judge.runner.driver import Driver, packed

BLOCK = 1024
"""Threads of a block of ky_clear and ky_sum: as many as launch bounds allow for two blocks a multiprocessor."""
PIECE_BYTES = 1 << 12


class FlushRegion:
    """``nbytes`` (rounded up) of random words on the judge's device, mapped by every runner."""

    device = "cuda"

    def __init__(self, gate: Path, nbytes: int) -> None:
        properties = torch.cuda.get_device_properties(0)
        self.grid = properties.multi_processor_count * (properties.max_threads_per_multi_processor // BLOCK)
        self.nbytes = -(-nbytes // PIECE_BYTES) * PIECE_BYTES
        self.memory = SharedAllocation(self.nbytes)
        self.words().random_()
        self.ready(gate)

    def ready(self, gate: Path) -> None:
        """Load the kernel that sums, from the cubin ``gate``."""
        self._driver = Driver()
        self._driver.use_primary_context()
        self._sum = self._driver.functions(gate.read_bytes(), ("ky_sum",))["ky_sum"]

    def words(self) -> torch.Tensor:
        """Its content, as 64-bit words."""
        return self.memory.tensor()[: self.nbytes].view(torch.int64)

    def hello(self) -> dict[str, int]:
        """What a runner needs to know to map and read it."""
        return {"clear_grid": self.grid, "region_bytes": self.nbytes, "region_size": self.memory.size}

    def sums(self, keys: Sequence[int]) -> list[int]:
        """What a pass under each key must say. Waits for the device."""
        found = torch.zeros(len(keys), dtype=torch.int32, device=self.device)
        for index, key in enumerate(keys):
            parameters, _alive = packed(
                c_void_p(self.memory.address), c_ulonglong(self.nbytes // 16), c_ulonglong(key),
                c_void_p(found.data_ptr() + 4 * index),
            )
            self._driver.launch(self._sum, self.grid, BLOCK, 0, parameters)
        return [value & 0xFFFFFFFF for value in found.tolist()]

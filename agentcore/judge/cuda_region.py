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
        self.multiprocessors = properties.multi_processor_count
        self.grid = self.multiprocessors * (properties.max_threads_per_multi_processor // BLOCK)
        self.nbytes = -(-nbytes // PIECE_BYTES) * PIECE_BYTES
        self.memory = SharedAllocation(self.nbytes)
        self.words().random_()
        self.ready(gate)

    def ready(self, gate: Path) -> None:
        """Load the kernel that sums, from the cubin ``gate``. Raises RuntimeError where the grid that holds the GPU is
        larger than that.
        """
        self.driver = Driver()
        self.driver.use_primary_context()
        functions = self.driver.functions(gate.read_bytes(), ("ky_sum", "ky_clear", "ky_copy"))
        self._sum, self.copying = functions["ky_sum"], functions["ky_copy"]
        self._sink = self.driver.allocate(256)
        fit = self.multiprocessors * self.driver.resident_blocks(functions["ky_clear"], BLOCK)
        if fit < self.grid:
            raise RuntimeError(
                f"of the {self.grid} blocks of ky_clear that hold this GPU only {fit} are resident at a time: it would"
                " wait for itself for ever"
            )

    def words(self) -> torch.Tensor:
        """Its content, as 64-bit words."""
        return self.memory.tensor()[: self.nbytes].view(torch.int64)

    def hello(self) -> dict[str, int]:
        """What a runner needs to know to map and read it."""
        return {"clear_grid": self.grid, "region_bytes": self.nbytes, "region_size": self.memory.size}

    def read(self, stream: int) -> None:
        """Begin to read all of it, behind what ``stream`` has to do: nothing else stays in the cache.

        In the judge's own context, where no runner's hints and access policies govern what is kept.
        """
        self._begin_sum(0, self._sink, stream)

    def sums(self, keys: Sequence[int]) -> list[int]:
        """What a pass under each key must say. Waits for the device."""
        found = torch.zeros(len(keys), dtype=torch.int32, device=self.device)
        for index, key in enumerate(keys):
            self._begin_sum(key, found.data_ptr() + 4 * index, 0)
        return [value & 0xFFFFFFFF for value in found.tolist()]

    def _begin_sum(self, key: int, address: int, stream: int) -> None:
        """Begin a pass under ``key`` whose sum is added to the word at ``address``."""
        parameters, _alive = packed(
            c_void_p(self.memory.address), c_ulonglong(self.nbytes // 16), c_ulonglong(key), c_void_p(address)
        )
        self.driver.launch(self._sum, self.grid, BLOCK, stream, parameters)

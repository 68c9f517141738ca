"""Looks at the outputs of calls and their references on the device: one pass of a kernel over each pair.

What it says is what ``correctness`` works out with torch (``_glance_rows``), to the last bit, which takes some fifteen
passes over copies in float32. For bfloat16 and float32; other kinds of numbers are left to torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_float, c_uint, c_ulonglong, c_void_p

import torch

from agentcore.judge.runner.driver import Driver, packed
from agentcore.problems import Tolerance

PAIRS, BLOCK = 64, 256
"""Pairs that one launch looks at, and threads of a block: as in gate.cu."""
ROW_WORDS = 7
"""Eight bytes each of what the kernel keeps of one pair; the first three are what it says."""
LOAD_BYTES = 16


class _Pairs(Structure):
    _fields_ = (("got", c_ulonglong * PAIRS), ("want", c_ulonglong * PAIRS))


class CudaGlance:
    """A ``correctness.Glance`` by ky_glance of the judge's device code, in the cubin ``gate``."""

    device = "cuda"

    def __init__(self, driver: Driver, gate: bytes, multiprocessors: int) -> None:
        self._driver = driver
        self._kernel = driver.functions(gate, ("ky_glance",))["ky_glance"]
        self._resident = multiprocessors * driver.resident_blocks(self._kernel, BLOCK)

    def __call__(
        self, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], tolerance: Tolerance
    ) -> torch.Tensor | None:
        """Begin to look at the pairs, of one size each: (pairs, 3) of float64, left on the device; or None where this
        is for torch to do.

        Behind what torch has been asked for on its current stream: references may still be worked out. Raises
        DriverError.
        """
        dtype, size = want[0].dtype, want[0].numel()
        if dtype not in (torch.bfloat16, torch.float32):
            return None
        if any(t.dtype != dtype or t.numel() != size or t.device.type != self.device for t in (*got, *want)):
            return None
        rows = torch.zeros((len(want), ROW_WORDS), dtype=torch.float64, device=want[0].device)
        if size:
            for begin in range(0, len(want), PAIRS):
                # What is made contiguous here may be freed before it is read: only later work of the stream gets it.
                some = [[t.reshape(-1) for t in side[begin : begin + PAIRS]] for side in (got, want)]
                self._launch(some[0], some[1], tolerance, rows[begin:])
        return rows[:, :3]

    def _launch(
        self, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], tolerance: Tolerance, rows: torch.Tensor
    ) -> None:
        pairs = _Pairs()
        for number, (g, w) in enumerate(zip(got, want, strict=True)):
            pairs.got[number], pairs.want[number] = g.data_ptr(), w.data_ptr()
        halves = want[0].dtype.itemsize == 2
        needed = -(-want[0].nbytes // (LOAD_BYTES * BLOCK))
        blocks = max(1, min(needed, self._resident // len(want)))  # all at once: none waits for others to be through
        parameters, _alive = packed(
            pairs, c_uint(blocks), c_ulonglong(want[0].numel()), c_uint(halves), c_float(tolerance.max_rtol),
            c_float(tolerance.max_atol), c_void_p(rows.data_ptr()),
        )
        self._driver.launch(self._kernel, blocks * len(want), BLOCK, self.stream(), parameters)

    def stream(self) -> int:
        """The one that torch's work is on."""
        return int(torch.cuda.current_stream().cuda_stream)

"""The judge's own work on the device while a grid of a runner's fills it: inputs are written, outputs fetched.

Copies within one device, and freeing the lines that the L2 was asked to keep, belong to the judge's context, and the
device gives that a turn only when the runner's time slice is over: some 2.4 ms on an H200, whichever way copies are
asked for. Until then they wait. They must not be left to do either: what is still to be done when calls are timed takes
the device away from them. So everything is waited for, and then the runner's grid is asked whether it is back
(``DevicePage.recall``). A kernel does the copies, as another clears the cache of them, so that one turn is enough for
both. Fetching to the host needs none. A stream of its own keeps copies apart from whatever kernels ran before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from ctypes import c_size_t, c_ulonglong, c_void_p
from typing import Any

import torch

from agentcore.judge.runner.driver import Driver, packed

BLOCK, MOST_BLOCKS, BYTES_A_BLOCK = 512, 1056, 1 << 14
NOT_READY = 600
NOT_SUPPORTED = 801

WAIT_S, SLOWEST_BYTES_PER_S = 2.0, 2e9
"""Longer than this, and what copying at this rate takes, no copy lasts: then something keeps it from the device."""


class StillCopying(RuntimeError):
    """A copy waits for something that holds the device."""


class Copier:
    """Copies on a stream of its own, which waits for nothing: sources must have been written before."""

    def __init__(self, driver: Driver, copying: Any) -> None:
        """``copying`` is ky_copy of the judge's device code."""
        self._driver, self._copying = driver, copying
        self.stream = driver.stream()
        self._stream = c_void_p(self.stream)
        self._pending = 0

    def copy(self, copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Begin to copy bytes on the device, (to, from) each, contiguous and of one size. Raises DriverError.

        Before them no line of the L2 is kept longer than others any more: a runner may have asked for that at the very
        addresses written to.
        """
        if not copies:
            return
        self.reset()
        for to, source in copies:
            assert to.nbytes == source.nbytes and to.is_contiguous() and source.is_contiguous()
            self._pending += to.nbytes
            parameters, _alive = packed(
                c_void_p(to.data_ptr()), c_void_p(source.data_ptr()), c_ulonglong(to.nbytes)
            )
            blocks = min(MOST_BLOCKS, -(-to.nbytes // BYTES_A_BLOCK))
            self._driver.launch(self._copying, blocks, BLOCK, self.stream, parameters)

    def fetch(self, host: torch.Tensor, source: torch.Tensor) -> None:
        """Begin to copy to pinned host memory."""
        assert host.nbytes == source.nbytes and host.is_contiguous() and source.is_contiguous()
        self._pending += host.nbytes
        self._driver.call(
            "cuMemcpyDtoHAsync_v2", c_void_p(host.data_ptr()), c_ulonglong(source.data_ptr()), c_size_t(host.nbytes),
            self._stream,
        )

    def wait(self) -> None:
        """Until all copies are done, by asking: a wait in the driver could not be given up. Raises StillCopying."""
        limit = time.monotonic() + WAIT_S + self._pending / SLOWEST_BYTES_PER_S
        while (code := self._driver.library.cuStreamQuery(self._stream)) == NOT_READY:
            if time.monotonic() > limit:
                raise StillCopying(
                    f"the judge's copies of {self._pending} bytes did not finish within {WAIT_S:g} s: something keeps"
                    " them from the device"
                )
        if code:
            self._driver.call("cuStreamQuery", self._stream)
        self._pending = 0

    def reset(self) -> None:
        """No line of the L2 is kept longer than others from now on, whoever asked. Done once a later copy is. Raises
        DriverError.
        """
        code = self._driver.library.cuCtxResetPersistingL2Cache()
        if code not in (0, NOT_SUPPORTED):
            self._driver.call("cuCtxResetPersistingL2Cache")


def pinned(shape: Sequence[int]) -> torch.Tensor:
    """Bytes in host memory, pinned where there is a device to pin them for."""
    return torch.empty(tuple(shape), dtype=torch.uint8, pin_memory=torch.cuda.is_available())

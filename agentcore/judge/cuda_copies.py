"""Copies that need no multiprocessor: how the judge writes inputs and fetches outputs while a runner holds the GPU.

A plain copy within one device is done by a kernel, since that is faster. While a grid of another process fills every
multiprocessor, a kernel of the judge's waits until the device switches contexts, which takes long and may go on while
calls are timed. So the copy engine is asked for (CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE of cuMemcpyBatchAsync; some
90 GB/s within a device). That is a hint, so what it leads to is measured (choose_way); where it is ignored, copies go
by way of pinned host memory. A stream of its own keeps copies apart from whatever kernels ran before.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from enum import StrEnum
from statistics import median

import torch

from agentcore.judge.runner.driver import Driver, DriverError

SOURCE_IN_STREAM_ORDER = 1
PREFER_OVERLAP_WITH_COMPUTE = 1
NOT_READY = 600
NOT_SUPPORTED = 801

WAIT_S, SLOWEST_BYTES_PER_S = 2.0, 2e9
"""Longer than this, and what copying at this rate takes, no copy lasts: then something keeps it from the device."""
PROBE_BYTES, PROBES = 1 << 16, 7
HELD_US = 100.0
"""What a copy of PROBE_BYTES takes at most without a multiprocessor; to save and restore a full GPU takes longer."""


class StillCopying(RuntimeError):
    """A copy waits for something that holds the device."""


class Way(StrEnum):
    ENGINE = "copy engine"
    PLAIN = "plain"
    HOST = "by way of the host"


class _Attributes(ctypes.Structure):
    """CUmemcpyAttributes. Its hints about locations are of managed memory only."""

    _fields_ = (
        ("order", c_int), ("source_type", c_int), ("source_id", c_int), ("target_type", c_int), ("target_id", c_int),
        ("flags", c_uint),
    )


class Copier:
    """Copies on a stream of its own, which waits for nothing: sources must have been written before."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._stream = c_void_p(driver.stream())
        # With this name since CUDA 13; its predecessor took other arguments.
        self._has_batches = hasattr(driver.library, "cuMemcpyBatchAsync_v2")
        self.way = Way.ENGINE if self._has_batches else Way.PLAIN
        self.resets_held = False
        """Whether persisting lines of the L2 can be reset while a grid holds the GPU."""
        self.held_us: dict[str, float] = {}
        """What each way took when it was tried, µs; and "reset"."""
        self._pending = 0

    def ways(self) -> list[Way]:
        """The ways this driver has, best first."""
        return [Way.ENGINE, Way.PLAIN, Way.HOST] if self._has_batches else [Way.PLAIN, Way.HOST]

    def room(self, shape: Sequence[int]) -> torch.Tensor | None:
        """Pinned host memory that sources must be put into before they are copied; None where they stay as they are."""
        return pinned(shape) if self.way is Way.HOST else None

    def copy(self, copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Begin to copy bytes, (to, from) each, contiguous and of one size. Raises DriverError."""
        if not copies:
            return
        for to, source in copies:
            assert to.nbytes == source.nbytes and to.is_contiguous() and source.is_contiguous()
            self._pending += to.nbytes
        if self.way is Way.ENGINE:
            self._batch(copies)
            return
        name = "cuMemcpyHtoDAsync_v2" if self.way is Way.HOST else "cuMemcpyDtoDAsync_v2"
        for to, source in copies:
            self._driver.call(
                name, c_ulonglong(to.data_ptr()), c_void_p(source.data_ptr()), c_size_t(to.nbytes), self._stream
            )

    def _batch(self, copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        count = len(copies)
        attributes = _Attributes(order=SOURCE_IN_STREAM_ORDER, flags=PREFER_OVERLAP_WITH_COMPUTE)
        self._driver.call(
            "cuMemcpyBatchAsync_v2", (c_ulonglong * count)(*(to.data_ptr() for to, _ in copies)),
            (c_ulonglong * count)(*(source.data_ptr() for _, source in copies)),
            (c_size_t * count)(*(to.nbytes for to, _ in copies)), c_size_t(count), byref(attributes),
            byref(c_size_t(0)), c_size_t(1), self._stream,
        )

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
                    f"the judge's copies of {self._pending} bytes ({self.way}) did not finish within {WAIT_S:g} s:"
                    " something keeps them from the device"
                )
        if code:
            self._driver.call("cuStreamQuery", self._stream)
        self._pending = 0

    def reset(self) -> None:
        """No line of the L2 is kept longer than others from now on, whoever asked. Raises DriverError."""
        code = self._driver.library.cuCtxResetPersistingL2Cache()
        if code not in (0, NOT_SUPPORTED):
            self._driver.call("cuCtxResetPersistingL2Cache")

    # -- what works while the device is held -----------------------------------------------------------------------

    def choose_way(self, to: torch.Tensor, held: Callable[[Callable[[], None]], None]) -> None:
        """Take the first way that is quick while a grid of another process fills the GPU, else the quickest.

        ``to``: at least PROBE_BYTES that the device may write. ``held`` calls its argument while such a grid is there,
        and lets the grid go even if that raises.
        """
        target = to[:PROBE_BYTES]
        found: dict[Way, float] = {}
        for way in self.ways():
            self.way = way
            try:
                found[way] = self._held_us_of(target, held)
            except DriverError:  # this driver does not know it after all
                found[way] = math.inf
            self.held_us[way] = found[way]
            if found[way] <= HELD_US:
                break
        self.way = min(found, key=lambda way: (found[way] > HELD_US, found[way]))
        self._choose_reset(held)

    def _held_us_of(self, target: torch.Tensor, held: Callable[[Callable[[], None]], None]) -> float:
        source = target.clone()
        if (room := self.room(source.shape)) is not None:
            source = room.copy_(source)
        if target.device.type == "cuda":
            torch.cuda.synchronize()
        self.copy([(target, source)])  # the first of a kind may allocate
        self.wait()
        took: list[float] = []

        def probe() -> None:
            for _ in range(PROBES):
                begun = time.perf_counter_ns()
                self.copy([(target, source)])
                self.wait()
                took.append((time.perf_counter_ns() - begun) / 1e3)

        try:
            held(probe)
        except StillCopying:
            took = [math.inf]
            self._driver.call("cuStreamSynchronize", self._stream)  # the grid is gone now
            self._pending = 0
        return median(took)

    def _choose_reset(self, held: Callable[[Callable[[], None]], None]) -> None:
        """In a thread, for it might wait until the grid is gone."""
        context = c_void_p()
        self._driver.call("cuCtxGetCurrent", byref(context))
        took: list[float] = []

        def resetting() -> None:
            self._driver.call("cuCtxSetCurrent", context)
            for _ in range(PROBES):
                begun = time.perf_counter_ns()
                self.reset()
                took.append((time.perf_counter_ns() - begun) / 1e3)

        thread = threading.Thread(target=resetting, daemon=True)

        def probe() -> None:
            thread.start()
            thread.join(WAIT_S / 4)

        self.reset()
        held(probe)
        thread.join(WAIT_S)
        self.held_us["reset"] = median(took) if len(took) == PROBES else math.inf
        self.resets_held = self.held_us["reset"] <= HELD_US

    def line(self) -> str:
        """What was found, for a log."""
        tried = ", ".join(f"{name} {us:.0f} µs" for name, us in self.held_us.items())
        return f"inputs are copied {self.way}, persisting lines {'are' if self.resets_held else 'are not'} reset" \
               f" before every pair; while the GPU was held took: {tried}"


def pinned(shape: Sequence[int]) -> torch.Tensor:
    """Bytes in host memory, pinned where there is a device to pin them for."""
    return torch.empty(tuple(shape), dtype=torch.uint8, pin_memory=torch.cuda.is_available())

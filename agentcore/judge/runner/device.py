"""The GPU target in the runner: VMM buffers, and batches of calls enqueued behind gates only the judge opens."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
from collections.abc import Iterator
from ctypes import c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

import kernel  # type: ignore[import-not-found]
import pages  # type: ignore[import-not-found]
from driver import Driver, packed  # type: ignore[import-not-found]

BLOCK = 1024
MAX_OUTPUTS = 8
HOLD_BYTES = 64
KERNELS = ("ky_gate", "ky_clear", "ky_stay", "ky_flush", "ky_begin", "ky_end", "ky_touch")


class Outputs(ctypes.Structure):
    _fields_ = (
        ("address", c_ulonglong * MAX_OUTPUTS), ("words", c_ulonglong * MAX_OUTPUTS), ("count", c_ulonglong),
    )


class _View:
    """A device range for torch, by the CUDA array interface."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None,
        }


class _CallLaunches:
    """The parameters of the judge's own kernels around a batch's call of one number, packed once."""

    def __init__(self, target: DeviceTarget, index: int, threshold: int | None = None) -> None:
        page, seed = target.page_device, c_void_p(target.seeds + 8 * index)
        mark = page + pages.MARK_OFFSET + 16 * index
        proof = page + pages.PROOF_OFFSET + 4 * pages.PROOF_WORDS * index
        seed_word = c_void_p(page + pages.SEED_OFFSET + 8 * index)
        gate = c_void_p(page + 8 * pages.DEVICE_GATE)
        opens_at = c_ulonglong(index + 1 if threshold is None else threshold)
        self.gate, keep_gate = packed(gate, opens_at, seed_word, seed)
        holding = (
            opens_at, c_void_p(page + pages.KEY_OFFSET + 16 * index), seed_word, seed, c_void_p(target.region),
            c_ulonglong(target.region_bytes // 16), c_void_p(target.hold),
            c_void_p(page + pages.HELD_OFFSET + 8 * pages.HELD_WORDS * index),
        )
        published, looked = (c_void_p(page + 8 * word) for word in (pages.DEVICE_PUBLISHED, pages.DEVICE_LOOKED))
        # Of the marks behind a pair, only that at its second call's place is anybody's.
        nobodys = c_void_p(page + pages.OVER_OFFSET + 8 * (index ^ 1))
        self.clear, keep_clear = packed(published, gate, *holding, c_void_p(mark), target.token)
        self.stay, keep_stay = packed(looked, looked, *holding, nobodys, target.token)
        self.begin, keep_begin = packed(c_void_p(mark), target.token)
        self._end, keep_end = packed(Outputs(), seed, c_void_p(proof), c_void_p(mark + 8), target.token)
        self.over, keep_over = packed(c_void_p(page + pages.OVER_OFFSET + 8 * index), target.token)
        self._keep = (keep_gate, keep_clear, keep_stay, keep_begin, keep_end, keep_over)

    def end(self, outputs: Outputs) -> Any:
        """The end mark's parameters for the call's slot; the driver copies them at the launch."""
        self._end[0] = ctypes.addressof(outputs)
        return self._end


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage is collected meanwhile; it is again afterwards, whatever is raised."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class DeviceTarget:
    def __init__(self) -> None:
        self.driver: Any = None
        self.kernel: Any = None
        self.is_python = False
        self.calls: list[Any] = []
        self.outputs: list[Outputs] = []
        self.mapped: list[tuple[int, int]] = []
        self.launches: list[_CallLaunches] = []
        self.token = c_ulonglong()

    def handle(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        method = getattr(self, "do_" + request["op"])
        answer: dict[str, Any] = method(request, descriptors)
        return answer

    def do_prepare(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Import what takes seconds, without touching the device."""
        if request["language"] not in ("cuda", "none"):
            import torch  # noqa: F401
        return {"op": "prepared"}

    def do_hello(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self.driver = Driver()
        self.driver.use_primary_context()
        self.stream = self.driver.stream()
        self.functions = self.driver.functions(Path(request["gate"]).read_bytes(), KERNELS)
        self.clear_grid, self.region_bytes = int(request["clear_grid"]), int(request["region_bytes"])
        self.region = self.driver.import_buffer(descriptors[1], int(request["region_size"]), False)
        self.sink = self.driver.allocate(256)
        self.hold = self.driver.allocate(HOLD_BYTES)
        self.seeds = self.driver.allocate(8 * pages.MAX_CALLS)
        self.page = mmap.mmap(descriptors[0], pages.DEVICE_PAGE_BYTES)
        for descriptor in descriptors:
            os.close(descriptor)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.page_device = self.driver.register_host(base, pages.DEVICE_PAGE_BYTES)
        self.words = memoryview(self.page).cast("Q")
        self.flush_parameters, self.keep = packed(
            c_void_p(self.region), c_ulonglong(self.region_bytes // 16), c_void_p(self.sink)
        )
        self._load_kernels()
        return {"op": "ready"}

    def _load_kernels(self) -> None:
        """Run every kernel of ours once, behind no gate: loading one may wait for the device."""
        self._synchronize()  # memory was cleared on another stream than kernels run on
        launches, functions, outputs = _CallLaunches(self, 0, threshold=0), self.functions, Outputs()
        touched, _alive = packed(c_void_p(self.sink), c_ulonglong(1))
        self.driver.launch(functions["ky_gate"], 1, 1, self.stream, launches.gate)
        self.driver.launch(functions["ky_clear"], self.clear_grid, BLOCK, self.stream, launches.clear)
        self.driver.launch(functions["ky_stay"], self.clear_grid, BLOCK, self.stream, launches.stay)
        self.driver.launch(functions["ky_flush"], self.clear_grid, BLOCK, self.stream, self.flush_parameters)
        self.driver.launch(functions["ky_begin"], 1, 1, self.stream, launches.begin)
        self.driver.launch(functions["ky_touch"], 1, 1, self.stream, touched)
        self.driver.launch(functions["ky_end"], 1, pages.PROOF_WORDS, self.stream, launches.end(outputs))
        self._synchronize()

    def do_load(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self.is_python = request["language"] not in ("cuda", "none")
        if self.is_python:
            kernel.import_torch().cuda.init()
            self.kernel = kernel.PythonKernel(request["path"])
        elif request["language"] == "none":
            self.kernel = None
        else:
            self.kernel = kernel.CompiledKernel(request["path"])
        return {"op": "loaded"}

    def do_buffers(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        for address, size in self.mapped:
            self.driver.unmap(address, size)
        self.calls, self.outputs, self.mapped = [], [], []
        if self.is_python:
            gc.collect()  # a framework's garbage may hold device memory
        parameters = request["parameters"]
        bases: list[int | None] = []
        for parameter in parameters:
            if parameter.get("fd") is None:
                bases.append(None)
                continue
            address = self.driver.import_buffer(
                descriptors[parameter["fd"]], parameter["size"], bool(parameter["writable"])
            )
            self.mapped.append((address, parameter["size"]))
            bases.append(address)
        for descriptor in descriptors:
            os.close(descriptor)
        for slot in range(request["slots"]):
            addresses = [
                None if base is None else base + p["offset"] + slot * p["stride"]
                for base, p in zip(bases, parameters, strict=True)
            ]
            self.outputs.append(self._outputs(parameters, addresses))
            self.calls.append(self._bind(parameters, addresses))
        return {"op": "mapped"}

    @staticmethod
    def _outputs(parameters: list[dict[str, Any]], addresses: list[int | None]) -> Outputs:
        """Where a call's proof may look: the first outputs, in whole words."""
        found = Outputs()
        for parameter, address in zip(parameters, addresses, strict=True):
            if parameter["role"] == "output" and address is not None and found.count < MAX_OUTPUTS:
                found.address[found.count] = address
                found.words[found.count] = parameter["nbytes"] // 4
                found.count += 1
        return found

    def _bind(self, parameters: list[dict[str, Any]], addresses: list[int | None]) -> Any:
        if self.kernel is None:
            return None
        if not self.is_python:
            return self.kernel.bind(parameters, addresses, self.stream)
        import torch

        tensors = []
        for parameter, address in zip(parameters, addresses, strict=True):
            if address is None:
                continue
            dtype = getattr(torch, parameter["dtype"])
            if parameter["nbytes"]:
                raw = torch.as_tensor(_View(address, parameter["nbytes"]), device="cuda")
                tensors.append(raw.view(dtype).reshape(parameter["shape"]))
            else:
                tensors.append(torch.empty(parameter["shape"], dtype=dtype, device="cuda"))
        made = iter(tensors)
        return self.kernel.bind(kernel.call_arguments(parameters, lambda _p: next(made)))

    # -- calls ---------------------------------------------------------------------------------------------------

    def _streams(self) -> Any:
        """The stream Python candidates see as current is the gated one."""
        if not self.is_python:
            return contextlib.nullcontext()
        import torch

        return torch.cuda.stream(torch.cuda.ExternalStream(self.stream))  # type: ignore[no-untyped-call]

    def _synchronize(self) -> None:
        self.driver.call("cuCtxSynchronize")

    def do_warm(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Ungated calls: lazy loading, first allocations and JIT happen here."""
        with self._streams():
            for slot in request["slots"]:
                status = self.calls[slot]()
                if status:
                    return {"op": "warm", "status": status}
                self._synchronize()
        return {"op": "warm", "status": 0}

    def do_enqueue(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """[gate][clear, or gate and begin][call][end][over?][stay?] for every slot named; nothing runs until the judge
        admits it.

        ``flush`` holds one flag per call: ky_clear, which is gate, flush and begin mark in one; behind a call that has
        none an ``over`` mark, and a grid that stays until the judge has looked. ``kind`` is ``call``; for calibration
        ``none`` or ``touch``.
        """
        driver, functions, stream, kind = self.driver, self.functions, self.stream, request["kind"]
        gate, begin, end = (functions[name] for name in ("ky_gate", "ky_begin", "ky_end"))
        self.token.value, first = request["token"], int(request["first"])
        status = 0
        with self._streams(), _no_collections():  # one in between would be time that nobody measures
            self._enqueue_gate(pages.DEVICE_ADMITTED, first + 1)
            for index, (slot, flush) in enumerate(zip(request["slots"], request["flush"], strict=True), first):
                while index >= len(self.launches):
                    self.launches.append(_CallLaunches(self, len(self.launches)))
                launches, outputs = self.launches[index], self.outputs[slot]
                if flush:
                    driver.launch(functions["ky_clear"], self.clear_grid, BLOCK, stream, launches.clear)
                else:
                    driver.launch(gate, 1, 1, stream, launches.gate)
                    driver.launch(begin, 1, 1, stream, launches.begin)
                if kind == "call":
                    status = status or self.calls[slot]()
                elif kind == "touch":
                    for k in range(outputs.count):
                        pointers, _alive = packed(c_void_p(outputs.address[k]), c_ulonglong(outputs.words[k]))
                        driver.launch(functions["ky_touch"], 264, 256, stream, pointers)
                driver.launch(end, 1, pages.PROOF_WORDS, stream, launches.end(outputs))
                if not flush:
                    driver.launch(begin, 1, 1, stream, launches.over)
                    driver.launch(functions["ky_stay"], self.clear_grid, BLOCK, stream, launches.stay)
        return {"op": "enqueued", "status": status}

    def _enqueue_gate(self, word: int, opens_at: int) -> None:
        """A gate that no call belongs to: nothing behind it runs before that word of the page is so large."""
        parameters, _alive = packed(
            c_void_p(self.page_device + 8 * word), c_ulonglong(opens_at),
            c_void_p(self.page_device + pages.SEED_OFFSET), c_void_p(self.seeds),
        )
        self.driver.launch(self.functions["ky_gate"], 1, 1, self.stream, parameters)

    def do_idle(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Wait until everything of this context is finished; a device error surfaces here."""
        self._synchronize()
        return {"op": "idle"}

    def do_claim(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """The runner's own clock: CUDA events around single calls after a flush. A claim, compared by the judge.

        They are enqueued behind a gate of the runner's own, as many at a time as in a batch, so that launching takes no
        part of them and the driver's queue holds them; one by one where the candidate needs the host in its calls.
        """
        events = [(self.driver.event(), self.driver.event()) for _ in request["slots"]]
        calls = [*zip(request["slots"], events, strict=True)]
        together = pages.CALLS_ENQUEUED if request["gated"] else 1
        with self._streams():
            for first in range(0, len(calls), together):
                if request["gated"]:
                    self._enqueue_gate(pages.DEVICE_GATE, first + 1)
                try:
                    for slot, (begin, end) in calls[first : first + together]:
                        self.driver.launch(
                            self.functions["ky_flush"], self.clear_grid, BLOCK, self.stream, self.flush_parameters
                        )
                        self.driver.call("cuEventRecord", begin, c_void_p(self.stream))
                        if status := self.calls[slot]():
                            raise RuntimeError(f"kernel_launch returned {status}")
                        self.driver.call("cuEventRecord", end, c_void_p(self.stream))
                finally:  # whatever a call raises: nothing behind a closed gate would ever end
                    self.words[pages.DEVICE_GATE] = first + 1
                self._synchronize()
        return {"op": "claim", "latencies_us": [self.driver.elapsed_us(*pair) for pair in events]}

    def do_serve(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """For candidates that synchronise by themselves: one call at a time, on the judge's word.

        The judge posts (slot, then sequence) in the page; a call ends with a context-wide synchronise.
        """
        words, reply = self.words, pages.MARK_OFFSET // 8
        with self._streams():
            for sequence in range(request["first"], request["first"] + request["count"]):
                while words[pages.DEVICE_SEQUENCE] < sequence:
                    pass
                status = self.calls[words[pages.DEVICE_SLOT]]()
                if status:
                    return {"op": "finished", "status": status}
                self._synchronize()
                words[reply] = sequence
        return {"op": "finished", "status": 0}

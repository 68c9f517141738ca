"""The CPU target in the runner: memfd buffers, and a call for every sequence number the judge posts."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import time
from typing import Any

import kernel  # type: ignore[import-not-found]
import pages  # type: ignore[import-not-found]


def _address(mapping: mmap.mmap, writable: bool) -> int:
    """Where a mapping starts. A read-only one has to be asked through the buffer protocol's C interface."""
    if writable:
        return ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    view = (ctypes.c_byte * 128)()  # a Py_buffer, of which only the first field (void *buf) is read
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    get(mapping, ctypes.addressof(view), 0)
    return ctypes.c_void_p.from_buffer(view).value or 0


class HostTarget:
    def __init__(self) -> None:
        self.kernel: Any = None
        self.is_python = False
        self.calls: list[Any] = []
        self.mappings: list[Any] = []
        self.command: memoryview | None = None
        self.reply: memoryview | None = None
        self.addresses: tuple[int, int] = (0, 0)
        self.serve: Any = None

    def handle(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        method = getattr(self, "do_" + request["op"])
        answer: dict[str, Any] = method(request, descriptors)
        return answer

    def do_hello(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        command, reply = descriptors
        commands = mmap.mmap(command, pages.HOST_PAGE_BYTES, prot=mmap.PROT_READ)
        replies = mmap.mmap(reply, pages.HOST_PAGE_BYTES)
        self.addresses = _address(commands, writable=False), _address(replies, writable=True)
        self.command, self.reply = memoryview(commands).cast("Q"), memoryview(replies).cast("q")
        for descriptor in descriptors:
            os.close(descriptor)
        if request.get("serve"):
            self.serve = ctypes.CDLL(request["serve"]).ky_serve
            self.serve.restype = None
            self.serve.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_uint64]
        return {"op": "ready"}

    def do_load(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if request["language"] == "none":  # the judge's own calibration
            self.calls = [lambda: 0]
            return {"op": "loaded"}
        self.is_python = request["language"] not in ("cpp", "cuda")
        if self.is_python:
            kernel.import_torch().set_num_threads(int(request["threads"]))
            self.kernel = kernel.PythonKernel(request["path"])
        else:
            self.kernel = kernel.CompiledKernel(request["path"])
        return {"op": "loaded"}

    def do_buffers(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Map one workload's buffers and bind a call per slot. Earlier workloads' mappings are left behind."""
        self.calls, self.mappings = [], []
        maps: list[tuple[mmap.mmap, int] | None] = []
        parameters = request["parameters"]
        for parameter in parameters:
            if parameter.get("fd") is None:
                maps.append(None)
                continue
            writable = bool(parameter["writable"])
            prot = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            mapping = mmap.mmap(descriptors[parameter["fd"]], parameter["size"], prot=prot)
            maps.append((mapping, _address(mapping, writable)))
        for descriptor in descriptors:
            os.close(descriptor)
        self.mappings = maps
        for slot in range(request["slots"]):
            offsets = [p["offset"] + slot * p["stride"] if m else 0 for p, m in zip(parameters, maps, strict=True)]
            if self.is_python:
                tensors = iter(
                    self._tensor(p, m[0], o) for p, m, o in zip(parameters, maps, offsets, strict=True) if m
                )
                self.calls.append(self.kernel.bind(kernel.call_arguments(parameters, lambda _p, t=tensors: next(t))))
            else:
                addresses = [m[1] + o if m else None for m, o in zip(maps, offsets, strict=True)]
                self.calls.append(self.kernel.bind(parameters, addresses, 0))
        return {"op": "mapped"}

    @staticmethod
    def _tensor(parameter: dict[str, Any], mapping: mmap.mmap, offset: int) -> Any:
        import warnings

        import torch

        if parameter["nbytes"] == 0:
            return torch.empty(parameter["shape"], dtype=getattr(torch, parameter["dtype"]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # inputs are read-only on purpose
            raw = torch.frombuffer(mapping, dtype=torch.uint8, count=parameter["nbytes"], offset=offset)
        return raw.view(getattr(torch, parameter["dtype"])).reshape(parameter["shape"])

    def do_calls(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Serve calls, each begun when the judge raises the command sequence to ``first`` + i, until it jumps ahead.

        The judge stops this process between calls; the echo at a call's beginning says how long waking up took.
        """
        if self.serve is not None:
            return self._serve(request["first"])
        command, reply, calls = self.command, self.reply, self.calls
        assert command is not None and reply is not None
        clock = time.perf_counter_ns
        failure = ""
        gc.collect()
        gc.disable()
        sequence = request["first"] - 1
        while True:
            sequence += 1
            while command[pages.COMMAND_SEQUENCE] < sequence:
                pass
            if command[pages.COMMAND_SEQUENCE] > sequence:
                break  # the judge has given up on the rest of this series
            call = calls[command[pages.COMMAND_SLOT]]
            reply[pages.REPLY_ARMED] = sequence
            begun = clock()
            try:
                status = call()
            except Exception as error:
                status, failure = -1, f"{type(error).__name__}: {error}"[:2000]
            reply[pages.REPLY_CLAIMED_NS] = clock() - begun
            reply[pages.REPLY_STATUS] = status
            reply[pages.REPLY_SEQUENCE] = sequence
        gc.enable()
        return {"op": "finished", "message": failure}

    def _serve(self, first: int) -> dict[str, Any]:
        """The same for a compiled kernel, or for none, in native code (serve.c)."""
        arguments = (ctypes.c_void_p * max(1, len(self.calls)))()
        entry = None
        if self.kernel is not None:
            entry = ctypes.cast(self.kernel.entry, ctypes.c_void_p)
            for slot, call in enumerate(self.calls):
                arguments[slot] = call.argument
        self.serve(*self.addresses, entry, arguments, first)
        return {"op": "finished", "message": ""}

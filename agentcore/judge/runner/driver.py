"""The CUDA driver API through ctypes: only what the runner needs, so that it starts in 0.4 s without torch."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

LOCATION_DEVICE = 1
ACCESS_READ = 1
ACCESS_READ_WRITE = 3
HANDLE_POSIX_FD = 1
HOST_REGISTER_DEVICEMAP = 2
STREAM_NON_BLOCKING = 1


class DriverError(RuntimeError):
    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


class AccessDescription(ctypes.Structure):
    _fields_ = (("location_type", c_int), ("location_id", c_int), ("flags", c_int))


class Driver:
    """libcuda with error checking. Raises DriverError naming the call."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = c_char_p()
            self.library.cuGetErrorName(c_int(code), byref(text))
            raise DriverError(name, code, (text.value or b"unknown error").decode())

    def use_primary_context(self) -> None:
        device, context = c_int(), c_void_p()
        self.call("cuDeviceGet", byref(device), c_int(0))
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def stream(self) -> int:
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), c_uint(STREAM_NON_BLOCKING))
        return stream.value or 0

    def import_buffer(self, descriptor: int, size: int, writable: bool) -> int:
        """Map a VMM allocation received as a file descriptor; returns its device address."""
        handle, address = c_ulonglong(), c_ulonglong()
        self.call("cuMemImportFromShareableHandle", byref(handle), c_void_p(descriptor), c_int(HANDLE_POSIX_FD))
        self.call("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_ulonglong(0), c_ulonglong(0))
        self.call("cuMemMap", address, c_size_t(size), c_size_t(0), handle, c_ulonglong(0))
        access = AccessDescription(LOCATION_DEVICE, 0, ACCESS_READ_WRITE if writable else ACCESS_READ)
        self.call("cuMemSetAccess", address, c_size_t(size), byref(access), c_size_t(1))
        self.call("cuMemRelease", handle)
        return address.value

    def unmap(self, address: int, size: int) -> None:
        self.call("cuMemUnmap", c_ulonglong(address), c_size_t(size))
        self.call("cuMemAddressFree", c_ulonglong(address), c_size_t(size))

    def register_host(self, address: int, size: int) -> int:
        """Pin host memory and map it into the device; returns its device address."""
        device = c_ulonglong()
        self.call("cuMemHostRegister_v2", c_void_p(address), c_size_t(size), c_uint(HOST_REGISTER_DEVICEMAP))
        self.call("cuMemHostGetDevicePointer_v2", byref(device), c_void_p(address), c_uint(0))
        return device.value

    def allocate(self, size: int) -> int:
        address = c_ulonglong()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), c_size_t(size))
        return address.value

    def functions(self, cubin: bytes, names: tuple[str, ...]) -> dict[str, c_void_p]:
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), cubin)
        found = {}
        for name in names:
            function = c_void_p()
            self.call("cuModuleGetFunction", byref(function), module, name.encode())
            found[name] = function
        return found

    def resident_blocks(self, function: c_void_p, block: int) -> int:
        """How many blocks of so many threads a multiprocessor holds at a time."""
        blocks = c_int()
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor", byref(blocks), function, c_int(block), c_size_t(0)
        )
        return blocks.value

    def event(self) -> c_void_p:
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def elapsed_us(self, begin: c_void_p, end: c_void_p) -> float:
        milliseconds = c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), begin, end)
        return milliseconds.value * 1e3

    def launch(self, function: c_void_p, grid: int, block: int, stream: int, parameters: Any) -> None:
        code = self.library.cuLaunchKernel(
            function, grid, 1, 1, block, 1, 1, 0, c_void_p(stream), parameters, None
        )
        if code:
            raise DriverError("cuLaunchKernel", code, "launch refused")


def packed(*values: Any) -> tuple[Any, Any]:
    """Kernel parameters for cuLaunchKernel: (pointer array, the values to keep alive)."""
    pointers = (c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(v), c_void_p) for v in values))
    return ctypes.cast(pointers, POINTER(c_void_p)), (pointers, values)

"""Loads a candidate and turns (parameters, slot) into a call: compiled kernels by C ABI, Python ones by import."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

ABI_VERSION = 1
Call = Callable[[], int]


def import_torch() -> Any:
    """torch, imported without garbage collections, which take a fifth of that time and find nothing.

    Later collections leave its objects alone: walking them takes 0.1 s, and one comes before every series of calls.
    """
    gc.disable()
    try:
        import torch
    finally:
        gc.enable()
    gc.freeze()
    return torch


class CompiledKernel:
    """A shared object with ``ky_call`` (see the generated entry source). Calls return the kernel's own status."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        version = ctypes.c_int.in_dll(self.library, "ky_abi_version").value
        if version != ABI_VERSION:
            raise RuntimeError(f"{path}: ABI version {version}, this runner speaks {ABI_VERSION}")
        self.entry = self.library.ky_call
        self.entry.restype = ctypes.c_int
        self.entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def bind(self, parameters: list[dict[str, Any]], addresses: list[int | None], stream: int) -> CompiledCall:
        """One slot's call. ``addresses`` has a device or host pointer per tensor, None per scalar or axis."""
        values: list[Any] = []
        pointers = (ctypes.c_void_p * len(parameters))()
        for index, (parameter, address) in enumerate(zip(parameters, addresses, strict=True)):
            if address is not None:
                pointers[index] = address
                continue
            kind = ctypes.c_double if parameter["type"] == "float" else ctypes.c_int64
            value = kind(parameter["value"])
            values.append(value)
            pointers[index] = ctypes.addressof(value)
        return CompiledCall(self.entry, pointers, stream, values)


class CompiledCall:
    """One slot's call of a compiled kernel; ``argument`` is where its array of pointers lies."""

    def __init__(self, entry: Any, pointers: Any, stream: int, keep: list[Any]) -> None:
        self._entry, self._stream, self._keep = entry, stream, (pointers, keep)
        self.argument = ctypes.addressof(pointers)

    def __call__(self) -> int:
        status: int = self._entry(self.argument, self._stream)
        return status


class PythonKernel:
    """A ``kernel.py`` whose ``run(*inputs, *outputs)`` writes into the outputs it is given."""

    def __init__(self, path: str) -> None:
        sys.path.insert(0, path.rsplit("/", 1)[0])
        spec = importlib.util.spec_from_file_location("kernel", path)
        if spec is None or spec.loader is None:
            raise RuntimeError(f"{path}: not a Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules["kernel"] = module
        spec.loader.exec_module(module)
        run = getattr(module, "run", None)
        if not callable(run):
            raise RuntimeError("kernel.py defines no function run(*inputs, *outputs)")
        self.run = run

    def bind(self, arguments: list[Any]) -> Call:
        """One slot's call over tensors (and Python numbers) already made."""
        run = self.run

        def call() -> int:
            run(*arguments)
            return 0

        return call


def call_arguments(parameters: list[dict[str, Any]], make_tensor: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """The Python arguments of one slot: tensors and scalars, axes left out (shapes carry them)."""
    arguments = []
    for parameter in parameters:
        if parameter["role"] in ("input", "output"):
            arguments.append(make_tensor(parameter))
        elif parameter["role"] == "scalar":
            arguments.append(parameter["value"])
    return arguments

"""Runs a CuTe DSL starting kernel on the CPU: its own host code, and its PTX by ``ptx``. Prints how right outputs are.

``python cute_interpreter.py PROBLEM_DIR KERNEL.py ARCH AXES…`` with each AXES as JSON. A process of its own, because
CuTe DSL reads its environment when it is imported. A line of JSON per output and AXES.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ptx
import torch
from interpreted import load_kernel, print_matches

from agentcore.problems import load_problem

STREAM = 0x5EED0
Launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


class Config(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
    )


class Device:
    """Where launches go: runs them at once, on ``memory``."""

    def __init__(self, dump: Path) -> None:
        self.dump, self.memory, self.kernels = dump, ptx.Memory(), dict[str, ptx.Kernel]()
        self.failure: Exception | None = None
        self.callback = Launch(self.launch)

    def launch(self, name: bytes, config: int, arguments: Any) -> int:
        try:
            self.run(self.kernel(name.decode()), Config.from_address(config), arguments)
        except Exception as error:
            self.failure = self.failure or error
        return 0

    def kernel(self, name: str) -> ptx.Kernel:
        if name not in self.kernels:
            for file in self.dump.glob("*.ptx"):
                self.kernels |= ptx.parse(file.read_text())
        return self.kernels[name]

    def run(self, kernel: ptx.Kernel, config: Config, arguments: Any) -> None:
        if config.stream != STREAM:
            raise RuntimeError(f"launched on stream {config.stream}, not on torch's current one")
        if config.grid[2] != 1 or list(config.block[1:]) != [1, 1]:
            raise RuntimeError("a grid or block of more dimensions than are known here")
        sizes = kernel.parameters
        values = {name: ctypes.string_at(arguments[n], size) for n, (name, size) in enumerate(sizes.items())}
        for y in range(config.grid[1]):
            for x in range(config.grid[0]):
                block = ptx.Block(kernel, self.memory, values, x, config.block[0], config.shared_bytes)
                block.registers["%ctaid.y"] = np.full(config.block[0], y, np.uint32)
                block.run()

    def lend(self, tensor: torch.Tensor, writable: bool) -> None:
        view = (ctypes.c_uint8 * tensor.nbytes).from_address(tensor.data_ptr())
        self.memory.buffers.append((tensor.data_ptr(), np.frombuffer(view, np.uint8), writable))


def device(place: Path, arch: str) -> Device:
    """Build the stand-in for CuTe DSL's runtime library, and have the DSL use it."""
    library = place / "runtime.so"
    source = Path(__file__).with_name("cute_runtime.cpp")
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    os.environ |= {
        "CUTE_DSL_ARCH": arch, "CUTE_DSL_LIBS": str(library), "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": str(place),
        "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    }
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction

    CudaDialectJitCompiledFunction.num_devices = 1
    made = Device(place)
    on_launch = ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "on_launch")
    on_launch.value = ctypes.cast(made.callback, ctypes.c_void_p).value
    torch.cuda.current_stream = lambda *_: Stream()
    return made


class Stream:
    cuda_stream = STREAM


def main() -> None:
    problem = load_problem(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as place:
        gpu = device(Path(place), sys.argv[3])
        kernel = load_kernel(sys.argv[2])

        def run(inputs: list[Any], outputs: list[torch.Tensor]) -> None:
            gpu.memory.buffers.clear()
            for tensor, writable in (*((t, False) for t in inputs), *((t, True) for t in outputs)):
                if isinstance(tensor, torch.Tensor):
                    gpu.lend(tensor, writable)
            kernel.run(*inputs, *outputs)
            if gpu.failure is not None:
                raise gpu.failure

        print_matches(problem, sys.argv[4:], run)


main()

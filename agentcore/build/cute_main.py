"""Runs in a sandbox without a GPU: calls a CuTe DSL kernel's ``run`` so that all is compiled and nothing launched.

Reads ``{"path": …, "calls": [[argument, …], …], "device": …}`` from stdin. An argument is ``{"shape": […], "dtype":
…}``, made as an uninitialised tensor on the CPU, or ``{"value": …}``; the device is ``{"arch", "name", "sms",
"shared_bytes"}`` of the GPU compiled for. The candidate shares this process: what it prints is its claim.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import traceback
from types import SimpleNamespace
from typing import Any

# What a compiled launch writes into cudaLaunchConfig_t.dynamicSmemBytes, in the LLVM dialect of its host function.
_CONFIG = r"!llvm\.struct<\(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32\)>"
_CONSTANT = re.compile(r"(%\d+) = llvm\.mlir\.constant\((\d+) : i64\)")
_FIELD = re.compile(rf"(%\d+) = llvm\.getelementptr %\d+\[0, 2\] : .*{_CONFIG}")
_STORE = re.compile(r"llvm\.store (%\d+), (%\d+) : i64")
_KERNEL = re.compile(r"llvm\.mlir\.addressof @kernels_(\S+) : !llvm\.ptr")


class _Stream:
    """What ``torch.cuda.current_stream()`` gives where there is no device: the default stream's handle."""

    cuda_stream = 0
    stream_id = 0


def _stand_in_for(device: dict[str, Any]) -> None:
    """Answer what kernels ask of the device at hand as the one compiled for would; a launch does nothing."""
    import cutlass.utils  # type: ignore[import-not-found]
    import torch
    from cutlass.base_dsl.jit_executor import JitCompiledFunction  # type: ignore[import-not-found]
    from torch.overrides import TorchFunctionMode

    number = device["arch"][3:].rstrip("a")
    major, minor, most = int(number[:-1]), int(number[-1]), device["shared_bytes"]
    properties = SimpleNamespace(
        name=device["name"], major=major, minor=minor, multi_processor_count=device["sms"], warp_size=32,
        shared_memory_per_block_optin=most, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
    )
    torch.cuda.current_stream = lambda *_: _Stream()  # type: ignore[assignment]
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda *_: properties  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda *_: (major, minor)

    class HardwareInfo:
        def __init__(self, device_id: int = 0) -> None:
            pass

        def get_device_multiprocessor_count(self) -> int:
            return int(device["sms"])

        def get_max_active_clusters(self, cluster_size: int, stream: Any = None) -> int:
            return int(device["sms"]) // cluster_size  # at most; a driver knows how many fit its processing clusters

    cutlass.utils.HardwareInfo = HardwareInfo

    class OnTheHost(TorchFunctionMode):
        """Workspace that a kernel allocates on the GPU is made beside its arguments."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs["device"] = "cpu"
            return func(*args, **kwargs)

    OnTheHost().__enter__()  # type: ignore[no-untyped-call]
    launched: set[int] = set()
    kept: list[Any] = []  # an identity is one as long as its object lives

    def launch_nothing(compiled: Any, _arguments: Any) -> int:
        if id(compiled) not in launched:
            launched.add(id(compiled))
            kept.append(compiled)
            for name, size in _shared_bytes(str(compiled.ir_module)):
                print(f"launched with {size} bytes of dynamic shared memory: {name}", flush=True)
                if size > most:
                    raise RuntimeError(f"{name} asks for {size} bytes of shared memory; {device['arch']} has {most}")
        return 0

    JitCompiledFunction.run_compiled_program = launch_nothing


def _shared_bytes(module: str) -> list[tuple[str, int]]:
    """The kernels that a compiled module's host code launches, each with its dynamic shared memory where constant."""
    found: list[tuple[str, int]] = []
    constants: dict[str, int] = {}
    fields: set[str] = set()
    sizes: list[int | None] = []
    kernel = ""
    for line in module.splitlines():
        if "llvm.func @" in line:
            constants, fields, sizes, kernel = {}, set(), [], ""
        elif match := _CONSTANT.search(line):
            constants[match[1]] = int(match[2])
        elif match := _FIELD.search(line):
            fields.add(match[1])
        elif (match := _STORE.search(line)) and match[2] in fields:
            sizes.append(constants.get(match[1]))
        elif match := _KERNEL.search(line):
            kernel = match[1]
        elif "llvm.call @_cudaLaunchKernelEx(" in line and sizes:
            size = sizes.pop(0)
            if size is not None and kernel:
                found.append((kernel, size))
    return found


def _load(path: str) -> Any:
    sys.path.insert(0, path.rpartition("/")[0])
    spec = importlib.util.spec_from_file_location("kernel", path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = module
    spec.loader.exec_module(module)
    run = getattr(module, "run", None)
    if not callable(run):
        raise RuntimeError("kernel.py defines no function run(*inputs, *outputs)")
    return run


def _argument(described: dict[str, Any]) -> Any:
    import torch

    if "value" in described:
        return described["value"]
    return torch.empty(described["shape"], dtype=getattr(torch, described["dtype"]))


def _headline(error: BaseException) -> str:
    """One line: the first of the message, and where the compiler's own picture of the source points to."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error))
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    place = re.search(r"--> \S*(kernel\.py:\d+)", text)
    return f"{type(error).__name__}: {first.removeprefix('error: ')}" + (f" ({place[1]})" if place else "")


def main() -> int:
    wanted = json.load(sys.stdin)
    _stand_in_for(wanted["device"])
    try:
        run = _load(wanted["path"])
        for call in wanted["calls"]:
            run(*map(_argument, call))
    except BaseException as error:
        # The frames before the kernel's own are of no use to its author.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == wanted["path"]]
        print(f"error: {_headline(error)[:500]}", file=sys.stderr)
        print("".join(traceback.format_list(frames)), *traceback.format_exception_only(error), sep="", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs in a sandbox without a GPU: calls a CuTe DSL kernel's ``run`` so that all is compiled and nothing launched.

Reads ``{"path": …, "calls": [[argument, …], …]}`` from stdin; an argument is ``{"shape": […], "dtype": …}``, made as an
uninitialised tensor on the CPU, or ``{"value": …}``. The candidate shares this process: what it prints is its claim.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from typing import Any


class _Stream:
    """What ``torch.cuda.current_stream()`` gives where there is no device: the default stream's handle."""

    cuda_stream = 0
    stream_id = 0


def _launch_nothing() -> None:
    import torch
    from cutlass.base_dsl.jit_executor import JitCompiledFunction  # type: ignore[import-not-found]

    torch.cuda.current_stream = lambda *_: _Stream()  # type: ignore[assignment]
    JitCompiledFunction.run_compiled_program = lambda *_: 0


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


def main() -> int:
    wanted = json.load(sys.stdin)
    _launch_nothing()
    try:
        run = _load(wanted["path"])
        for call in wanted["calls"]:
            run(*map(_argument, call))
    except BaseException as error:
        # The frames before the kernel's own are of no use to its author.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == wanted["path"]]
        print(f"error: {type(error).__name__}: {' '.join(str(error).split())[:500]}", file=sys.stderr)
        print("".join(traceback.format_list(frames)), *traceback.format_exception_only(error), sep="", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

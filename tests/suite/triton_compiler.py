"""Compiles what a Triton starting kernel launches for a GPU that need not be here, and launches nothing.

``python triton_compiler.py PROBLEM_DIR KERNEL.py CAPABILITY…`` (90, 100), by calling ``run`` at every shape judged on a
GPU. A line of JSON per compiled kernel. A process of its own, because Triton keeps one driver.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from agentcore.problems import load_problem
from agentcore.problems.tensors import input_specs, output_specs
from agentcore.vocabulary import HardwareName


class Driver:
    """What Triton asks of a device before it launches."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return self.target.arch  # Triton keeps what it compiled by the device's number

    def get_current_stream(self, _device: int) -> int:
        return 0


def main() -> None:
    problem = load_problem(Path(sys.argv[1]))
    found: dict[str, Any] = {}
    launch = JITFunction.run

    def compile_only(self: Any, *args: Any, warmup: bool, **given: Any) -> Any:
        made = launch(self, *args, warmup=True, **given)
        found[made.hash] = made
        return made

    JITFunction.run = compile_only
    spec = importlib.util.spec_from_file_location("kernel", sys.argv[2])
    assert spec is not None and spec.loader is not None
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    for capability in map(int, sys.argv[3:]):
        driver.set_active(Driver(capability))
        for workload in problem.workloads_for(HardwareName.B200):
            inputs = [
                workload.inputs[name].value if shape is None else torch.empty(shape, dtype=dtype)
                for name, (shape, dtype) in input_specs(problem, workload).items()
            ]
            outputs = [torch.empty(shape, dtype=dtype) for shape, dtype in output_specs(problem, workload).values()]
            kernel.run(*inputs, *outputs)
    for made in found.values():
        print(json.dumps({
            "name": made.metadata.name, "target": made.metadata.target.arch, "cubin_bytes": len(made.asm["cubin"]),
            "architecture": next(line.split()[1] for line in made.asm["ptx"].splitlines() if ".target" in line),
            "shared_bytes": made.metadata.shared, "wide_loads": made.asm["ptx"].count("ld.global.v4.b32"),
        }))


main()

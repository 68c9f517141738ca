"""Runs a Triton starting kernel in Triton's interpreter, on the CPU: prints what share of each output is right.

``python triton_interpreter.py PROBLEM_DIR KERNEL.py AXES…`` with each AXES as JSON. A line of JSON per output and
AXES. A process of its own, because Triton decides when it is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import torch

from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory, output_specs


def main() -> None:
    problem = load_problem(Path(sys.argv[1]))
    spec = importlib.util.spec_from_file_location("kernel", sys.argv[2])
    assert spec is not None and spec.loader is not None
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    for axes in map(json.loads, sys.argv[3:]):
        workload = problem.workloads[0].model_copy(update={"axes": axes})
        factory = InputFactory(problem, "cpu")
        inputs = factory.make(workload, torch.Generator().manual_seed(7))
        reference = factory.reference(inputs, workload)
        specs = output_specs(problem, workload).values()
        outputs = [torch.full(shape, float("nan"), dtype=dtype) for shape, dtype in specs]
        kernel.run(*inputs.values(), *outputs)
        tolerance = workload.tolerance
        for (name, want), got in zip(reference.items(), outputs, strict=True):
            close = torch.isclose(got.float(), want.float(), atol=tolerance.max_atol, rtol=tolerance.max_rtol)
            print(json.dumps({"output": name, "matched": close.float().mean().item()}))


main()

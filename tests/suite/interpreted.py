"""What the interpreters of starting kernels share: loading one, and holding its outputs against the reference."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import torch

from agentcore.problems import Problem
from agentcore.problems.tensors import InputFactory, output_specs


def load_kernel(file: str) -> ModuleType:
    """The module that ``file`` holds, under the name ``kernel``."""
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None and spec.loader is not None
    kernel = importlib.util.module_from_spec(spec)
    sys.modules["kernel"] = kernel
    spec.loader.exec_module(kernel)
    return kernel


def print_matches(
    problem: Problem, all_axes: Iterable[str], run: Callable[[list[Any], list[torch.Tensor]], None]
) -> None:
    """For each AXES (JSON) let ``run`` fill outputs from inputs, and print a line of JSON per output: the share of it
    that is right.
    """
    for axes in map(json.loads, all_axes):
        workload = problem.workloads[0].model_copy(update={"axes": axes})
        factory = InputFactory(problem, "cpu")
        inputs = factory.make(workload, torch.Generator().manual_seed(7))
        reference = factory.reference(inputs, workload)
        specs = output_specs(problem, workload).values()
        outputs = [torch.full(shape, float("nan"), dtype=dtype) for shape, dtype in specs]
        run(list(inputs.values()), outputs)
        tolerance = workload.tolerance
        for (name, want), got in zip(reference.items(), outputs, strict=True):
            close = torch.isclose(got.float(), want.float(), atol=tolerance.max_atol, rtol=tolerance.max_rtol)
            print(json.dumps({"output": name, "matched": close.float().mean().item()}))

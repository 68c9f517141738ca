"""What a sanitized kernel is called with: which workloads, and their parameters as the plan the driver reads.

Inputs come from a fixed seed: they are no secret here, and a finding can be seen again. Held-out shapes are never used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentcore.problems import DTYPE_BYTES, Problem, TensorSpec, Workload, missing_blobs
from agentcore.vocabulary import HardwareName, Language

if TYPE_CHECKING:
    from agentcore.problems.tensors import InputFactory

SEED = 1
MAX_WORKLOAD_BYTES = 512 << 20
"""Tensors of one workload; larger ones take a sanitizer too long."""
MAX_INPUT_BYTES = 1 << 30
"""Inputs of all chosen workloads together, which are written to a file."""
DEFAULT_WORKLOADS = {False: 16, True: 4}
"""How many of the smallest workloads are run: CPU, GPU (where tools slow a kernel down by a hundred times)."""


def choose_workloads(problem: Problem, hardware: HardwareName, count: int | None = None) -> list[Workload]:
    """The smallest workloads of a hardware within the limits above, smallest first; at most ``count``."""
    absent = missing_blobs(problem)
    sized = sorted(
        (sum(_tensor_bytes(problem, workload)), workload.index, workload)
        for workload in problem.workloads_for(hardware)
        if workload.uuid not in absent
    )
    chosen: list[Workload] = []
    input_bytes = 0
    for size, _, workload in sized:
        input_bytes += _tensor_bytes(problem, workload)[0]
        if size > MAX_WORKLOAD_BYTES or input_bytes > MAX_INPUT_BYTES:
            break
        chosen.append(workload)
    return chosen[: DEFAULT_WORKLOADS[hardware.is_gpu] if count is None else count]


def _tensor_bytes(problem: Problem, workload: Workload) -> tuple[int, int]:
    """Bytes of all inputs and of all outputs."""
    definition = problem.definition
    axes = definition.axis_values(workload.axes)

    def total(specs: dict[str, TensorSpec]) -> int:
        return sum(
            math.prod(shape) * DTYPE_BYTES[spec.dtype]
            for spec in specs.values()
            if (shape := definition.shape(spec, axes)) is not None
        )

    return total(dict(definition.inputs)), total(dict(definition.outputs))


@dataclass(slots=True)
class Plan:
    """The two files of a plan, and the names of the parameters by their place in the interface."""

    plan: Path
    data: Path
    names: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)


def write_plan(
    directory: Path, problem: Problem, language: Language, workloads: list[Workload], factory: InputFactory
) -> Plan:
    """Write plan and data for ``workloads`` under ``directory``, readable to the sandbox's user. Needs torch.

    ``factory`` makes inputs on the CPU. Raises ProblemError where they cannot be made.
    """
    import torch

    from agentcore.build.header import Kind, parameters

    made = Plan(directory / "plan.txt", directory / "data.bin")
    definition = problem.definition
    interface = parameters(definition, language)
    made.names = [parameter.name for parameter in interface]
    made.roles = [parameter.kind.value for parameter in interface]
    lines: list[str] = []
    with made.data.open("wb") as data:
        for workload in workloads:
            generator = torch.Generator("cpu")
            generator.manual_seed(SEED + workload.index)
            inputs = factory.make(workload, generator)
            axes = definition.axis_values(workload.axes)
            lines.append(f"workload {workload.index} {len(interface)}")
            for parameter in interface:
                if parameter.kind is Kind.INPUT:
                    tensor = inputs[parameter.name]
                    assert isinstance(tensor, torch.Tensor)
                    raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
                    lines.append(f"in {raw.nbytes} {data.tell()}")
                    data.write(raw.data)
                elif parameter.kind is Kind.OUTPUT:
                    spec = definition.outputs[parameter.name]
                    shape = definition.shape(spec, axes) or ()
                    lines.append(f"out {math.prod(shape) * DTYPE_BYTES[spec.dtype]}")
                elif parameter.kind is Kind.AXIS:
                    lines.append(f"int {axes[parameter.name]}")
                else:
                    value = inputs[parameter.name]
                    assert not isinstance(value, torch.Tensor)
                    lines.append(f"real {float(value)!r}" if parameter.is_floating else f"int {int(value)}")
    made.plan.write_text("\n".join(lines) + "\n")
    for file in (made.plan, made.data):
        file.chmod(0o644)
    return made

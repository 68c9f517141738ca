"""The necessary work of a workload: products by operand origin, and the bytes of each tensor, each counted once.

Found by running the reference on tensors without content; where it branches on content, on real ones if they are small.
Everything uncertain is resolved downwards: a bound must never exceed an honest kernel's time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from agentcore.bounds.regions import View, distinct_elements
from agentcore.bounds.trace import DataDependent, Event, Trace
from agentcore.problems.loading import Problem, missing_blobs
from agentcore.problems.tensors import InputFactory, Value, input_specs, output_specs
from agentcore.problems.workload import ScalarInput, Workload

_REAL_LIMIT_BYTES = 256 << 20
_SEED = 20260101


class BoundUnavailable(RuntimeError):
    """No bound can be given for this workload here. The message says why."""


@dataclass(frozen=True, slots=True)
class Work:
    """What any kernel for this workload has to do. Bytes by tensor name, FLOPs by origin of the operands."""

    flops: dict[str, int]
    input_bytes: dict[str, int]
    output_bytes: dict[str, int]
    notes: tuple[str, ...] = field(default=())


_needs_content = (DataDependent, DataDependentOutputException, DynamicOutputShapeException)


def count(problem: Problem, workload: Workload, factory: InputFactory | None = None) -> Work:
    """The work of ``workload``. ``factory`` (any device) saves compiling the reference again.

    Raises BoundUnavailable where the reference's work depends on content and its tensors are too large to run here,
    where it needs files that are absent, or where it cannot be run at all.
    """
    factory = factory or InputFactory(problem, "cpu")
    failures: list[str] = []
    for device in ("cpu", "cuda"):
        try:
            return _count_fake(problem, workload, factory, device)
        except _needs_content as error:
            failures.append(f"its work depends on content ({_first_line(error)})")
            break
        except UnsupportedOperatorException as error:
            failures.append(f"it uses {_first_line(error)}, which cannot run without content")
            break
        except Exception as error:  # the reference's own: a check that a fake device does not pass, for one
            failures.append(f"{type(error).__name__} on a {device} tensor without content: {_first_line(error)}")
    return _count_real(problem, workload, failures)


def _count_fake(problem: Problem, workload: Workload, factory: InputFactory, device: str) -> Work:
    specs = input_specs(problem, workload)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
        inputs: dict[str, Value] = {}
        notes: list[str] = []
        for name, (shape, dtype) in specs.items():
            if shape is None:
                inputs[name] = _scalar(workload, name, dtype, notes)
            else:
                # Not every build makes the narrow dtypes directly; all of them can view bytes as such.
                stored = torch.uint8 if dtype.itemsize == 1 else dtype
                inputs[name] = torch.empty(shape, dtype=stored, device=device).view(dtype)
        return _traced(problem, workload, factory, inputs, Trace(assume_scalars=True), notes)


def _count_real(problem: Problem, workload: Workload, failures: list[str]) -> Work:
    why = "; ".join(failures)
    if workload.uuid in missing_blobs(problem):
        raise BoundUnavailable(f"{problem.name} workload {workload.uuid}: {why}; and its safetensors files are absent")
    size = sum(
        math.prod(shape or ()) * dtype.itemsize
        for specs in (input_specs(problem, workload), output_specs(problem, workload))
        for shape, dtype in specs.values()
    )
    if size > _REAL_LIMIT_BYTES:
        raise BoundUnavailable(
            f"{problem.name} workload {workload.uuid}: {why}; and its {size >> 20} MiB of tensors are more than the"
            f" {_REAL_LIMIT_BYTES >> 20} MiB that are run for real"
        )
    try:
        factory = InputFactory(problem, "cpu")
        inputs = factory.make(workload, torch.Generator().manual_seed(_SEED))
        notes = ["counted on one real set of inputs: the work depends on content"]
        return _traced(problem, workload, factory, inputs, Trace(assume_scalars=False), notes)
    except Exception as error:
        raise BoundUnavailable(
            f"{problem.name} workload {workload.uuid}: {why}; and running it for real failed:"
            f" {type(error).__name__}: {_first_line(error)}"
        ) from error


def _scalar(workload: Workload, name: str, dtype: torch.dtype, notes: list[str]) -> Value:
    source = workload.inputs[name]
    if isinstance(source, ScalarInput):
        return float(source.value) if dtype.is_floating_point else source.value
    if not dtype.is_floating_point:
        raise DataDependent(f"the integer scalar {name} is made by the custom generator")
    notes.append(f"scalar {name} is taken as 1.0: it is made by the custom generator")
    return 1.0


def _traced(
    problem: Problem,
    workload: Workload,
    factory: InputFactory,
    inputs: dict[str, Value],
    trace: Trace,
    notes: list[str],
) -> Work:
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):
            trace.watch(name, value)
    with trace:
        returned = factory.run_raw(inputs)
    outputs = _tensors(returned)
    events = list(trace.live(outputs))
    skip_batched = trace.masked
    flops: dict[str, int] = {}
    skipped = False
    for event in events:
        product = event.product
        if product is None:
            continue
        if skip_batched and product.skippable:
            skipped = True
            continue
        flops[product.origin] = flops.get(product.origin, 0) + product.flops
    if skipped:
        notes.append("batched products are not counted: the reference masks, and a kernel may skip what is masked")
    notes += dict.fromkeys(trace.assumed)
    read = _input_bytes(problem, workload, events, notes)
    written = {n: math.prod(shape) * dtype.itemsize for n, (shape, dtype) in output_specs(problem, workload).items()}
    return Work(flops, read, written, tuple(notes))


def _input_bytes(problem: Problem, workload: Workload, events: Iterable[Event], notes: list[str]) -> dict[str, int]:
    views: dict[str, set[View]] = {}
    gathered: set[str] = set()
    for event in events:
        for name, view in event.views:
            views.setdefault(name, set()).add(view)
        gathered.update(event.gathered)
    needed: dict[str, int] = {}
    for name, (shape, dtype) in input_specs(problem, workload).items():
        if shape is None:
            continue
        total = math.prod(shape)
        elements = distinct_elements(total, views.get(name, ()))
        needed[name] = elements * dtype.itemsize
        if name in gathered and elements < total:
            notes.append(f"{name} is read through indices: the elements that only they reach are not counted")
        elif elements == 0 and total:
            notes.append(f"{name} is not needed for the result")
    return needed


def _tensors(returned: Any) -> list[torch.Tensor]:
    if isinstance(returned, torch.Tensor):
        return [returned]
    values = returned.values() if isinstance(returned, dict) else returned
    return [value for value in values if isinstance(value, torch.Tensor)]


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__

"""The necessary work of a workload: products by operand origin, and the bytes of each tensor, each counted once.

Found by running the reference on tensors without content, beside the real content of its indices, masks and scalars;
where routing follows from floats, on real ones if they are small. Everything uncertain is resolved downwards: a bound
must never exceed an honest kernel's time.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.nn.attention import SDPBackend, sdpa_kernel

from agentcore.bounds.demand import at_most, needed
from agentcore.bounds.pretend import Pretend
from agentcore.bounds.sharing import unmoved_bytes
from agentcore.bounds.trace import DataDependent, Trace
from agentcore.problems.errors import ProblemError
from agentcore.problems.loading import Problem, missing_blobs
from agentcore.problems.tensors import InputFactory, Value, input_specs, output_specs
from agentcore.problems.workload import Workload

COUNTER_VERSION = 11
"""Raised whenever the same workload may be counted differently: cached counts of another version are not used."""

_REAL_LIMIT_BYTES = 256 << 20
_KNOWN_LIMIT_BYTES = 1 << 28
_SEED = 20260101
_DRAWS = 3
_ENOUGH_S = 2.0


class BoundUnavailable(RuntimeError):
    """No bound can be given for this workload here. The message says why."""


@dataclass(frozen=True, slots=True)
class Work:
    """What any kernel for this workload has to do. Bytes by tensor name, FLOPs by origin of the operands.

    For comparisons: ``unmoved_bytes`` is how many of these bytes a kernel need not move that may return views or write
    into its inputs, ``direct_flops`` what the products take as the reference does them, ``largest_result`` the elements
    of the largest result of a product.
    """

    flops: dict[str, int]
    input_bytes: dict[str, int]
    output_bytes: dict[str, int]
    notes: tuple[str, ...] = field(default=())
    unmoved_bytes: int = 0
    direct_flops: dict[str, int] = field(default_factory=dict)
    largest_result: int = 0


_needs_content = (DataDependent, DataDependentOutputException, DynamicOutputShapeException)


def count(problem: Problem, workload: Workload, factory: InputFactory | None = None) -> Work:
    """The work of ``workload``. ``factory`` (on the CPU) saves compiling the reference again.

    Raises BoundUnavailable where the reference's work depends on content and its tensors are too large to run here,
    where it needs files that are absent, or where it cannot be run at all.
    """
    where = f"{problem.name} workload {workload.uuid}"
    absent = missing_blobs(problem).get(workload.uuid)
    if absent:
        raise BoundUnavailable(f"{where}: {len(absent)} safetensors files are absent, {absent[0]} for one")
    if factory is None or factory.device.type != "cpu":
        factory = InputFactory(problem, "cpu")
    shapes = InputFactory(problem, "meta")
    failures: list[str] = []
    for device in ("cpu", "cuda"):
        try:
            work, doubtful = _count_draws(problem, workload, shapes, device)
        except _needs_content as error:
            failures.append(f"its work depends on content ({_first_line(error)})")
            break
        except Exception as error:  # the reference's own: a check that a pretended device does not pass, for one
            failures.append(f"{type(error).__name__} on a {device} tensor without content: {_first_line(error)}")
        else:
            if doubtful and _size(problem, workload) <= _REAL_LIMIT_BYTES:
                try:
                    return _count_real(problem, workload, factory)
                except Exception:  # noqa: S110  the lower count stands
                    pass
            return work
    why = "; ".join(failures)
    if _size(problem, workload) > _REAL_LIMIT_BYTES:
        try:
            return _count_sampled(problem, workload, shapes, device)
        except Exception as error:
            raise BoundUnavailable(
                f"{where}: {why}; its {_size(problem, workload) >> 20} MiB of tensors are more than the"
                f" {_REAL_LIMIT_BYTES >> 20} MiB that are run for real; and what is small enough to be run does not"
                f" decide it: {_first_line(error)}"
            ) from error
    try:
        return _count_real(problem, workload, factory)
    except Exception as error:
        raise BoundUnavailable(
            f"{where}: {why}; and running it for real failed: {type(error).__name__}: {_first_line(error)}"
        ) from error


def _size(problem: Problem, workload: Workload) -> int:
    return sum(
        math.prod(shape or ()) * dtype.itemsize
        for specs in (input_specs(problem, workload), output_specs(problem, workload))
        for shape, dtype in specs.values()
    )


@dataclass(slots=True)
class _Drawn:
    """One set of inputs: numbers, tensors that are known, drawn content of others, and what the generator guessed."""

    scalars: dict[str, Value]
    known: dict[str, torch.Tensor]
    samples: dict[str, torch.Tensor]
    guessed: list[str]

    def agrees(self, other: _Drawn) -> bool:
        """Whether everything that is known is the same."""
        return (
            self.scalars == other.scalars
            and self.known.keys() == other.known.keys()
            and all(_same(tensor, other.known[name]) for name, tensor in self.known.items())
        )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype.itemsize == 1:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    return torch.equal(a, b)


def _draw(workload: Workload, factory: InputFactory, device: str, seed: int, *, sampled: bool = False) -> _Drawn:
    """Make a workload's inputs with the problem's own generator, its floats without content (``sampled``: the small
    ones with)."""
    trace = Trace(record=False, sampled=sampled)
    generator = torch.Generator().manual_seed(seed)
    with Pretend(trace, device), trace:
        made = factory.make(workload, generator)
        scalars: dict[str, Value] = {}
        known: dict[str, torch.Tensor] = {}
        samples: dict[str, torch.Tensor] = {}
        for name, value in made.items():
            if not isinstance(value, torch.Tensor):
                scalars[name] = value
    for name, value in made.items():
        if isinstance(value, torch.Tensor):
            content = trace.content(value)
            if content is None or content.numel() * content.dtype.itemsize > _KNOWN_LIMIT_BYTES:
                continue
            own = content.clone(memory_format=torch.contiguous_format)
            if not (value.dtype.is_floating_point and trace.is_drawn(value)):
                known[name] = own
            elif sampled:
                samples[name] = own
    return _Drawn(scalars, known, samples, list(dict.fromkeys(trace.assumed)))


def _count_draws(problem: Problem, workload: Workload, factory: InputFactory, device: str) -> tuple[Work, bool]:
    """The least work of several sets of inputs where their indices differ; whether real content might say more."""
    drawn = [_draw(workload, factory, device, _SEED)]
    varies = False
    if any(tensor.numel() > 1 for tensor in drawn[0].known.values()):
        another = _draw(workload, factory, device, _SEED + 1)
        if not drawn[0].agrees(another):
            varies = True
            drawn += [another, *(_draw(workload, factory, device, _SEED + i) for i in range(2, _DRAWS))]
    counted = []
    begun = time.monotonic()
    for draw in drawn:
        counted.append(_count_drawn(problem, workload, factory, device, draw))
        if len(counted) == 2 and time.monotonic() - begun > _ENOUGH_S:
            break
    works = [work for work, _ in counted]
    doubtful = any(doubt for _, doubt in counted)
    return (_least(works) if varies else works[0]), doubtful


def _count_drawn(
    problem: Problem, workload: Workload, factory: InputFactory, device: str, drawn: _Drawn
) -> tuple[Work, bool]:
    trace = Trace(sampled=bool(drawn.samples))
    inputs: dict[str, Value] = {}
    for name, (shape, dtype) in input_specs(problem, workload).items():
        if shape is None:
            inputs[name] = drawn.scalars[name]
            continue
        known, sample = drawn.known.get(name), drawn.samples.get(name)
        content = sample if known is None else known
        tensor = torch.empty(shape, dtype=dtype, device="meta") if content is None else content.clone()
        trace.watch(
            name, tensor, known=None if known is None else tensor, sample=None if sample is None else tensor
        )
        inputs[name] = tensor
    notes = [f"{line} (by the generator)" for line in drawn.guessed]
    with Pretend(trace, device), sdpa_kernel(SDPBackend.MATH), trace:
        returned = factory.run_raw(inputs)
    work = _work(problem, workload, trace, returned, notes)
    if trace.policy.hidden:
        most = at_most([trace.result(tensor) for tensor in _tensors(returned)], trace.policy)
        specs = input_specs(problem, workload)
        if most.flops != work.flops or any(
            most.elements.get(name, 0) * specs[name][1].itemsize != size for name, size in work.input_bytes.items()
        ):
            return _noted(work, "what only indices computed from content reach is not counted"), True
    guessed_branch = any("branch" in line for line in trace.assumed)
    return work, guessed_branch and (not all(work.input_bytes.values()) or not work.flops)


def _count_sampled(problem: Problem, workload: Workload, factory: InputFactory, device: str) -> Work:
    """Counted with drawn content for whatever is small, so that routing is that of some inputs; the least of two."""
    counted = []
    for draw in range(2):
        drawn = _draw(workload, factory, device, _SEED + draw, sampled=True)
        counted.append(_count_drawn(problem, workload, factory, device, drawn)[0])
    note = "counted with random content for what is small and decides the routing"
    return _noted(counted[0] if counted[0] == counted[1] else _least(counted), note)


def _count_real(problem: Problem, workload: Workload, factory: InputFactory) -> Work:
    """Counted with every operation computed, so that routing and branches are the true ones; the least of two runs."""
    counted = []
    for draw in range(2):
        inputs = factory.make(workload, torch.Generator().manual_seed(_SEED + draw))
        trace = Trace(real=True)
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor):
                is_index = not value.dtype.is_floating_point and (value.dtype.itemsize > 1 or value.dtype == torch.bool)
                trace.watch(name, value, known=value if is_index else None)
        with sdpa_kernel(SDPBackend.MATH), trace:
            returned = factory.run_raw(inputs)
        counted.append(_work(problem, workload, trace, returned, []))
    note = "counted on real inputs: the work depends on content"
    return _noted(counted[0] if counted[0] == counted[1] else _least(counted), note)


def _work(
    problem: Problem, workload: Workload, trace: Trace, returned: Any, notes: list[str]
) -> Work:
    found = needed([trace.result(tensor) for tensor in _tensors(returned)], trace.policy)
    if found.skipped:
        notes = [*notes, "batched products under a mask made from content are not counted: a kernel may skip them"]
    if found.reordered:
        notes = [*notes, "batched products that only feed another product are not counted: the order may be changed"]
    notes = [*notes, *dict.fromkeys(trace.assumed)]
    read: dict[str, int] = {}
    for name, (shape, dtype) in input_specs(problem, workload).items():
        if shape is None:
            continue
        read[name] = found.elements.get(name, 0) * dtype.itemsize
        size: int = math.prod(shape) * dtype.itemsize
        if not read[name] and size:
            notes.append(f"{name} is not needed for the result")
        elif read[name] < size:
            share = read[name] / size
            notes.append(f"{share:.1%} of {name} is needed for the result")
    written = {n: math.prod(shape) * dtype.itemsize for n, (shape, dtype) in output_specs(problem, workload).items()}
    unmoved = 0
    for name, tensor in zip(written, _tensors(returned), strict=False):
        part = unmoved_bytes(trace, tensor) if not trace.real else 0
        if part:
            notes.append(f"{name} is written to memory of its own, though the reference returns a view or its input")
            unmoved += part
    unmoved = min(unmoved, sum(read.values()) + sum(written.values()))
    return Work(found.flops, read, written, tuple(notes), unmoved, found.direct_flops, found.largest_result)


def _least(works: list[Work]) -> Work:
    """What any set of inputs may need: below the least of those drawn by as much as they differ."""

    def least(dicts: list[dict[str, int]]) -> dict[str, int]:
        names = {name: None for d in dicts for name in d}
        result = {}
        for name in names:
            values = [d.get(name, 0) for d in dicts]
            result[name] = max(0, 2 * min(values) - max(values))
        return result

    note = f"indices differ from seed to seed: the least of {len(works)} draws, less what they differ by, is taken"
    lines = dict.fromkeys(line for line in works[0].notes if "% of" not in line)
    return Work(
        {origin: flops for origin, flops in least([w.flops for w in works]).items() if flops},
        least([w.input_bytes for w in works]),
        works[0].output_bytes,
        (*lines, note),
        max(work.unmoved_bytes for work in works),
        works[0].direct_flops,
        works[0].largest_result,
    )


def _noted(work: Work, note: str) -> Work:
    return dataclasses.replace(work, notes=(*work.notes, note))


def _tensors(returned: Any) -> list[torch.Tensor]:
    if isinstance(returned, torch.Tensor):
        return [returned]
    values = returned.values() if isinstance(returned, dict) else returned
    return [value for value in values if isinstance(value, torch.Tensor)]


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__


__all__ = ["COUNTER_VERSION", "BoundUnavailable", "ProblemError", "Work", "count"]

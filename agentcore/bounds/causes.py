"""What explains the difference between our bound and the published one of a workload, by rule.

A published bound behaves as a constant + max(FLOPs / peak, bytes / memory rate). Most causes below are a change of our
own numbers that would give the published one: a difference is put down to the first cause that does so within a tenth.
The last ones hold where no single change does, and say what must have been left out, or counted in part.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentcore.bounds.bound import bound_from_work
from agentcore.bounds.count import Work
from agentcore.bounds.hardware import rate_table
from agentcore.problems.definition import AxisVar
from agentcore.problems.expressions import names
from agentcore.problems.official import Official
from agentcore.problems.problem import Problem
from agentcore.problems.tensors import input_specs, output_specs
from agentcore.problems.workload import Workload
from agentcore.vocabulary import HardwareName

OFFICIAL_CONSTANT_US = 0.4
"""What most published bounds add to the larger of their two times."""

AGREES = "agrees within 10 %"
UNEXPLAINED_ABOVE, UNEXPLAINED_BELOW = "ours is higher, not explained", "ours is lower, not explained"
IN_FULL = "official counts products in full that a mask, another order or a minimal convolution spares in part"
OTHER_WORKLOADS = "published bounds fall where the workload grows: they are not those of these workloads"
IN_PLACE = "official lets a kernel return views or write into its inputs"

_SHARE = 0.10
_UNITS = ("fp4", "fp8", "half", "tf32", "fp32")
_TELLING = ("mask made from content", "only feed another", "only indices computed", "from seed to seed")
_BRANCH = "a branch on computed content"

Sizes = dict[str, float]


def constant_us(official: Official | None) -> float:
    """What a problem's published bounds add: nothing where one of them is smaller than the usual constant."""
    stated = [t.sol_us for t in official.workloads.values() if t.sol_us is not None] if official else []
    return 0.0 if any(us < OFFICIAL_CONSTANT_US for us in stated) else OFFICIAL_CONSTANT_US


@dataclass(frozen=True)
class Case:
    """One workload's counted work beside its published bound, ``official_us``, of which ``constant_us`` is constant."""

    problem: Problem
    workload: Workload
    hardware: HardwareName
    work: Work
    profile: str | None
    official_us: float
    official: Official | None

    @property
    def constant_us(self) -> float:
        return constant_us(self.official)

    def is_near(self, us: float) -> bool:
        """Whether a bound of ``us`` would give the published number, which is rounded to a tenth of a microsecond."""
        return abs(us + self.constant_us - self.official_us) <= max(_SHARE * self.official_us, 0.05)


def cause(case: Case) -> str:
    """The first cause that fits."""
    record = bound_from_work(case.problem, case.workload, case.hardware, case.work, profile=case.profile)
    ours = record.t_sol_us
    if case.is_near(ours):
        return AGREES
    higher = ours + case.constant_us > case.official_us
    for text, us in _changes(case, higher):
        if case.is_near(us):
            return text
    if case.official is not None and _falls(case.problem, case.official):
        return OTHER_WORKLOADS
    return _left_out(case, ours, record.limiter) if higher else _in_part(case)


def _left_out(case: Case, ours: float, limiter: str) -> str:
    if limiter == "products":
        return "official counts fewer products than the outputs need"
    rate = rate_table(case.hardware).rates(case.profile)["memory"].value
    two_bytes = sum(_at_two_bytes(case, dict(_moved(case.work))).values()) / rate * 1e6
    if case.official_us - case.constant_us < min(ours, two_bytes):
        return "official counts fewer bytes than the tensors have at 2 bytes per element"
    return UNEXPLAINED_ABOVE


def _in_part(case: Case) -> str:
    direct = dataclasses.replace(case.work, flops=case.work.direct_flops)
    record = bound_from_work(case.problem, case.workload, case.hardware, direct, profile=case.profile)
    for note in case.work.notes:
        # A branch not taken tells where it left inputs unread.
        untaken = note.startswith(_BRANCH) and "generator" not in note and not all(case.work.input_bytes.values())
        if untaken or any(words in note for words in _TELLING):
            return f"ours is lower: {note.partition(':')[0]}"
    if case.official_us <= (record.resource_us["products"] + case.constant_us) * (1 + _SHARE):
        return "ours is lower: official counts in full some of the products that ours spares in part"
    return UNEXPLAINED_BELOW


def _changes(case: Case, higher: bool) -> Iterator[tuple[str, float]]:
    work, rates = case.work, _rates(case)
    record = bound_from_work(case.problem, case.workload, case.hardware, work, profile=case.profile)
    products, flops, moved = record.resource_us["products"], sum(work.flops.values()), _moved(work)
    specs = _specs(case)
    whole: Sizes = {n: math.prod(shape) * size for n, (shape, size) in specs.items()}
    wide = {n for n, (_, size) in specs.items() if size >= 4}

    def memory(sizes: Mapping[str, float]) -> float:
        return sum(sizes.values()) / rates["memory"] * 1e6

    def with_products(us: float) -> float:
        return max(us, products)

    def at_two_bytes(sizes: Mapping[str, float]) -> Sizes:
        return _at_two_bytes(case, sizes)

    if whole != moved:
        yield "official counts whole tensors of which a part is needed", with_products(memory(whole))
        yield "official counts whole tensors, at two bytes per element", with_products(memory(at_two_bytes(whole)))
    if wide:
        halved = {n: size / 2 if n in wide and specs[n][1] == 4 else size for n, size in moved.items()}
        yield "official counts 4-byte tensors at 2 bytes per element", with_products(memory(halved))
    yield "official counts every tensor at 2 bytes per element", with_products(memory(at_two_bytes(moved)))
    outputs = {n: size for n, size in moved.items() if n in work.output_bytes}
    yield "official counts outputs at 2 bytes per element", with_products(memory(moved | at_two_bytes(outputs)))
    if work.unmoved_bytes:
        yield IN_PLACE, with_products(memory(moved) - work.unmoved_bytes / rates["memory"] * 1e6)
    for what, us in (("", memory(moved)), (", tensors at 2 bytes", memory(at_two_bytes(moved)))):
        yield from ((text + what, total_us) for text, total_us in _products_in_full(case, us))
    if flops:
        for unit in filter(rates.__contains__, _UNITS):
            us = flops / rates[unit] * 1e6
            what = f"official takes products at the {unit} rate"
            yield what, max(us, memory(moved))
            yield f"{what}, tensors at 2 bytes", max(us, memory(at_two_bytes(moved)))
    if not higher:
        if sum(work.direct_flops.values()) > flops:
            return
        for sizes in (moved, at_two_bytes(moved)):
            for extra in _intermediates(work, sizes):
                yield "official counts intermediate results as well", with_products(memory(sizes | {"": extra}))
        return
    yield "official counts the bytes alone", memory(moved)
    yield from ((text, with_products(memory(sizes))) for text, sizes in _fewer_tensors(case, moved))


def _products_in_full(case: Case, memory_us: float) -> Iterator[tuple[str, float]]:
    direct = case.work.direct_flops
    total = sum(direct.values())
    if total <= sum(case.work.flops.values()):
        return
    in_full = dataclasses.replace(case.work, flops=direct)
    record = bound_from_work(case.problem, case.workload, case.hardware, in_full, profile=case.profile)
    yield IN_FULL, max(record.resource_us["products"], memory_us)
    rates = _rates(case)
    for unit in filter(rates.__contains__, _UNITS):
        yield f"{IN_FULL}, at the {unit} rate", max(total / rates[unit] * 1e6, memory_us)


def _intermediates(work: Work, sizes: Mapping[str, float]) -> Iterator[float]:
    """Bytes of a result that is written, or also read once or twice: of a tensor's size, or the largest product's."""
    largest = {max(sizes[n] for n in side) for side in (work.input_bytes, work.output_bytes) if side}
    for size in (*sorted(largest), 2.0 * work.largest_result):
        yield from (times * size for times in (1, 2, 3))


def _fewer_tensors(case: Case, moved: Sizes) -> Iterator[tuple[str, Sizes]]:
    """Some of the tensors, at their own size and at two bytes per element."""
    inputs = {n for n in moved if n in case.work.input_bytes}
    outputs = moved.keys() - inputs
    weights = {n for n in inputs if _is_fixed(case.problem, n)}

    def both(text: str, sizes: Sizes) -> Iterator[tuple[str, Sizes]]:
        yield text, sizes
        yield f"{text}, at 2 bytes per element", _at_two_bytes(case, sizes)

    for name in sorted(moved, key=lambda n: -moved[n]):
        kind = "output" if name in outputs else "input"
        yield from both(f"official leaves out one {kind}", _without(moved, {name}))
    yield from both("official counts inputs alone", _without(moved, outputs))
    yield from both("official counts outputs alone", _without(moved, inputs))
    if len(outputs) > 1:
        for name in sorted(outputs):
            yield from both("official counts one output of several", _without(moved, outputs - {name}))
    yield "official leaves out the scales", _without(moved, {n for n in moved if "scale" in n})
    rest = _without(moved, weights)
    if weights and rest:
        yield from both("official leaves out the weights", rest)
        twice = rest | {"": max(rest.values())}
        yield from both("official leaves out the weights and counts an intermediate result", twice)


def _without(sizes: Mapping[str, float], names_: set[str]) -> Sizes:
    return {n: size for n, size in sizes.items() if n not in names_}


def _is_fixed(problem: Problem, name: str) -> bool:
    """Whether an input has the same size in every workload, as weights have."""
    definition = problem.definition
    varying = {axis for axis, kind in definition.axes.items() if isinstance(kind, AxisVar)}
    for axis in definition.expr_order:
        if names(getattr(definition.axes[axis], "expression", "")) & varying:
            varying.add(axis)
    entries = definition.inputs[name].shape or ()
    return not any(isinstance(entry, str) and names(entry) & varying for entry in entries)


def _moved(work: Work) -> Sizes:
    return dict[str, float](work.input_bytes | work.output_bytes)


def _specs(case: Case) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shape and bytes per element of every tensor."""
    specs = {**input_specs(case.problem, case.workload), **output_specs(case.problem, case.workload)}
    return {name: (shape, dtype.itemsize) for name, (shape, dtype) in specs.items() if shape is not None}


def _at_two_bytes(case: Case, sizes: Mapping[str, float]) -> Sizes:
    specs = _specs(case)
    largest = max(sizes, key=lambda n: sizes[n], default="")
    # A tensor that is counted twice has the element size of the one it repeats.
    width = {n: specs[n][1] if n in specs else specs[largest or n][1] for n in sizes}
    return {n: size / width[n] * 2 for n, size in sizes.items()}


def _rates(case: Case) -> dict[str, float]:
    return {name: rate.value for name, rate in rate_table(case.hardware).rates(case.profile).items()}


def _falls(problem: Problem, official: Official) -> bool:
    """Whether a workload that is no smaller along any axis than another has a clearly smaller published bound."""
    rows = []
    for workload in problem.workloads:
        stated = official.workloads.get(workload.uuid)
        if stated is not None and stated.sol_us is not None:
            axes = problem.definition.axis_values(workload.axes)
            rows.append(([axes[name] for name in problem.definition.var_axes], stated.sol_us))
    return any(
        all(x <= y for x, y in zip(small, large, strict=True)) and us > more_us * (1 + _SHARE) + 0.1
        for (small, us), (large, more_us) in itertools.permutations(rows, 2)
    )


def writes_outputs(problem: Problem, official: Official | None, memory_rate: float) -> bool:
    """Whether no published kernel's time of the problem is less than writing all outputs to memory takes."""
    for workload in problem.workloads:
        stated = official.workloads.get(workload.uuid) if official else None
        if stated is not None and stated.baseline_us is not None:
            written = sum(math.prod(s) * d.itemsize for s, d in output_specs(problem, workload).values())
            if stated.baseline_us < written / memory_rate * 1e6:
                return False
    return True

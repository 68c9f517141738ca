"""What measuring one workload yields, and the parts of it that are the same on every target."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from agentcore.judge import correctness
from agentcore.judge.findings import Findings
from agentcore.judge.layout import as_bits
from agentcore.problems import Problem, Tolerance, Workload
from agentcore.problems.tensors import InputFactory, Value
from agentcore.sandbox import half_of_host_bytes
from agentcore.vocabulary import CheckName

REMEMBERED_CALLS = 6
SWAPPED_PAIRS = 8


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into one workload. ``quick`` is for correctness-only looks and the cheat corpus.

    On GPUs ``batches`` are verified call by call; more, verified by sample, follow until half the interval is within
    ``precision`` of the latency or, for calls shorter than ``long_us``, within ``resolution_us``; or until
    ``device_budget_s`` is spent, ``long_budget_s`` for longer ones. Five evaluations of such are to lie within 1 %, for
    which most need some fifty calls; of shorter ones runners differ by more than their calls do (noise.py).
    """

    min_calls: int = 12
    max_calls: int = 40
    budget_s: float = 0.4
    device_budget_s: float = 0.12
    long_budget_s: float = 0.3
    long_us: float = 20.0
    batches: int = 2
    precision: float = 0.004
    resolution_us: float = 0.2
    call_timeout_s: float = 10.0
    first_call_timeout_s: float = 60.0
    memory_bytes: int = field(default_factory=half_of_host_bytes)
    """What a candidate's processes may hold together: not all, as the references of large problems need theirs."""

    @classmethod
    def quick(cls) -> Effort:
        return cls(
            min_calls=6, max_calls=8, budget_s=0.1, device_budget_s=0.1, long_budget_s=0.1, batches=2, precision=1.0,
            call_timeout_s=3.0, first_call_timeout_s=30.0,
        )


@dataclass(frozen=True, slots=True)
class FirstCall:
    """One call of a fresh runner: whether it returned, and which input was another afterwards (the first; '' if none).
    """

    returned: bool
    changed: str


@dataclass(slots=True)
class Measurement:
    """Findings and raw samples of one workload. Times are µs by the judge's clock unless named ``claimed``."""

    findings: Findings = field(default_factory=Findings)
    samples_us: list[float] = field(default_factory=list)
    claimed_us: list[float] = field(default_factory=list)
    method: str = ""
    verified_calls: int = 0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    matched_ratio: float = 1.0
    canary_us: list[float] = field(default_factory=list)

    def note(self, comparison: correctness.Comparison) -> None:
        self.verified_calls += 1
        self.max_abs_error = max(self.max_abs_error, comparison.max_abs_error)
        self.max_rel_error = max(self.max_rel_error, comparison.max_rel_error)
        self.matched_ratio = min(self.matched_ratio, comparison.matched_ratio)


REPEATED_WORKLOADS = 3
"""In how many workloads, drawn at random, a GPU is given inputs again. A cache of results gains nothing in any: counted
calls have inputs of their own. It is looked for because elsewhere it would gain; a sixth of all the time went there."""


def draw_repeated(workloads: int) -> set[int]:
    """Which of so many workloads are given inputs again."""
    return drawn(REPEATED_WORKLOADS, workloads)


def drawn(count: int, of: int) -> set[int]:
    """Numbers below ``of``, drawn at random: ``count`` of them, or all where there are no more."""
    return set(secrets.SystemRandom().sample(range(of), min(count, of)))


class Verifier:
    """Makes fresh inputs from secret seeds and compares outputs with references computed afterwards.

    References never exist before a candidate has answered. A wrong output that is the right answer to an *earlier*
    call is a replay, and is reported as such.
    """

    def __init__(
        self, problem: Problem, factory: InputFactory, workload: Workload, *, repeats: bool = True,
        glance: correctness.Glance | None = None,
    ) -> None:
        """``repeats``: whether inputs are to be given again, where that costs much. ``glance``: what looks at outputs
        first, instead of torch.
        """
        self.factory = factory
        self.workload = workload
        self.repeats = repeats
        self._glance = glance
        self.tolerance: Tolerance = workload.tolerance
        self._scalars: dict[str, Value] | None = None
        self._remembered: deque[dict[str, torch.Tensor]] = deque(maxlen=REMEMBERED_CALLS)
        self._scalar_names = [n for n, s in problem.definition.inputs.items() if s.shape is None]

    def draw_seed(self) -> int:
        return secrets.randbits(62)

    def inputs(self, seed: int) -> dict[str, Value]:
        """The inputs of a seed; scalars stay what the first draw made them, since calls are bound to them."""
        made = self.factory.make(self.workload, torch.Generator().manual_seed(seed))
        if self._scalars is None:
            self._scalars = {name: made[name] for name in self._scalar_names}
        return {**made, **self._scalars}

    def scalars(self) -> dict[str, Value]:
        if self._scalars is None:
            self.inputs(self.draw_seed())
        assert self._scalars is not None
        return self._scalars

    def altered(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """A near-duplicate: the same inputs but for a few elements of one floating tensor, swapped at random.

        Swapping keeps every property of the content that a generator may have given it.
        """
        tensors = {
            name: value for name, value in inputs.items()
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.numel() > 1
        }
        if not tensors:
            return dict(inputs)
        # The largest: where a sampled look at the content is least likely to notice.
        name, original = max(tensors.items(), key=lambda item: item[1].numel())
        changed = original.clone()
        flat, source = as_bits(changed).flatten(), as_bits(original).flatten()
        pairs = torch.randint(flat.numel(), (2, SWAPPED_PAIRS), device=flat.device)
        flat[pairs[0]] = source[pairs[1]]
        return {**inputs, name: flat.view(original.dtype).reshape(original.shape)}

    def check_altered(
        self, measurement: Measurement, before: Mapping[str, torch.Tensor], altered: Mapping[str, Value],
        outputs: Mapping[str, torch.Tensor],
    ) -> bool:
        """Whether outputs follow a near-duplicate's few changes: compared only where the two references differ.

        ``before`` is the reference for the inputs that ``altered`` nearly is.
        """
        after = self.factory.reference(altered, self.workload)
        for name, want in after.items():
            stale = correctness.stale_elements(outputs[name], before[name], want, self.tolerance)
            if stale:
                measurement.findings.fail(
                    CheckName.FRESH_EVERY_CALL,
                    f"a call whose inputs differ in a few elements from an earlier one's got the earlier answer back"
                    f" ({stale} elements of output {name!r})",
                )
                return False
        measurement.findings.record(CheckName.FRESH_EVERY_CALL, True)
        return True

    def check(
        self, measurement: Measurement, inputs: Mapping[str, Value], outputs: dict[str, torch.Tensor], what: str
    ) -> bool:
        """Compare one call's outputs; records ``matches-reference`` and ``fresh-every-call``."""
        return self.check_all(measurement, [(inputs, outputs, what)])

    def check_all(
        self, measurement: Measurement,
        calls: Sequence[tuple[Mapping[str, Value], Mapping[str, torch.Tensor], str]],
    ) -> bool:
        """Compare the outputs of (inputs, outputs, name) calls, up to the first that is wrong."""
        pairs = [(outputs, self.factory.reference(inputs, self.workload)) for inputs, outputs, _ in calls]
        comparisons = correctness.compare_all(pairs, self.tolerance, self._glance)
        for (outputs, reference), comparison, (_, _, what) in zip(pairs, comparisons, calls, strict=True):
            measurement.note(comparison)
            if not comparison.ok:
                for earlier in self._remembered:
                    if correctness.compare(outputs, earlier, self.tolerance).ok:
                        measurement.findings.fail(
                            CheckName.FRESH_EVERY_CALL,
                            f"{what}: the outputs are the right answer to an earlier call's inputs, not to this call's",
                        )
                        break
            message = f"{what}: {comparison.message}" if comparison.message else ""
            measurement.findings.record(CheckName.MATCHES_REFERENCE, comparison.ok, message)
            self._remembered.append(reference)
            if not comparison.ok:
                return False
        return True

"""What measuring one workload yields, and the parts of it that are the same on every target."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, field

import torch

from agentcore.judge import correctness
from agentcore.judge.findings import Findings
from agentcore.problems import Problem, Tolerance, Workload
from agentcore.problems.tensors import InputFactory, Value
from agentcore.vocabulary import CheckName

REMEMBERED_CALLS = 6


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into one workload. ``quick`` is for correctness-only looks and the cheat corpus.

    On GPUs ``batches`` are verified call by call; more, verified by sample, follow until the interval is narrower than
    ``precision`` or ``budget_s`` is spent.
    """

    min_calls: int = 12
    max_calls: int = 40
    budget_s: float = 0.4
    batches: int = 4
    precision: float = 0.005
    call_timeout_s: float = 10.0
    first_call_timeout_s: float = 60.0

    @classmethod
    def quick(cls) -> Effort:
        return cls(
            min_calls=6, max_calls=8, budget_s=0.1, batches=2, precision=1.0, call_timeout_s=3.0,
            first_call_timeout_s=30.0,
        )


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


class Verifier:
    """Makes fresh inputs from secret seeds and compares outputs with references computed afterwards.

    References never exist before a candidate has answered. A wrong output that is the right answer to an *earlier*
    call is a replay, and is reported as such.
    """

    def __init__(self, problem: Problem, factory: InputFactory, workload: Workload) -> None:
        self.factory = factory
        self.workload = workload
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

    def check(
        self, measurement: Measurement, inputs: dict[str, Value], outputs: dict[str, torch.Tensor], what: str
    ) -> bool:
        """Compare one call's outputs; records ``matches-reference`` and ``fresh-every-call``."""
        reference = self.factory.reference(inputs, self.workload)
        comparison = correctness.compare(outputs, reference, self.tolerance)
        measurement.note(comparison)
        if not comparison.ok:
            for earlier in self._remembered:
                if correctness.compare(outputs, earlier, self.tolerance).ok:
                    measurement.findings.fail(
                        CheckName.FRESH_EVERY_CALL,
                        f"{what}: the outputs are the right answer to an earlier call's inputs, not to this call's",
                    )
                    break
        measurement.findings.record(CheckName.MATCHES_REFERENCE, comparison.ok, f"{what}: {comparison.message}"
                                    if comparison.message else "")
        self._remembered.append(reference)
        return comparison.ok

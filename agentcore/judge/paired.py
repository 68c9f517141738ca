"""A/B: two kernels measured in turn on one device, so that what moves between runs meets both alike.

Every round judges both with a fresh runner each and every check on; who goes first is drawn, and equally often either,
so that neither a drift nor what the other left behind favours one. The ratio of a round is taken within the round; over
the rounds the mean of its logarithm has a bootstrap interval (:func:`agentcore.judge.statistics.mean_interval`). A
runner's offset is drawn anew in each round, so it is in that interval and needs no allowance, and many rounds wear it
down. For the problem, a round's logarithms are averaged over the workloads first: what a round has in common does not
average out by measuring more of them.
"""

from __future__ import annotations

import math
import random as pseudo_random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

from agentcore.judge.building import kernel_digest
from agentcore.judge.compare import change_of
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult, PairedComparison, PairedRound, PairedWorkload
from agentcore.judge.statistics import mean_interval
from agentcore.vocabulary import Change, CheckName, Verdict

DEFAULT_ROUNDS = 8
FEWEST_ROUNDS = 2
MOST_ROUNDS = 64
SPARE_ROUNDS = 2
"""So many rounds, and half as many again as were asked for, may be spoiled and measured again."""

Side = Literal["old", "new"]
OTHER: dict[Side, Side] = {"old": "new", "new": "old"}

random = pseudo_random.SystemRandom()


class Evaluates(Protocol):
    """A judge, as much of it as is needed here."""

    def evaluate(self, request: EvaluationRequest) -> EvaluationResult: ...


def compare_in_turn(
    judge: Evaluates, old: EvaluationRequest, new: EvaluationRequest, rounds: int = DEFAULT_ROUNDS, *,
    budget_s: float = math.inf,
) -> EvaluationResult:
    """The new kernel's result with its ``comparison`` to the old one. Both requests are of one problem and hardware.

    Stops at the first failure of either. A disturbed round is measured again; where too many are, the result is
    ``infra_error``. Held-out shapes are judged in the first round. No further round begins that would, at the pace so
    far, end after ``budget_s`` seconds; fewer rounds give a wider interval. Raises ValueError for another number of
    rounds than FEWEST_ROUNDS to MOST_ROUNDS, or two problems.
    """
    if not FEWEST_ROUNDS <= rounds <= MOST_ROUNDS:
        raise ValueError(f"{rounds} rounds: give {FEWEST_ROUNDS} to {MOST_ROUNDS}")
    if (old.problem.digest, old.hardware) != (new.problem.digest, new.hardware):
        raise ValueError("an A/B comparison is of one problem on one hardware")
    return _InTurn(judge, old, new, rounds, budget_s).run()


class _InTurn:
    def __init__(
        self, judge: Evaluates, old: EvaluationRequest, new: EvaluationRequest, rounds: int, budget_s: float
    ) -> None:
        self.judge, self.rounds, self.budget_s = judge, rounds, budget_s
        self.began = time.monotonic()
        self.requests: dict[Side, EvaluationRequest] = {"old": old, "new": new}
        self.first: dict[Side, EvaluationResult] = {}
        """The first undisturbed result of each side: that with the held-out shapes."""
        self.done: list[PairedRound] = []
        self.repeated = 0
        self.seconds: dict[str, float] = {}

    def run(self) -> EvaluationResult:
        starts: list[Side] = [("old", "new")[number % 2] for number in range(self.rounds)]
        random.shuffle(starts)
        for number, start in enumerate(starts):
            if number >= FEWEST_ROUNDS and (time.monotonic() - self.began) * (number + 1) > self.budget_s * number:
                break
            results = self._round(number, start)
            while spoiled := next((r for r in results.values() if r.verdict is Verdict.INFRA_ERROR), None):
                self.repeated += 1
                broken = any(check.name is CheckName.INFRASTRUCTURE for check in spoiled.failed_checks())
                if broken or self.repeated > SPARE_ROUNDS + self.rounds // 2:
                    return self._give_up(spoiled)
                results = self._round(number, start)
            if failed := {side: result for side, result in results.items() if not result.passed}:
                return self._without_ratio(failed)
            times = {side: _times(result) for side, result in results.items()}
            self.done.append(PairedRound(first=start, old_us=times["old"], new_us=times["new"]))
        return self._result(self.first["new"], self._comparison())

    def _round(self, number: int, start: Side) -> dict[Side, EvaluationResult]:
        """Judge ``start`` and then the other; a failure or a disturbance of the first ends the round."""
        results: dict[Side, EvaluationResult] = {}
        for side in (start, OTHER[start]):
            self.requests[side].progress(f"round {number + 1} of {self.rounds}: the {side} kernel")
            results[side] = self._judge(side)
            if not results[side].passed:
                break
        return results

    def _judge(self, side: Side) -> EvaluationResult:
        request = self.requests[side]
        result = self.judge.evaluate(replace(request, heldout=request.heldout and side not in self.first))
        for phase, took_s in result.seconds.items():
            self.seconds[phase] = round(self.seconds.get(phase, 0.0) + took_s, 6)
        if result.verdict is not Verdict.INFRA_ERROR:
            self.first.setdefault(side, result)
        return result

    def _give_up(self, spoiled: EvaluationResult) -> EvaluationResult:
        """No verdict on anybody: as an evaluation that could not be judged."""
        request = self.requests["new"]
        why = f"{self.repeated} rounds could not be measured, the last because: {spoiled.message}"
        result = spoiled.model_copy(update={
            "language": request.language, "kernel_digest": kernel_digest(request.kernel_dir), "message": why[:4000],
            "workloads": [], "build": None, "runner_log": "",
        })
        return self._result(result, self._incomparable("the device or the host did not do its part"))

    def _without_ratio(self, failed: dict[Side, EvaluationResult]) -> EvaluationResult:
        """One of the two did not pass. The new kernel's verdict is wanted all the same, where only the old failed."""
        reasons = [f"the {side} kernel did not pass ({result.verdict})" for side, result in failed.items()]
        new = failed.get("new") or self.first.get("new") or self._judge("new")
        return self._result(new, self._incomparable(*reasons, old=failed.get("old")))

    def _result(self, new: EvaluationResult, comparison: PairedComparison) -> EvaluationResult:
        return new.model_copy(update={"comparison": comparison, "seconds": self.seconds})

    def _incomparable(self, *reasons: str, old: EvaluationResult | None = None) -> PairedComparison:
        known = old or self.first.get("old")
        return PairedComparison(
            change=Change.INCOMPARABLE, reasons=list(reasons), rounds=self.done, repeated=self.repeated,
            old_language=self.requests["old"].language, old_kernel_digest=known.kernel_digest if known else "",
            old_verdict=known.verdict if known else None, old_message=known.message if known else "",
        )

    def _comparison(self) -> PairedComparison:
        old = self.first["old"]
        ratio, low, high = paired_interval([_ratios(r) for r in self.done])
        workloads = []
        for workload in self.first["new"].workloads:
            if not workload.heldout and all(workload.uuid in _ratios(r) for r in self.done):
                each = paired_interval([{workload.uuid: _ratios(r)[workload.uuid]} for r in self.done])
                workloads.append(PairedWorkload(
                    uuid=workload.uuid, index=workload.index, axes=workload.axes, ratio=each[0], low=each[1],
                    high=each[2], change=change_of(each[1], each[2]),
                ))
        return PairedComparison(
            change=change_of(low, high), ratio=ratio, low=low, high=high, workloads=workloads, rounds=self.done,
            repeated=self.repeated, old_language=old.language, old_kernel_digest=old.kernel_digest,
            old_verdict=old.verdict, old_message=old.message,
        )


def paired_interval(rounds: Sequence[dict[str, float]]) -> tuple[float, float, float]:
    """The geometric mean of ratios over workloads and rounds, and its 95 % limits from the rounds.

    ``rounds`` hold one ratio per workload. Raises ValueError on no rounds or a round without a workload.
    """
    logs = [sum(map(math.log, ratios.values())) / len(ratios) for ratios in rounds if ratios]
    if len(logs) != len(rounds):
        raise ValueError("a round measured no workload")
    found = mean_interval(logs)
    return math.exp(found.value), math.exp(found.low), math.exp(found.high)


def _times(result: EvaluationResult) -> dict[str, float]:
    return {w.uuid: w.latency_us for w in result.workloads if not w.heldout and w.latency_us}


def _ratios(one: PairedRound) -> dict[str, float]:
    return {uuid: old / one.new_us[uuid] for uuid, old in one.old_us.items() if uuid in one.new_us}

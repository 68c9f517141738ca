"""The history of a problem in one language on one hardware: every attempt in order of finishing, and the running best.

An improvement counts only beyond the noise of both measurements (see comparisons.py). Ten thousand attempts are read as
plain rows; workloads only of those that could have improved. Reads only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentcore.judge.noise import Z_95, repeatability
from agentcore.judge.result import EnvironmentStamp
from agentcore.vocabulary import Change, HardwareName, Verdict
from portal.attempts.models import Attempt
from portal.evaluations import comparisons
from portal.evaluations.models import Evaluation
from portal.evaluations.scores import standing_evaluations

_AT_ONCE = 200
_ROWS = 20_000
_COMPARABLE = ("device_name", "harness_version", "sandbox", "driver", "threads", "torch")
"""What of a stamp decides whether two evaluations of one problem and language can be compared."""


@dataclass(frozen=True, slots=True)
class Point:
    """One finished attempt in the history of a problem, in order of finishing."""

    evaluation_id: int
    commit: str
    agent: str
    subject: str
    at: datetime
    verdict: str
    latency_us: float | None
    speedup: float | None
    sol_score: float | None
    is_new_best: bool
    best_sol_score: float | None
    """The running best after this attempt; it moves only when an attempt improved beyond the noise."""
    best_speedup: float | None
    is_current: bool = True
    """Whether it was measured on the problem as it is now; nothing else is scored or leads."""


def running_best(problem, language: str, hardware: str, *, campaign=None) -> list[Point]:
    """The history with the best so far at each point.

    Evaluations that cannot be compared (another device model, harness, driver, …) have leaders of their own: each moves
    only beyond the noise, and the best is the leader with the highest score.
    """
    wanted = {"language": language, "kind": Attempt.Kind.AGENT} | ({"campaign": campaign} if campaign else {})
    rows = list(
        standing_evaluations(problem=problem, **wanted).filter(hardware=hardware).order_by("finished_at", "id").values(
            "id", "verdict", "problem_digest", "latency_geomean_us", "speedup", "sol_score", "finished_at", "queued_at",
            "stamp", "harness_version", "attempt__commit", "attempt__subject", "attempt__agent__name",
        )
    )
    counting = [
        row for row in rows if row["verdict"] == Verdict.PASSED.value and row["latency_geomean_us"] is not None
        and row["problem_digest"] == problem.digest
    ]
    leads = _leads(counting, _least_proof(hardware))
    points: list[Point] = []
    counted = {row["id"] for row in counting}
    best: dict[str, Any] | None = None
    for row in rows:
        counts = row["id"] in counted
        is_new_best = row["id"] in leads and _is_above(row, best)
        if is_new_best:
            best = row
        points.append(Point(
            row["id"], row["attempt__commit"], row["attempt__agent__name"], row["attempt__subject"],
            row["finished_at"] or row["queued_at"], row["verdict"], row["latency_geomean_us"],
            row["speedup"] if counts else None, row["sol_score"] if counts else None, is_new_best,
            best["sol_score"] if best else None, best["speedup"] if best else None,
            row["problem_digest"] == problem.digest,
        ))
    return points


def _least_proof(hardware: str) -> float:
    """The ratio that two runs of one kernel may differ by on any day: nothing below it can be proven faster."""
    share = repeatability(EnvironmentStamp(hardware=HardwareName(hardware))).share
    return math.exp(Z_95 * math.sqrt(2) * share)


def _leads(rows: Sequence[dict[str, Any]], least_proof: float) -> set[int]:
    """The evaluations that took a lead when they finished: proven faster than the leader of what they compare with, or
    the first of their kind.
    """
    loaded = _Loaded(rows)
    leaders: list[Evaluation] = []
    slot: dict[tuple[Any, ...], int] = {}
    found: set[int] = set()

    def may_lead(row: dict[str, Any]) -> bool:
        place = slot.get(_kind(row))
        leader_us = leaders[place].latency_geomean_us if place is not None else None
        # Over the same workloads the ratio is that of the geometric means.
        return leader_us is None or row["latency_geomean_us"] * least_proof < leader_us

    for number, row in enumerate(rows):
        if not may_lead(row):
            continue
        evaluation = loaded.get(number, may_lead)
        place, change = _against(evaluation, leaders)
        slot.setdefault(_kind(row), place)
        if place == len(leaders):
            leaders.append(evaluation)
        elif change is Change.IMPROVED:
            leaders[place] = evaluation
        else:
            continue
        found.add(evaluation.pk)
    return found


def _against(evaluation: Evaluation, leaders: Sequence[Evaluation]) -> tuple[int, Change]:
    """The place of the leader that it can be compared with, and the outcome; the place after the last without one."""
    for place, leader in enumerate(leaders):
        if not comparisons.differences(evaluation, leader):
            change = comparisons.compare(evaluation, leader).change
            if change is not Change.INCOMPARABLE:
                return place, change
    return len(leaders), Change.INCOMPARABLE


class _Loaded:
    """Evaluations with their workloads, read some at a time: those that are asked for, and who may be next."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows
        self._known: dict[int, Evaluation] = {}
        self._batch = 1

    def get(self, number: int, is_wanted: Callable[[dict[str, Any]], bool]) -> Evaluation:
        pk = self._rows[number]["id"]
        if pk not in self._known:
            wanted = [pk]
            for row in self._rows[number + 1:]:
                if len(wanted) >= self._batch:
                    break
                if is_wanted(row):
                    wanted.append(row["id"])
            self._known = {e.pk: e for e in comparisons.ready(Evaluation.objects.filter(pk__in=wanted))}
            workloads = max(1, *(len(e.workloads.all()) for e in self._known.values()))
            self._batch = max(1, min(_AT_ONCE, _ROWS // workloads))
        return self._known[pk]


def _kind(row: dict[str, Any]) -> tuple[Any, ...]:
    stamp = row["stamp"] if isinstance(row["stamp"], dict) else {}
    return (row["harness_version"], *(str(stamp.get(name)) for name in _COMPARABLE))


def _is_above(row: dict[str, Any], best: dict[str, Any] | None) -> bool:
    if best is None or best["sol_score"] is None:
        return True
    return row["sol_score"] is not None and row["sol_score"] > best["sol_score"]

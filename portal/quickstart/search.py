"""The tuners at work, one problem after another: its baselines, then its attempts, then its merge, then the next.

Each lane works on a problem of its own, with a tuner that is started for it and reaches the portal like any agent.
`step` starts what can be started and returns; the caller watches the queue. What comes next is decided in `pace`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from portal.baselines.measuring import ensure_baselines
from portal.campaigns.models import Campaign
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem
from portal.quickstart import accounts, merging, pace, waiting
from portal.quickstart.processes import Child

StartTuner = Callable[[str, Problem, int, float | None], Child]
"""Starts the agent of that name on a problem: so many attempts, none later than so many minutes (None: no limit)."""


@dataclass(slots=True)
class _Lane:
    agent: str
    problem: Problem | None = None
    tuner: Child | None = None
    has_limit: bool = False
    """Whether the tuner was told when its time is up."""


class Search:
    """One run over ``problems``. ``merge`` is called with each problem whose attempts have ended."""

    def __init__(
        self, campaign: Campaign, problems: Sequence[Problem], *, lanes: int, attempts: int, seconds: float | None,
        start: StartTuner, merge: Callable[[Problem], None], say: Callable[[str], None],
    ) -> None:
        self.campaign, self.attempts = campaign, attempts
        self._start, self._merge, self._say = start, merge, say
        self._pending = pace.in_order(campaign, problems)
        self._lanes = [_Lane(f"{accounts.TUNER_PREFIX}{number + 1}") for number in range(lanes)]
        self._until = None if seconds is None else time.monotonic() + seconds
        self.begun: list[Problem] = []
        self.failed: dict[str, Child] = {}
        """Tuners that broke off, by problem."""
        self.out_of_time = False

    def step(self) -> bool:
        """Do what can be done now. False where there is nothing left to do."""
        for lane in self._lanes:
            self._advance(lane)
        return bool(self._pending) or any(lane.problem is not None for lane in self._lanes)

    def _advance(self, lane: _Lane) -> None:
        if lane.problem is None and not self._begin(lane):
            return
        problem = lane.problem
        assert problem is not None
        if lane.tuner is not None:
            if lane.tuner.running():
                return
            if lane.tuner.process.returncode != 0:
                self.failed[problem.name] = lane.tuner
                self._say(f"{lane.agent} stopped early at {problem.name}: {lane.tuner.last_words(3)}")
        if self._open(problem):
            return
        made = merging.own_attempts(self.campaign, problem)
        turn = pace.next_turn(made, self.attempts, self._left_s())
        # A tuner that ends before its attempts are used up knows every configuration, or its time was up. Where that
        # was so before its first attempt, it gets another turn, without a limit.
        again = lane.has_limit and not made and problem.name not in self.failed and self._is_late()
        if turn is None or (lane.tuner is not None and not again):
            self.out_of_time |= made < self.attempts and self._is_late() and problem.name not in self.failed
            self._finish(lane, problem)
            return
        lane.tuner = self._start(lane.agent, problem, turn.attempts - made, turn.minutes)
        lane.has_limit = turn.minutes is not None

    def _begin(self, lane: _Lane) -> bool:
        while self._pending:
            if self._is_late() and self.begun:
                self.out_of_time |= any(
                    merging.own_attempts(self.campaign, problem) < self.attempts for problem in self._pending
                )
                self._pending.clear()
                return False
            problem = self._pending.pop(0)
            self.begun.append(problem)
            lane.problem, lane.tuner, lane.has_limit = problem, None, False
            if any(row.state in Evaluation.PENDING for row in ensure_baselines(problem, [self.campaign.hardware])):
                self._say(f"{problem.name}: its baselines, then its attempts")
            return True
        return False

    def _finish(self, lane: _Lane, problem: Problem) -> None:
        lane.problem = lane.tuner = None
        began = time.monotonic()
        self._merge(problem)
        if self._until is not None:  # time is for measuring
            self._until += time.monotonic() - began

    def _open(self, problem: Problem) -> bool:
        """Whether a measurement of the problem is still to come: its baselines', or an attempt's of an earlier run."""
        mine = waiting.own_open(self.campaign.hardware)
        return mine.filter(attempt__problem=problem, kind=Evaluation.Kind.MEASURE).exists()

    def _left_s(self) -> float | None:
        return None if self._until is None else self._until - time.monotonic()

    def _is_late(self) -> bool:
        left = self._left_s()
        return left is not None and left <= 0

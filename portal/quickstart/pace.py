"""Which problem comes next, how many attempts it still gets, and what to say when time ran out. Decides, runs nothing.

Problems go one after another, each with its baselines first: on a slow host a run then ends with some problems done,
not with all baselines measured and nothing to compare with them. What a run begins gets at least one attempt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentcore.problems import ProblemError, load_problem
from agentcore.vocabulary import HardwareName
from portal.campaigns.models import Campaign
from portal.evaluations import scores
from portal.problems.models import Problem
from portal.quickstart import merging

EXAMPLE = "rmsnorm_h4096"
"""The problem that README.md goes on with: its solution should be there however short a run was."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a tuner is started with: how many attempts the problem shall have in all, and the minutes it has."""

    attempts: int
    minutes: float | None
    """No attempt starts later; None = no limit."""


def next_turn(made: int, planned: int, left_s: float | None) -> Turn | None:
    """What to have a tuner do for a problem that was begun and has ``made`` attempts; None: nothing more.

    ``left_s``: seconds until the time is used up, negative after that; None = no limit. The first attempt is made even
    then, or the measuring of baselines would have been for nothing.
    """
    if made >= planned:
        return None
    if left_s is None or left_s > 0:
        return Turn(planned, None if left_s is None else left_s / 60)
    return None if made else Turn(1, None)


def in_order(campaign: Campaign, problems: Sequence[Problem]) -> list[Problem]:
    """First what has its baseline already, then the example, then what is smallest, for that is measured soonest."""

    def key(problem: Problem) -> tuple[bool, bool, int, str]:
        ready = scores.current_baseline(problem, campaign.hardware) is not None
        return not ready, problem.name != EXAMPLE, _elements(problem, HardwareName(campaign.hardware)), problem.name

    return sorted(problems, key=key)


def _elements(problem: Problem, hardware: HardwareName) -> int:
    """Elements of all inputs and outputs of all workloads; 0 where the problem's files cannot be read."""
    try:
        files = load_problem(problem.directory())
    except ProblemError:
        return 0  # the next step says what is wrong
    definition, elements = files.definition, 0
    for workload in files.workloads_for(hardware):
        values = definition.axis_values(workload.axes)
        for spec in (*definition.inputs.values(), *definition.outputs.values()):
            elements += math.prod(definition.shape(spec, values) or ())
    return elements


def made(campaign: Campaign, problems: Sequence[Problem], planned: int) -> dict[str, int]:
    """How many of the ``planned`` attempts each problem has; more than planned counts as all."""
    return {problem.name: min(planned, merging.own_attempts(campaign, problem)) for problem in problems}


def so_far(counts: Mapping[str, int], planned: int) -> str:
    """What a run finds made already."""
    done, total = sum(counts.values()), planned * len(counts)
    return f"{total} attempts to make" if not done else f"{done} of {total} attempts are made already"


def out_of_time(counts: Mapping[str, int], planned: int) -> str:
    """How far it came, and how it goes on."""
    said = []
    for count, problems in sorted(Counter(counts.values()).items(), reverse=True):
        what = f"all {planned}" if count == planned else f"{count} of {planned}" if count else "none yet"
        of = "" if said else f" of {len(counts)} problems"
        said.append(f"{problems}{of} {'has' if problems == 1 else 'have'} {what}")
    return (
        f"the time ran out; of the planned attempts {', '.join(said)}. Nothing is lost: the same command goes on from "
        f"here (with --attempts-per-problem {planned} it has no time limit)."
    )

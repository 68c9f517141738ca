"""From times to scores: per workload, per problem, per campaign. Pure arithmetic; all times are microseconds.

The score of a workload is ``S = 1 / (1 + (T_k − T_SOL) / (T_b − T_SOL))``: 0.5 is the baseline, 1 the bound
(SOL-ExecBench, arXiv 2603.19173).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkloadTimes:
    """The three times of one workload. ``t_k_us`` None says that the kernel failed there."""

    t_k_us: float | None
    t_b_us: float
    t_sol_us: float


@dataclass(frozen=True, slots=True)
class ProblemScore:
    """A kernel's worth on one problem. A single failed workload fails the problem: score 0, no speedup."""

    passed: bool
    sol_score: float
    speedup: float | None
    workload_scores: tuple[float | None, ...] = ()
    workload_speedups: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """A campaign's headline numbers.

    ``beats_baseline`` and ``above_2x`` are shares (0–1) of all ``problems``; the geometric mean and the median are over
    the ``solved`` ones, and None where there is none.
    """

    problems: int
    solved: int
    geomean_speedup: float | None
    beats_baseline: float
    above_2x: float
    median_sol: float | None


def sol_score(t_k_us: float, t_b_us: float, t_sol_us: float) -> float:
    """The score of one workload, in 0–1.

    A time at or under the bound scores 1 (whether it is believable is the judge's matter). Where the baseline itself is
    at or under the bound, any slower time scores 0. Raises ValueError for times that are not positive and finite.
    """
    for name, value in (("t_k_us", t_k_us), ("t_b_us", t_b_us), ("t_sol_us", t_sol_us)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number of microseconds, got {value}")
    if t_k_us <= t_sol_us:
        return 1.0
    if t_b_us <= t_sol_us:
        return 0.0
    return 1.0 / (1.0 + (t_k_us - t_sol_us) / (t_b_us - t_sol_us))


def geomean(values: Iterable[float]) -> float:
    """The geometric mean. Raises ValueError for no values or one that is not positive and finite."""
    found = list(values)
    if not found:
        raise ValueError("the geometric mean of nothing is undefined")
    for value in found:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"a geometric mean needs positive numbers, got {value}")
    return math.exp(math.fsum(math.log(value) for value in found) / len(found))


def problem_score(times: Iterable[WorkloadTimes]) -> ProblemScore:
    """Mean score and geometric-mean speedup over a problem's workloads (held-out ones are not among them).

    Raises ValueError where there is no workload.
    """
    rows = list(times)
    if not rows:
        raise ValueError("a problem's score needs at least one workload")
    scores = tuple(None if r.t_k_us is None else sol_score(r.t_k_us, r.t_b_us, r.t_sol_us) for r in rows)
    speedups = tuple(None if r.t_k_us is None else r.t_b_us / r.t_k_us for r in rows)
    good_scores = [score for score in scores if score is not None]
    good_speedups = [speedup for speedup in speedups if speedup is not None]
    if len(good_scores) < len(rows):
        return ProblemScore(False, 0.0, None, scores, speedups)
    return ProblemScore(True, statistics.fmean(good_scores), geomean(good_speedups), scores, speedups)


def campaign_summary(best: Mapping[str, ProblemScore | None]) -> CampaignSummary:
    """Summarise a campaign from the best attempt's score of each of its problems (None where nothing passed yet)."""
    solved = [score for score in best.values() if score is not None and score.passed]
    speedups = [score.speedup for score in solved if score.speedup is not None]
    count = len(best)
    return CampaignSummary(
        problems=count,
        solved=len(solved),
        geomean_speedup=geomean(speedups) if speedups else None,
        beats_baseline=sum(s > 1.0 for s in speedups) / count if count else 0.0,
        above_2x=sum(s > 2.0 for s in speedups) / count if count else 0.0,
        median_sol=statistics.median(score.sol_score for score in solved) if solved else None,
    )

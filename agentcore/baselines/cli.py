"""``kernelyard baseline``: one problem's baselines, judged here and now, without the portal."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

from agentcore.baselines.judged import judge_baseline
from agentcore.baselines.kinds import BaselineKind
from agentcore.baselines.sources import NoBaseline
from agentcore.bounds.score import geomean
from agentcore.judge.command import CannotRun, Subparsers, add_common, judge_for, run_command, write_whole
from agentcore.judge.findings import plain
from agentcore.judge.result import EvaluationResult
from agentcore.problems import load_problem
from agentcore.vocabulary import Verdict


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommand."""
    parser = subparsers.add_parser(
        "baseline", help="judge a problem's PyTorch baselines", description=_baseline.__doc__
    )
    parser.add_argument("problem_dir", type=Path)
    parser.add_argument(
        "--kind", type=BaselineKind, choices=list(BaselineKind), nargs="+", default=list(BaselineKind),
        help="default: every kind that the problem has",
    )
    add_common(parser)
    parser.add_argument("--force", action="store_true", help="judge again what is kept")
    parser.set_defaults(run=partial(run_command, _baseline))


def _baseline(arguments: argparse.Namespace) -> int:
    """Judge the baselines of a problem like any kernel and say which is the fastest per workload: T_b.

    What passed is kept in the cache until the problem, the program, the device, its driver or the software changes.
    --json writes one object: every kind's whole result. Exit status 0 where at least one passed, 1 where none did.
    """
    from agentcore.judge.devices import local_hardware

    problem = load_problem(arguments.problem_dir)
    judge = judge_for(arguments.hardware or local_hardware(), arguments.cache_dir)
    results: dict[BaselineKind, EvaluationResult] = {}
    for kind in arguments.kind:
        try:
            results[kind] = judge_baseline(
                judge, problem, kind, arguments.cache_dir, arguments.sandbox, again=arguments.force
            )
        except NoBaseline as error:
            print(f"  {kind:8} {error}")
            continue
        print(f"  {kind:8} {_outcome(results[kind])}")
    if not results:
        raise CannotRun(f"{problem.name} has no baseline of these kinds")
    print(_fastest(results))
    if arguments.json:
        record = {kind.value: result.model_dump(mode="json") for kind, result in results.items()}
        write_whole(arguments.json, json.dumps(record, indent=1))
    return 0 if any(result.passed for result in results.values()) else 1


def _outcome(result: EvaluationResult) -> str:
    if result.verdict is Verdict.INFRA_ERROR:
        return f"not measured, run it again: {plain(result.message)[:600]}"
    if not result.passed:
        return f"{result.verdict}, never used: {plain(result.message)[:600]}"
    return f"passed, geometric mean {geomean([w.latency_us for w in result.workloads if w.latency_us]):.2f} us"


def _fastest(results: dict[BaselineKind, EvaluationResult]) -> str:
    """A line per workload: every verified kind's time, µs, and the fastest, which is T_b."""
    verified = {kind: result for kind, result in results.items() if result.passed}
    if not verified:
        return "  no baseline is verified: there is no T_b"
    times = {kind: {w.uuid: w.latency_us for w in result.workloads} for kind, result in verified.items()}
    lines = [f"  {'workload':>32} " + " ".join(f"{kind:>10}" for kind in verified) + "  T_b"]
    for workload in next(iter(verified.values())).workloads:
        here = {kind: us for kind in verified if (us := times[kind].get(workload.uuid)) is not None}
        name = " ".join(f"{axis}={value}" for axis, value in workload.axes.items())
        cells = " ".join(f"{here[kind]:>10.2f}" if kind in here else f"{'-':>10}" for kind in verified)
        best = min(here, key=lambda kind: here[kind]) if here else ""
        lines.append(f"  {name[:32]:>32} {cells}  {best}")
    return "\n".join(lines)

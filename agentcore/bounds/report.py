"""``kernelyard bounds PATH --compare``: bounds beside published ones and recorded times, with causes."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from agentcore.bounds.bound import bound_from_work
from agentcore.bounds.cache import cached_count
from agentcore.bounds.compare import Comparison, Headroom, compare, recorded_times, summary
from agentcore.bounds.count import BoundUnavailable
from agentcore.bounds.cpu import calibrate_cpu, default_cache_dir
from agentcore.judge.command import write_whole
from agentcore.judge.result import BoundRecord
from agentcore.problems.loading import Problem
from agentcore.problems.official import official_of
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import HardwareName


def report(problems: Sequence[Problem], hardware: HardwareName, arguments: argparse.Namespace) -> int:
    """Print the comparison, and write it where ``--json`` says. 1 where a bound is missing or above a measured time.

    Published bounds are for a B200 at the clocks of its ``sol-execbench`` profile: used unless another is named.
    """
    profile = arguments.profile or ("sol-execbench" if hardware is HardwareName.B200 else None)
    quiet = str(arguments.json) == "-"
    rates = None if hardware.is_gpu else calibrate_cpu(arguments.cache_dir or default_cache_dir())
    comparisons: list[Comparison] = []
    headroom: list[Headroom] = []
    unavailable: list[str] = []
    times = list(recorded_times(arguments.records, hardware)) if arguments.records else []
    for problem in problems:
        official = official_of(problem)
        factory = InputFactory(problem, "cpu")
        records: dict[str, BoundRecord] = {}
        of_problem: list[Comparison] = []
        for workload in problem.workloads_for(hardware):
            try:
                work = cached_count(problem, workload, factory, arguments.cache_dir)
            except BoundUnavailable as error:
                unavailable.append(str(error))
                continue
            found = bound_from_work(problem, workload, hardware, work, cpu_rates=rates, profile=profile)
            records[workload.uuid] = found
            stated = official.workloads.get(workload.uuid) if official and official.hardware == hardware else None
            if stated and stated.sol_us:
                of_problem.append(
                    compare(problem, workload, hardware, work, stated.sol_us, stated.baseline_us, profile)
                )
        of_records = [
            Headroom(problem.name, uuid, what, us, records[uuid].t_sol_us)
            for name, what, measured in times
            if name == problem.name
            for uuid, us in measured.items()
            if uuid in records
        ]
        comparisons += of_problem
        headroom += of_records
        if not quiet:
            _print_problem(problem.name, len(records), of_problem, of_records)
            if not of_problem:
                _print_bounds(problem, records)
    if not quiet:
        _print_summary(comparisons, headroom, unavailable)
        if arguments.records and not headroom:
            print(f"\nno result of these problems on {hardware} that passed is below {arguments.records}")
    written = json.dumps(_as_json(hardware, profile, comparisons, headroom, unavailable), indent=1) + "\n"
    if quiet:
        sys.stdout.write(written)
    elif arguments.json is not None:
        write_whole(arguments.json, written)
    return 1 if unavailable or any(h.factor < 1 for h in headroom) else 0


def _print_problem(name: str, count: int, comparisons: list[Comparison], headroom: list[Headroom]) -> None:
    line = f"{name[:60]:60} {count:4} bound{'s' if count != 1 else ''}"
    if comparisons:
        ratios = sorted(c.ratio for c in comparisons)
        line += f"  published x {ratios[0]:.2f} to {ratios[-1]:.2f}  {summary(comparisons)[0][0]}"
    if headroom:
        line += f"  measured / bound {min(h.factor for h in headroom):.2f} to {max(h.factor for h in headroom):.2f}"
    print(line, flush=True)


def _print_bounds(problem: Problem, records: dict[str, BoundRecord]) -> None:
    """The bounds themselves, where nothing is published to set beside them."""
    print(f"    {'workload':40} {'T_SOL us':>12} {'bytes':>15}  limited by")
    for workload in (*problem.workloads, *problem.cpu_workloads):
        if (record := records.get(workload.uuid)) is not None:
            axes = " ".join(f"{name}={value}" for name, value in workload.axes.items())
            moved = sum(record.bytes_moved.values())
            print(f"    {axes[:40]:40} {record.t_sol_us:12.3f} {moved:15,d}  {record.limiter}", flush=True)


def _print_summary(comparisons: list[Comparison], headroom: list[Headroom], unavailable: list[str]) -> None:
    if not comparisons:
        print("\nno bound is published with these problems for this hardware: there is nothing to compare ours with")
    if comparisons:
        print(f"\n{len(comparisons)} workloads with a published bound")
        for cause, count in summary(comparisons):
            print(f"{count:6} {count / len(comparisons):6.1%}  {cause}")
        above = [c for c in comparisons if c.is_above_baseline]
        print(f"{len(above):6} {len(above) / len(comparisons):6.1%}  above the published baseline's time")
        for unlike, count in Counter(c.unlike_ours or "is one to compare with" for c in above).most_common():
            print(f"       {count:6}  of these the published kernel {unlike}")
    if headroom:
        below = [h for h in headroom if h.factor < 1]
        print(
            f"\n{len(headroom)} recorded times, {len(below)} below the bound;"
            f" the nearest is {min(h.factor for h in headroom):.2f} times its bound"
        )
        for entry in below:
            print(f"       {entry.problem} {entry.uuid} {entry.what}: {entry.latency_us:.2f} < {entry.bound_us:.2f} us")
    if unavailable:
        print(f"\n{len(unavailable)} workloads without a bound, for one: {unavailable[0]}")


def _as_json(
    hardware: HardwareName,
    profile: str | None,
    comparisons: list[Comparison],
    headroom: list[Headroom],
    unavailable: list[str],
) -> dict[str, Any]:
    return {
        "hardware": hardware.value,
        "profile": profile,
        "causes": dict(summary(comparisons)),
        "published": [
            {"problem": c.problem, "uuid": c.uuid, "ours_us": round(c.ours_us, 4), "official_us": c.official_us,
             "baseline_us": c.baseline_us, "ratio": round(c.ratio, 3), "cause": c.cause,
             "unlike_ours": c.unlike_ours}
            for c in comparisons
        ],
        "recorded": [
            {"problem": h.problem, "uuid": h.uuid, "what": h.what, "latency_us": round(h.latency_us, 3),
             "bound_us": round(h.bound_us, 4), "factor": round(h.factor, 3)}
            for h in headroom
        ],
        "unavailable": unavailable,
    }  # fmt: skip

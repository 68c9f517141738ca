"""``kernelyard bounds`` prints T_SOL per workload and its numbers; ``kernelyard calibrate`` measures this CPU."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from agentcore.bounds.cpu import CalibrationError, calibrate_cpu, default_cache_dir
from agentcore.importing import kept_for_good
from agentcore.judge.command import CannotRun, run_command, write_whole
from agentcore.problems import Problem, ProblemError
from agentcore.problems.loading import find_problems, load_problem
from agentcore.vocabulary import HardwareName


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``bounds`` and ``calibrate`` to the command line."""
    about = "T_SOL of every workload of the problems at or below PATH."
    bounds = subparsers.add_parser("bounds", help="T_SOL of every workload", description=about)
    bounds.add_argument("path", type=Path, metavar="PATH")
    bounds.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), required=True)
    bounds.add_argument("--profile", help="a GPU's clock regime, such as sol-execbench for the b200")
    bounds.add_argument(
        "--compare", action="store_true", help="set them beside the bounds published with the problems, with causes"
    )
    bounds.add_argument(
        "--records", type=Path, metavar="DIR", help="with --compare: also beside the times in the results below DIR"
    )
    bounds.add_argument("--heldout", action="store_true", help="the held-out workloads as well")
    bounds.add_argument(
        "--verbose", action="store_true",
        help="below each workload: FLOPs by precision, bytes by tensor, rates with their sources, assumptions",
    )  # fmt: skip
    bounds.add_argument("--json", type=Path, metavar="OUT", help="write every number to OUT; - is standard output")
    bounds.add_argument("--cache-dir", type=Path, default=None, help="where the CPU's measured rates are kept")
    bounds.set_defaults(run=partial(run_command, _bounds))
    about = "Measure the CPU rates that bounds use, and cache them."
    calibrate = subparsers.add_parser("calibrate", help="measure this host's CPU", description=about)
    calibrate.add_argument("--cache-dir", type=Path, default=None)
    calibrate.add_argument("--force", action="store_true", help="measure again at once; rates only rise")
    calibrate.set_defaults(run=_calibrate)


def _calibrate(arguments: argparse.Namespace) -> int:
    try:
        rates = calibrate_cpu(arguments.cache_dir or default_cache_dir(), force=arguments.force)
    except CalibrationError as error:
        print(f"kernelyard: {error}", file=sys.stderr)
        return 2
    print(f"{rates.cpu}, {rates.threads} threads, measured {rates.measured_at:%Y-%m-%d %H:%M} UTC")
    print(f"  fp32 multiply-add  {rates.fp32_flops / 1e9:9.1f} GFLOP/s")
    if rates.bf16_flops:
        print(f"  bf16 dot product   {rates.bf16_flops / 1e9:9.1f} GFLOP/s")
    for size, rate in sorted(rates.read_bytes.items()):
        print(f"  read {size / 2**20:6.0f} MiB    {rate / 1e9:9.1f} GB/s")
    if rates.others_share is not None:
        again = "" if rates.is_settled else ": measured again at the first use half an hour from now"
        print(f"  others used {rates.others_share:.0%} of it meanwhile{again}")
    return 0


def _refuse_what_does_not_go_together(arguments: argparse.Namespace) -> None:
    """Raises CannotRun for an option that would be passed over."""
    if arguments.profile is not None and not arguments.hardware.is_gpu:
        raise CannotRun("--profile names the clocks of a GPU; the CPU's rates are those measured on its host")
    if arguments.records is not None and not arguments.compare:
        raise CannotRun("--records needs --compare")
    if arguments.records is not None and not arguments.records.is_dir():
        raise CannotRun(f"--records {arguments.records}: there is no such directory")
    if arguments.verbose and (arguments.compare or str(arguments.json) == "-"):
        raise CannotRun("--verbose goes with neither --compare nor --json -, which has every number")
    if arguments.heldout and arguments.compare:
        raise CannotRun("--heldout does not go with --compare: nothing is published for held-out workloads")


def _problems(path: Path) -> tuple[list[Problem], int]:
    """The problems at or below ``path``, and how many others do not load, which are said and stop none."""
    found, broken = [], 0
    for directory in find_problems(path):
        try:
            found.append(load_problem(directory))
        except ProblemError as error:
            print(error, file=sys.stderr)
            broken += 1
    if not found:
        raise CannotRun(f"{path}: " + ("none of its problems loads" if broken else "no definition.json at or below it"))
    return found, broken


def _bounds(arguments: argparse.Namespace) -> int:
    _refuse_what_does_not_go_together(arguments)
    with kept_for_good():
        from agentcore.bounds.bound import BoundUnavailable, bound
        from agentcore.bounds.explain import explain
        from agentcore.problems.tensors import InputFactory

    problems, broken = _problems(arguments.path)
    hardware: HardwareName = arguments.hardware
    quiet = str(arguments.json) == "-"
    rows: list[dict[str, Any]] = []
    unavailable = 0
    try:
        if arguments.compare:
            from agentcore.bounds.report import report

            return report(problems, hardware, arguments) or min(broken, 1)
        rates = None if hardware.is_gpu else calibrate_cpu(arguments.cache_dir or default_cache_dir())
        for problem in problems:
            factory = InputFactory(problem, "cpu")
            heldout = problem.heldout_for(hardware) if arguments.heldout else ()
            for workload in (*problem.workloads_for(hardware), *heldout):
                row: dict[str, Any] = {"problem": problem.name, "uuid": workload.uuid, "axes": workload.axes}
                axes = " ".join(f"{name}={value}" for name, value in workload.axes.items())
                try:
                    record = bound(
                        problem, workload, hardware, factory=factory, cpu_rates=rates, profile=arguments.profile
                    )
                except BoundUnavailable as error:
                    unavailable += 1
                    row["unavailable"] = str(error)
                    line = f"unavailable: {error}"
                else:
                    row["bound"] = record.model_dump(mode="json")
                    line = f"{record.t_sol_us:12.3f} µs  {record.limiter}"
                    if arguments.verbose:
                        line = "\n    ".join([line, *explain(record)])
                rows.append(row)
                if not quiet:
                    print(f"{problem.name:40} {axes:40} {line}")
    except CalibrationError as error:
        raise CannotRun(str(error)) from error
    except KeyError as error:
        raise CannotRun(str(error.args[0])) from error
    text = json.dumps({"hardware": hardware.value, "profile": arguments.profile, "workloads": rows}, indent=1) + "\n"
    if quiet:
        sys.stdout.write(text)
    elif arguments.json is not None:
        write_whole(arguments.json, text)
    return 1 if unavailable or broken else 0

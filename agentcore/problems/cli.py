"""``kernelyard problems check|convert``: find problems in any layout, say what is wrong, make directories of them.

Layouts: directories of SOL-ExecBench at any depth, JSONL, parquet, FlashInfer-Trace. No reference or input generator
runs unless ``--reference`` asks for it, and then in a sandbox.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from agentcore.problems.blobs import missing_blobs
from agentcore.problems.official import official_of
from agentcore.problems.problem import Problem
from agentcore.problems.sources import collect
from agentcore.sandbox.choose import SETTINGS


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``problems`` to the command line."""
    parser = subparsers.add_parser("problems", help="validate and convert problems", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="load every problem at or below PATH")
    check.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    check.add_argument(
        "--reference", action="store_true", help="also run each reference and input generator once, in the sandbox"
    )
    check.add_argument(
        "--sandbox", default="auto", choices=SETTINGS, help="of --reference"
    )
    check.set_defaults(run=_check)
    convert = actions.add_parser("convert", help="write every problem below PATH as a directory that judge can load")
    convert.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    convert.add_argument("--output", type=Path, required=True, metavar="DIR")
    convert.set_defaults(run=_convert)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.reference:
        from agentcore.sandbox import SandboxError, find_sandbox

        try:
            find_sandbox(arguments.sandbox)
        except (SandboxError, ValueError) as error:
            print(f"kernelyard: --reference needs a sandbox: {error}", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(prefix="kernelyard-problems-") as staging:
        return _report(arguments.paths, Path(staging), sandbox=arguments.sandbox if arguments.reference else None)[0]


def _convert(arguments: argparse.Namespace) -> int:
    code, counts = _report(arguments.paths, arguments.output, sandbox=None)
    in_place = counts["loads"] - counts["staged"]
    said = f"{counts['staged']} written below {arguments.output}" if counts["staged"] else "nothing was written"
    if in_place:
        said += f"; {in_place} {'is a directory' if in_place == 1 else 'are directories'} already, to be used in place"
    print(said)
    return code


def _report(paths: list[Path], staging: Path, sandbox: str | None) -> tuple[int, Counter[str]]:
    """Print a line for each problem and one for all. 0 where all load, 1 where one does not, 2 where none is there;
    and how many there are of which outcome.
    """
    counts: Counter[str] = Counter()
    for found in collect(paths, staging):
        if found.problem is None:
            counts["broken"] += 1
            _say(found.error)
            continue
        if found.same_as:
            counts["repeated"] += 1
            _say(f"{found.problem.name}: {found.place} is the same as {found.same_as}")
            continue
        error, ran = _tried(found.problem, sandbox) if sandbox else ("", "")
        if error:
            counts["broken"] += 1
            _say(f"{found.place}: reference: {error}")
            continue
        counts["loads"] += 1
        counts["staged"] += found.staged
        counts["workloads"] += len(found.problem.workloads)
        counts["warnings"] += len(found.problem.warnings)
        _describe(found.problem, ran)
    total = counts["loads"] + counts["broken"]
    warned = f"; {counts['warnings']} warnings" if counts["warnings"] else ""
    _say(f"{counts['loads']} of {total} problems load, with {counts['workloads']} workloads{warned}")
    if not counts["loads"] and not counts["repeated"] and counts["broken"] == len(paths):
        return 2 if all(not path.exists() for path in paths) else 1, counts
    return 1 if counts["broken"] else 0, counts


def _describe(problem: Problem, ran: str) -> None:
    name = f" ({problem.original_name!r})" if problem.original_name != problem.name else ""
    stated = official_of(problem)
    official = f", official numbers of {len(stated.workloads)}" if stated is not None and stated.workloads else ""
    _say(f"{problem.name}{name}: {_counts(problem)}{official}{ran}")
    for warning in problem.warnings:
        _say(f"  warning: {warning}")
    absent = missing_blobs(problem)
    if absent:
        _say(f"  {len(absent)} workloads cannot run: files are absent, such as {min(absent.values())[0]}")


def _counts(problem: Problem) -> str:
    """How many workloads there are, and which of them the CPU gets: all, unless it has a list of its own."""
    count, cpu, heldout = len(problem.workloads), len(problem.cpu_workloads), len(problem.heldout)
    word = "workload" if count == 1 else "workloads"
    mine = f"{count} {word} for GPUs, {cpu} for the CPU" if cpu else f"{count} {word} for GPUs and the CPU alike"
    return f"{mine}, {heldout or 'none'} held out"


def _tried(problem: Problem, sandbox: str) -> tuple[str, str]:
    """What is wrong with the reference, and what to add to the problem's line."""
    from agentcore.problems.trial import try_reference
    from agentcore.sandbox import find_sandbox

    trial = try_reference(problem, find_sandbox(sandbox))
    if not trial.ok:
        return f"workload {trial.workload}: {trial.message}", ""
    return "", "; the reference ran" if trial.outcome == "ran" else f"; the reference was not run: {trial.message}"


def _say(text: str) -> None:
    """Print what may quote a stranger's file: nothing in it reaches the terminal but text."""
    from agentcore.build.log import clean_text

    encoding = sys.stdout.encoding or "utf-8"
    print(clean_text(text).encode(encoding, "backslashreplace").decode(encoding))

"""``kernelyard compare`` (two evaluations) and ``kernelyard ab`` (two kernels in turn): improved or not."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from agentcore.judge.command import (
    CannotRun,
    Subparsers,
    add_common,
    check_pair,
    check_tools,
    default_hardware,
    judge_for,
    read_result,
    run_command,
    write_whole,
)
from agentcore.judge.compare import Measured, between_runs, compare
from agentcore.judge.rendering import render_comparison, render_paired
from agentcore.judge.request import EvaluationRequest
from agentcore.kernel_language import language_of
from agentcore.problems import load_problem
from agentcore.vocabulary import Change, HardwareName, Language


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommands."""
    both = subparsers.add_parser("compare", help="compare two evaluations", description=_compare.__doc__)
    both.add_argument("old", type=Path, metavar="A.json", help="the earlier evaluation, from judge --json")
    both.add_argument("new", type=Path, metavar="B.json", help="the later one")
    both.add_argument("--json", type=Path, metavar="OUT", help="write the comparison here")
    both.set_defaults(run=partial(run_command, _compare))
    turns = subparsers.add_parser("ab", help="measure two kernels in turn", description=_ab.__doc__)
    turns.add_argument("problem_dir", type=Path)
    turns.add_argument("old", type=Path, metavar="KERNEL_A", help="directory of the earlier kernel")
    turns.add_argument("new", type=Path, metavar="KERNEL_B", help="directory of the later one")
    turns.add_argument(
        "--language", type=Language, choices=list(Language), help="of both, where their files do not show it"
    )
    turns.add_argument("--language-a", type=Language, choices=list(Language), help="where A is in another language")
    turns.add_argument("--rounds", type=int, default=8, help="how often both are measured (default: 8)")
    turns.add_argument("--quick", action="store_true", help="few calls a round: for a look, not for a decision")
    add_common(turns)
    turns.set_defaults(run=partial(run_command, _ab))


def _compare(arguments: argparse.Namespace) -> int:
    """Whether B is faster than A beyond the noise of both, per workload and for the problem.

    Exit status 0 where it improved, 1 where that is unproven or it regressed, 2 where the two cannot be compared. Two
    evaluations of the same kernel are always unproven: a note says that they differ by the machine's runs alone.
    """
    old, new = read_result(arguments.old), read_result(arguments.new)
    comparison = compare(Measured.of(new), Measured.of(old))
    if new.kernel_digest and (new.kernel_digest, new.language) == (old.kernel_digest, old.language):
        comparison = between_runs(comparison)
    if brief := [str(file) for file, side in ((arguments.old, old), (arguments.new, new)) if side.quick]:
        note = f"measured with few calls (--quick), for a look and not for a record: {', '.join(brief)}"
        comparison = replace(comparison, notes=(*comparison.notes, note))
    print(render_comparison(comparison, str(arguments.old), str(arguments.new)))
    if arguments.json:
        write_whole(arguments.json, json.dumps(asdict(comparison), indent=1))
    if comparison.change is Change.INCOMPARABLE:
        raise CannotRun("these two say nothing about one another; measure both again in one environment")
    return 0 if comparison.change is Change.IMPROVED else 1


def _ab(arguments: argparse.Namespace) -> int:
    """Judge two kernels in turn on one device, in random order, several rounds, and report the paired ratio A/B.

    Exit status 0 where B is faster beyond the noise, 1 where that is unproven, it is slower, or one did not pass.
    """
    from agentcore.judge.paired import FEWEST_ROUNDS, MOST_ROUNDS, compare_in_turn

    if not FEWEST_ROUNDS <= arguments.rounds <= MOST_ROUNDS:
        raise CannotRun(f"--rounds {arguments.rounds}: give {FEWEST_ROUNDS} to {MOST_ROUNDS}")
    problem = load_problem(arguments.problem_dir)
    for directory in (arguments.old, arguments.new):
        if not directory.is_dir():
            raise CannotRun(f"{directory} is not a directory; name the one that holds the kernel's source")
    languages = (
        arguments.language_a or arguments.language or language_of(arguments.old),
        arguments.language or language_of(arguments.new),
    )
    hardware: HardwareName = arguments.hardware or default_hardware(languages[1])
    requests = []
    for directory, language in zip((arguments.old, arguments.new), languages, strict=True):
        check_pair(language, hardware)
        check_tools(language)
        requests.append(EvaluationRequest(
            problem=problem, kernel_dir=directory.resolve(), language=language, hardware=hardware,
            cache_dir=arguments.cache_dir, sandbox=arguments.sandbox, quick=arguments.quick, progress=_progress,
        ))
    old, new = requests
    result = compare_in_turn(judge_for(hardware, arguments.cache_dir), old, new, arguments.rounds)
    print(render_paired(result, str(arguments.old), str(arguments.new)))
    if arguments.json:
        write_whole(arguments.json, result.model_dump_json(indent=1))
    return 0 if result.comparison and result.comparison.change is Change.IMPROVED else 1


def _progress(text: str) -> None:
    if text.startswith("round"):
        print(f"  {text}", file=sys.stderr)

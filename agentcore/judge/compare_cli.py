"""``kernelyard compare``: two evaluations, improved or not."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

from agentcore.judge.command import CannotRun, Subparsers, read_result, run_command, write_whole
from agentcore.judge.compare import Measured, compare
from agentcore.judge.rendering import render_comparison
from agentcore.vocabulary import Change


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommands."""
    both = subparsers.add_parser("compare", help="compare two evaluations", description=_compare.__doc__)
    both.add_argument("old", type=Path, metavar="A.json", help="the earlier evaluation, from judge --json")
    both.add_argument("new", type=Path, metavar="B.json", help="the later one")
    both.add_argument("--json", type=Path, metavar="OUT", help="write the comparison here")
    both.set_defaults(run=partial(run_command, _compare))


def _compare(arguments: argparse.Namespace) -> int:
    """Whether B is faster than A beyond the noise of both, per workload and for the problem.

    Exit status 0 where it improved, 1 where that is unproven or it regressed, 2 where the two cannot be compared.
    """
    old, new = read_result(arguments.old), read_result(arguments.new)
    comparison = compare(Measured.of(new), Measured.of(old))
    print(render_comparison(comparison, str(arguments.old), str(arguments.new)))
    if arguments.json:
        write_whole(arguments.json, json.dumps(asdict(comparison), indent=1))
    if comparison.change is Change.INCOMPARABLE:
        raise CannotRun("these two say nothing about one another; measure both again in one environment")
    return 0 if comparison.change is Change.IMPROVED else 1

"""``kernelyard problems check PATH``: load every problem below a directory and say what is wrong with it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentcore.problems.errors import ProblemError
from agentcore.problems.loading import Problem, find_problems, load_problem, missing_blobs


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``problems`` to the command line."""
    parser = subparsers.add_parser("problems", help="validate problem directories", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="load every problem at or below PATH")
    check.add_argument("path", type=Path, metavar="PATH")
    check.add_argument("--reference", action="store_true", help="also run each reference on its smallest workload")
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    directories = find_problems(arguments.path)
    if not directories:
        print(f"{arguments.path}: no definition.json at or below it", file=sys.stderr)
        return 2
    bad = 0
    for directory in directories:
        try:
            problem = load_problem(directory)
            ran = _run_smallest(problem) if arguments.reference else ""
        except ProblemError as error:
            bad += 1
            print(error)
            continue
        absent = missing_blobs(problem)
        cpu, heldout = len(problem.cpu_workloads), len(problem.heldout)
        print(f"{problem.name}: {len(problem.workloads)} workloads, {cpu} for the CPU, {heldout} held out{ran}")
        if absent:
            print(f"  {len(absent)} workloads cannot run: files are absent, such as {min(absent.values())[0]}")
    print(f"{len(directories) - bad} of {len(directories)} problems load")
    return 1 if bad else 0


def _run_smallest(problem: Problem) -> str:
    import torch

    from agentcore.problems.tensors import InputFactory, input_specs, output_specs

    def elements(position: int) -> int:
        specs = (*input_specs(problem, lists[position]).values(), *output_specs(problem, lists[position]).values())
        return sum(torch.Size(shape or ()).numel() for shape, _ in specs)

    lists = problem.cpu_workloads or problem.workloads
    lists = tuple(w for w in lists if w.uuid not in missing_blobs(problem))
    if not lists:
        return ""
    workload = lists[min(range(len(lists)), key=elements)]
    factory = InputFactory(problem, "cpu")
    try:
        factory.reference(factory.make(workload, torch.Generator().manual_seed(0)), workload)
    except ProblemError:
        raise
    except Exception as error:
        where = f"{problem.root}: reference: workload {workload.uuid}"
        raise ProblemError(f"{where}: {type(error).__name__}: {error}") from error
    return "; the reference ran"

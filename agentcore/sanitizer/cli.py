"""``kernelyard sanitize``: one kernel under every sanitizer that fits, as a table and as JSON."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from agentcore.judge.command import CannotRun, Subparsers, run_command, write_whole
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.kernel_language import language_of
from agentcore.problems import load_problem
from agentcore.sandbox.choose import SETTINGS
from agentcore.sanitizer.report import Tool
from agentcore.sanitizer.tools import tools_for
from agentcore.vocabulary import HardwareName, Language, Verdict


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommand."""
    parser = subparsers.add_parser(
        "sanitize", help="look at a kernel with sanitizers: memory, races, uninitialised reads",
        description=_sanitize.__doc__,
    )
    parser.add_argument("problem_dir", type=Path)
    parser.add_argument("kernel_dir", type=Path)
    parser.add_argument(
        "--language", type=Language, choices=[Language.CUDA, Language.CPP], help="where its files do not show it"
    )
    parser.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), default=None)
    parser.add_argument(
        "--tool", type=Tool, action="append", choices=list(Tool), default=[], help="only this one; may be repeated"
    )
    parser.add_argument("--workloads", type=int, metavar="N", help="only the N smallest workloads")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the whole result here")
    parser.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    parser.add_argument("--sandbox", default="auto", choices=SETTINGS)
    parser.set_defaults(run=partial(run_command, _sanitize))


def _sanitize(arguments: argparse.Namespace) -> int:
    """Run a kernel once per small workload under sanitizers and print what they found.

    Exit status 0 where it is clean, 1 where it is not, 2 where no sanitizer could run.
    """
    from agentcore.judge.devices import local_hardware
    from agentcore.sanitizer.evaluate import Choice, sanitize

    problem = load_problem(arguments.problem_dir)
    if not arguments.kernel_dir.is_dir():
        raise CannotRun(f"{arguments.kernel_dir} is not a directory; name the one that holds the kernel's source")
    language: Language = arguments.language or language_of(arguments.kernel_dir)
    hardware = arguments.hardware or (HardwareName.CPU if language is Language.CPP else local_hardware())
    if not tools_for(language, hardware):
        there = f"on {hardware}; give another --hardware" if language.is_compiled else "anywhere"
        raise CannotRun(f"no sanitizer looks at {language} kernels {there}")
    if arguments.workloads is not None and arguments.workloads < 1:
        raise CannotRun("--workloads must be at least 1")
    result = sanitize(
        EvaluationRequest(
            problem=problem, kernel_dir=arguments.kernel_dir.resolve(), language=language, hardware=hardware,
            cache_dir=arguments.cache_dir, sandbox=arguments.sandbox,
            progress=lambda text: print(f"  {text}", file=sys.stderr),
        ),
        Choice(tools=tuple(arguments.tool), workloads=arguments.workloads),
    )
    print(render(result))
    if arguments.json:
        write_whole(arguments.json, result.model_dump_json(indent=1))
    if result.verdict is Verdict.INFRA_ERROR:
        return 2
    return 0 if result.verdict is Verdict.CLEAN else 1


def render(result: EvaluationResult) -> str:
    """The result as text: the verdict, a line per tool, and each finding with its place."""
    from agentcore.sanitizer.evaluate import where

    lines = [f"{result.problem} [{result.language}] on {result.stamp.device_name or result.hardware}: {result.verdict}"]
    if result.message:
        lines.append(f"  {result.message}")
    report = result.sanitizer
    for run in report.tools if report else []:
        looked = f"{len(run.workloads)} workloads" if run.workloads else "no workload"
        lines.append(f"  {run.tool:10} {run.status:9} {looked:>12} {run.seconds:7.2f} s  {run.message}".rstrip())
    for finding in report.findings if report else []:
        lines.append(f"  {finding.severity}: {finding.tool}: {finding.kind} at {where(finding)} ({finding.count}x)")
        lines.append(f"      {finding.message}")
        if finding.workloads:
            lines.append(f"      in workloads {', '.join(map(str, finding.workloads))}")
    if report and report.findings_left_out:
        lines.append(f"  {report.findings_left_out} more findings were left out")
    lines.append("  " + ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()))
    return "\n".join(lines)

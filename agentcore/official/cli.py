"""``kernelyard export-solution``: a kernel of ours as a solution.json. Needs neither torch nor a compiler."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from agentcore.build.source import SourceError, read_tree
from agentcore.judge.command import CannotRun, check_pair, write_whole
from agentcore.judge.result import EvaluationResult
from agentcore.kernel_language import LanguageUnclear, language_of
from agentcore.official.export import ExportError, Origin, export_solution, to_json
from agentcore.paths import RECORD_NAMES
from agentcore.problems import ProblemError, load_problem
from agentcore.vocabulary import HardwareName, Language

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommand."""
    export = subparsers.add_parser(
        "export-solution", help="write a kernel as a SOL-ExecBench solution.json", description=_export.__doc__
    )
    export.add_argument("directory", type=Path, help="a kernel's directory, or a published solution's")
    export.add_argument("--problem", type=Path, required=True, metavar="PROBLEM_DIR")
    export.add_argument("--output", type=Path, metavar="FILE", help="by default, standard output")
    export.add_argument("--language", type=Language, choices=list(Language), help="by default, as its files say")
    export.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), help="by default, as recorded")
    export.add_argument("--name", help="by default, problem, language and hardware")
    export.add_argument("--author", help="by default, the recorded agent")
    export.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        return _export(arguments)
    except (CannotRun, ExportError, LanguageUnclear, ProblemError, SourceError, OSError) as error:
        print(f"kernelyard export-solution: {error}", file=sys.stderr)
        return 2


def _export(arguments: argparse.Namespace) -> int:
    """Write a kernel as a solution.json for SOL-ExecBench and FlashInfer-Bench, with a generated torch binding.

    The exported file runs through ``kernelyard judge PROBLEM_DIR FILE`` too.
    """
    directory: Path = arguments.directory
    if not directory.is_dir():
        raise ExportError(f"{directory} is not a directory; name the one that holds the kernel's source")
    problem = load_problem(arguments.problem)
    files = read_tree(directory)
    recorded = _recorded(files.pop(RECORD_NAMES[0], None), directory / RECORD_NAMES[0])
    published = _published(files.pop(RECORD_NAMES[1], None))
    if recorded is not None and recorded.problem != problem.name:
        raise ExportError(f"{directory} holds a kernel for {recorded.problem}, not for {problem.name}")
    language = arguments.language or (recorded.language if recorded else language_of(directory))
    hardware = arguments.hardware or (recorded.hardware if recorded else _hardware_for(language))
    check_pair(language, hardware)
    origin = Origin(
        name=arguments.name or f"{problem.name}_{language}_{hardware}",
        author=arguments.author or str(published.get("agent") or "kernelyard"),
        description=f"Exported by kernelyard for {hardware}."
        + (f" Attempt {published['commit']:.40}." if isinstance(published.get("commit"), str) else ""),
    )
    written = to_json(export_solution(files, problem.definition, language, hardware, origin))
    if arguments.output is None:
        sys.stdout.write(written.decode())
    else:
        write_whole(arguments.output, written.decode())
    return 0


def _recorded(data: bytes | None, file: Path) -> EvaluationResult | None:
    if data is None:
        return None
    try:
        return EvaluationResult.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ExportError(f"{file} is no evaluation result: {field}: {first['msg']}") from None


def _published(data: bytes | None) -> dict[str, Any]:
    """The record of where a published kernel comes from; empty where there is none."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _hardware_for(language: Language) -> HardwareName:
    if language is Language.CPP:
        return HardwareName.CPU
    if language is Language.CUDA:
        raise ExportError("which hardware a CUDA kernel is for decides its instructions; give --hardware")
    return HardwareName.B200

"""What the judge's subcommands share: options, refusals, and results as files. Not a command of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError

from agentcore.build.frameworks import FrameworkMissing, framework_version
from agentcore.build.toolchain import ToolMissing, compiler
from agentcore.importing import kept_for_good
from agentcore.judge.ahead import device_ahead
from agentcore.judge.result import EvaluationResult
from agentcore.problems import DocumentError
from agentcore.sandbox.choose import SETTINGS
from agentcore.vocabulary import HardwareName, Language

if TYPE_CHECKING:
    from agentcore.judge.evaluate import Judge

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CannotRun(Exception):
    """What was asked for cannot be done here; the message says why and what to change. Exit status 2."""


def run_command(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """What a subcommand is run by: what it cannot do is said in one line, with exit status 2."""
    try:
        return command(arguments)
    except (CannotRun, DocumentError) as error:
        print(f"kernelyard {arguments.command}: {error}", file=sys.stderr)
        return 2


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options every subcommand that measures has."""
    parser.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), default=None)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the whole result here")
    parser.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    parser.add_argument(
        "--sandbox", default="auto", choices=SETTINGS,
        help="none runs candidates unconfined: only for code you trust, and never mergeable",
    )


def judge_for(hardware: HardwareName, cache_dir: Path) -> Judge:
    """A judge of this host's device. Raises CannotRun where there is none."""
    try:
        with kept_for_good():
            with device_ahead(hardware, cache_dir):
                from agentcore.judge.evaluate import Judge

            return Judge(hardware, cache_dir)
    except (RuntimeError, OSError) as error:
        raise CannotRun(str(error)) from error


def check_pair(language: Language, hardware: HardwareName) -> None:
    """Raises CannotRun where kernels of ``language`` cannot run on ``hardware``."""
    on_gpus_only = (Language.CUDA, Language.TRITON, Language.CUTE)
    if (language is Language.CPP and hardware.is_gpu) or (language in on_gpus_only and not hardware.is_gpu):
        which = [name.value for name in HardwareName if name.is_gpu != hardware.is_gpu]
        raise CannotRun(f"{language} kernels do not run on {hardware}; give --hardware {' or '.join(which)}")


def check_tools(language: Language) -> None:
    """Raises CannotRun, saying what to install, where this host lacks what ``language`` is compiled by or written in.

    Judging would find out as well, but after a baseline has been measured, and as a fault of its own.
    """
    try:
        framework_version(language)
        if language.is_compiled:
            compiler(language)
    except (FrameworkMissing, ToolMissing) as error:
        raise CannotRun(str(error)) from error


def read_result(file: Path) -> EvaluationResult:
    """An evaluation from its JSON file. Raises CannotRun naming the file and the field at fault."""
    try:
        return EvaluationResult.model_validate_json(file.read_bytes())
    except OSError as error:
        raise CannotRun(f"{file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole file"
        raise CannotRun(f"{file} is no evaluation result: {field}: {first['msg']}") from error


def default_hardware(language: Language) -> HardwareName:
    """What ``language`` is measured on here where nobody says: the CPU for C++, else the first GPU there is."""
    from agentcore.judge.devices import local_hardware

    return HardwareName.CPU if language is Language.CPP else local_hardware()


def write_whole(file: Path, text: str) -> None:
    """Write a file whole or not at all. Raises CannotRun where it cannot be."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.tmp")
        temporary.write_text(text, "utf-8")
        temporary.replace(file)
    except OSError as error:
        raise CannotRun(f"{file} cannot be written: {error.strerror}") from error

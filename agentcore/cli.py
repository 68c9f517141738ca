"""The command line: one subcommand a module, each listed with a line of help by ``kernelyard --help``."""

from __future__ import annotations

import argparse
import os
import sys

import agentcore.baselines.cli as baselines_cli
import agentcore.bounds.cli as bounds_cli
import agentcore.extract.cli as extract_cli
import agentcore.judge.cli as judge_cli
import agentcore.judge.compare_cli as compare_cli
import agentcore.official.cli as official_cli
import agentcore.problems.cli as problems_cli
import agentcore.sanitizer.cli as sanitizer_cli
import agentcore.selftest.cli as selftest_cli
from agentcore import __version__
from agentcore.problems import ProblemError

DESCRIPTION = "Judge GPU and CPU kernels on this host: correctness, time, and distance from the hardware's limit."


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; 0 = it did and the news is good, 1 = it did and the news is bad, 2 = it could not."""
    parser = argparse.ArgumentParser(prog="kernelyard", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"kernelyard {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (
        judge_cli, baselines_cli, compare_cli, official_cli, sanitizer_cli, selftest_cli, bounds_cli, problems_cli,
        extract_cli,
    ):
        module.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()  # so that a closed pipe is met here, not at the interpreter's exit
    except ProblemError as error:
        print(f"kernelyard: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the exit flushes once more
        return 141  # 128 + SIGPIPE, as a shell reports it
    return code


if __name__ == "__main__":
    sys.exit(main())

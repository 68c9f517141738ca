"""The command line: one subcommand a module, each listed with a line of help by ``kernelyard --help``."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from agentcore import __version__
from agentcore.problems import ProblemError

DESCRIPTION = "Judge GPU and CPU kernels on this host: correctness, time, and distance from the hardware's limit."
MODULES = {
    "judge": "agentcore.judge.cli",
    "verify": "agentcore.judge.cli",
    "devices": "agentcore.judge.cli",
    "baseline": "agentcore.baselines.cli",
    "compare": "agentcore.judge.compare_cli",
    "ab": "agentcore.judge.compare_cli",
    "export-solution": "agentcore.official.cli",
    "sanitize": "agentcore.sanitizer.cli",
    "selftest": "agentcore.selftest.cli",
    "bounds": "agentcore.bounds.cli",
    "calibrate": "agentcore.bounds.cli",
    "problems": "agentcore.problems.cli",
    "extract": "agentcore.extract.cli",
}
"""The module of each subcommand, in the order of the help. Only that of the one that runs is imported."""


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; 0 = it did and the news is good, 1 = it did and the news is bad, 2 = it could not."""
    parser = argparse.ArgumentParser(prog="kernelyard", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"kernelyard {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = sys.argv[1:] if argv is None else argv
    named = MODULES.get(words[0]) if words else None
    for module in [named] if named else dict.fromkeys(MODULES.values()):
        import_module(module).add_parser(subparsers)
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

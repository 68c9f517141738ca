"""``kernelyard extract``: a PyTorch model's fusable parts as problems, ranked by what they need at best."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentcore.extract.errors import ExtractError
from agentcore.vocabulary import HardwareName

_ABOUT = """\
Turn a PyTorch model into problem candidates: torch.export it with example calls, cut it into parts that a kernel can
fuse, merge identical ones, write a problem for each, check every reference against the model, and rank them by
occurrences x T_SOL. The model is taken in evaluation mode, forward only. MODEL and the file of examples are executed in
this process, without a sandbox: use your own."""

_EXAMPLES = """\
The file of examples defines 'examples': a list, or a function that returns one, with one entry per call of the model
(a tuple of positional or a dict of keyword arguments). Sizes that differ between calls become variable axes. It may
name them, and constant sizes: AXES = {"hidden_states": {1: "tokens"}}, SIZES = {4096: "hidden"}."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``extract`` to the command line."""
    parser = subparsers.add_parser(
        "extract", help="turn a PyTorch model into problem candidates", description=_ABOUT, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="FILE.py:MODEL", help="a Module, or what makes one without arguments")
    parser.add_argument("--example", required=True, metavar="FILE.py[:NAME]", help="the example calls; see below")
    parser.add_argument("--output", type=Path, metavar="DIR", help="a new directory (default: <model>-problems)")
    parser.add_argument(
        "--hardware", type=HardwareName, choices=list(HardwareName), action="append",
        help="rank for this hardware; may be repeated (default: h200 and b200)",
    )
    parser.add_argument("--max-operators", type=int, default=48, metavar="N", help="the largest part (default: 48)")
    parser.add_argument(
        "--max-gib", type=float, default=16.0, metavar="N",
        help="leave out parts whose tensors exceed this (default: 16)",
    )
    parser.add_argument(
        "--no-run", action="store_true",
        help="do not run the model: references stay unchecked, contents are guessed (models too large for this host)",
    )
    parser.set_defaults(run=_extract)


def _extract(arguments: argparse.Namespace) -> int:
    from agentcore.extract.extraction import Options, extract
    from agentcore.extract.report import render

    options = Options(
        model=arguments.model,
        example=arguments.example,
        output=arguments.output,
        hardware=tuple(arguments.hardware or (HardwareName.H200, HardwareName.B200)),
        max_operators=arguments.max_operators,
        max_bytes=int(arguments.max_gib * 2**30),
        run=not arguments.no_run,
    )
    try:
        result = extract(options, progress=lambda text: print(f"  {text}", file=sys.stderr))
    except ExtractError as error:
        print(f"kernelyard: {error}", file=sys.stderr)
        return 2
    print(render(result))
    return 1 if result.failures else 0

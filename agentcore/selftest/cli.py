"""``kernelyard selftest``: on this host, does every known cheat fail and every honest kernel pass?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from agentcore.importing import kept_for_good
from agentcore.vocabulary import HardwareName


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``selftest`` to the command line."""
    parser = subparsers.add_parser(
        "selftest", help="put every known cheat to the judge of this host", description=_selftest.__doc__
    )
    parser.add_argument(
        "--hardware", type=HardwareName, choices=list(HardwareName), default=None,
        help="default: the first GPU of this host, else its CPU",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write summary, stamp and every outcome here")
    parser.add_argument("--only", default="", metavar="NAME", help="run the cases whose name contains this")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="default: tests/hacks of this checkout")
    parser.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    parser.add_argument("--jobs", type=int, metavar="N", help="how many cases to build at a time; default: one a core")
    parser.add_argument(
        "--sandbox", default="auto", choices=["auto", "bubblewrap", "unshare"],
        help="there is no 'none' here: the corpus is hostile code",
    )
    parser.set_defaults(run=_selftest)


def _selftest(arguments: argparse.Namespace) -> int:
    """Put the cheat corpus (exploits, honest controls, honest faults) to the real judge: a line a case, then counts.

    Exit status 0 where no exploit is accepted, no control refused, and every refusal has the right name; 1 otherwise.
    Ctrl-C ends it with the counts so far (status 130).
    """
    from agentcore.selftest.corpus import CorpusError, default_root, discover

    try:
        root = (arguments.corpus or default_root()).resolve()
        discover(root)  # before torch is imported, which takes seconds
    except CorpusError as error:
        print(f"kernelyard selftest: {error}", file=sys.stderr)
        return 2
    from agentcore.build.cache import CacheError
    from agentcore.build.toolchain import ToolMissing
    from agentcore.judge.ahead import device_ahead
    from agentcore.judge.devices import local_hardware
    from agentcore.sandbox import SandboxUnavailable

    hardware = arguments.hardware or local_hardware()
    with kept_for_good(), device_ahead(hardware, arguments.cache_dir):
        from agentcore.selftest.run import Interrupted, SelfTest

    interrupted = False
    try:
        report = SelfTest(
            hardware=hardware, root=root, cache_dir=arguments.cache_dir, only=arguments.only,
            sandbox=arguments.sandbox, jobs=arguments.jobs,
            say=lambda line: print(line, flush=True),
        ).run()
    except Interrupted as stopped:
        report, interrupted = stopped.report, True
    except (CorpusError, SandboxUnavailable, ToolMissing, CacheError, RuntimeError, OSError) as error:
        print(f"kernelyard selftest: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        try:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(report.model_dump_json(indent=1))
        except OSError as error:
            print(f"kernelyard selftest: {arguments.json} cannot be written: {error.strerror}", file=sys.stderr)
            return 2
    print(json.dumps(report.summary.model_dump()))
    if interrupted:
        return 130
    return 0 if report.summary.all_well else 1

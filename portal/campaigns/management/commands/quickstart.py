"""`manage.py quickstart`: a whole Kernelyard on this machine, from nothing to merged kernels. See portal/quickstart."""

from __future__ import annotations

import os
import sys

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from portal.quickstart import requirements

ATTEMPTS, MINUTES = 3, 3.2


class Command(BaseCommand):
    help = (
        "Set up a Kernelyard here, run a small campaign of real tuner attempts on the CPU, merge the best, and serve. "
        "Ctrl-C stops everything; run again to go on."
    )
    requires_system_checks = []  # before anything else, missing tools are named

    def add_arguments(self, parser) -> None:
        parser.add_argument("--once", action="store_true", help="stop afterwards; the last line is one JSON object")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=int, help="default: 8000, or the next free one")
        parser.add_argument(
            "--attempts-per-problem", type=int, metavar="N", help=f"default: {ATTEMPTS}, and at most {MINUTES} minutes"
        )
        parser.add_argument("--problems", nargs="+", default=[], metavar="NAME", help="default: those to tune")
        parser.add_argument("--agents", type=int, help="tuners at work at the same time (default: 1 or 2, by cores)")

    def handle(self, *args, **options) -> None:
        if faults := requirements.missing():
            raise CommandError("\n".join(faults))
        # Only now: GitPython cannot even be imported where git is missing.
        from portal.quickstart.run import Options, quickstart

        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        agents = options["agents"] if options["agents"] is not None else max(1, min(2, cores // 2))
        wanted = options["attempts_per_problem"]
        if (wanted is not None and wanted < 1) or agents < 1:
            raise CommandError("--attempts-per-problem and --agents must be at least 1")
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
        try:
            outcome = quickstart(
                Options(
                    options["once"], options["host"], options["port"], wanted or ATTEMPTS,
                    tuple(options["problems"]), agents, MINUTES if wanted is None else None,
                ),
                console,
            )
        except KeyboardInterrupt:
            self.stderr.write("stopped; nothing is left running. Run it again to go on.")
            sys.exit(130)
        self.stdout.write(outcome.as_json())

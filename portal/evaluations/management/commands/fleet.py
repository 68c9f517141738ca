"""`manage.py fleet --hardware h200`: judge queued evaluations of one hardware class on this host, until stopped.

With ``--compile-only`` instead, compile what is queued for hardware that no host of the fleet has.
"""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from agentcore.vocabulary import HardwareName
from portal.evaluations import compiling, fleet


class Command(BaseCommand):
    help = (
        "Run a django-q2 cluster that serves one hardware class on this host. Stop it with SIGTERM to this process "
        "alone, never to its process group. On the portal's host the cpu cluster also does the housekeeping; any other "
        "host needs KERNELYARD_DATABASE_URL, KERNELYARD_GIT_URL and the portal's signing key."
    )

    def add_arguments(self, parser) -> None:
        parser.add_argument("--hardware", choices=[member.value for member in HardwareName], default="cpu")
        parser.add_argument(
            "--compile-only", action="store_true",
            help="measure nothing: compile attempts for hardware that no host has (needs nvcc, and no device)",
        )
        parser.add_argument("--workers", type=int, help="evaluations judged at the same time (default: 1)")

    def handle(self, *args, **options) -> None:
        hardware, compile_only = HardwareName(options["hardware"]), options["compile_only"]
        if options["workers"] is not None and options["workers"] < 1:
            raise CommandError("--workers must be at least 1")
        if options["workers"]:
            settings.Q_CLUSTER["workers"] = options["workers"]
        for what, value in fleet.description(hardware, compile_only=compile_only):
            self.stdout.write(f"{what:9} {value}")
        if found := fleet.obstacles(hardware, compile_only=compile_only):
            raise CommandError("this host cannot join the fleet:\n" + "\n".join(f"- {reason}" for reason in found))
        for warning in fleet.warnings():
            self.stderr.write(self.style.WARNING(warning))
        if not compile_only:
            compiling.announce(hardware)
        connection.close()
        # django-q2 reads its cluster's name from the environment when Django starts, so start again with it set.
        environment = dict(os.environ)
        environment.pop("Q_CLUSTER_NAME", None)
        cluster = fleet.served_cluster(hardware, compile_only=compile_only)
        if cluster != settings.Q_CLUSTER["name"]:
            environment["Q_CLUSTER_NAME"] = cluster
        if options["workers"]:
            environment["KERNELYARD_WORKERS"] = str(options["workers"])
        self.stdout.flush()
        os.execve(sys.executable, [sys.executable, sys.argv[0], "qcluster"], environment)  # noqa: S606

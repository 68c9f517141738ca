"""`manage.py fleet --hardware h200`: judge queued evaluations of one hardware class on this host, until stopped."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand

from agentcore.vocabulary import HardwareName
from portal.evaluations.queue import cluster_name


class Command(BaseCommand):
    help = (
        "Run a django-q2 cluster that serves one hardware class on this host. Stop it with SIGTERM to this process "
        "alone, never to its process group. The cpu cluster also does the portal's housekeeping."
    )

    def add_arguments(self, parser) -> None:
        parser.add_argument("--hardware", choices=[member.value for member in HardwareName], default="cpu")
        parser.add_argument("--workers", type=int, help="evaluations judged at the same time (default: 1)")

    def handle(self, *args, **options) -> None:
        # django-q2 reads its cluster's name from the environment when Django starts, so start again with it set.
        environment = dict(os.environ)
        environment.pop("Q_CLUSTER_NAME", None)
        cluster = cluster_name(options["hardware"])
        if cluster != settings.Q_CLUSTER["name"]:
            environment["Q_CLUSTER_NAME"] = cluster
        if options["workers"]:
            environment["KERNELYARD_WORKERS"] = str(options["workers"])
        self.stdout.flush()
        os.execve(sys.executable, [sys.executable, sys.argv[0], "qcluster"], environment)  # noqa: S606

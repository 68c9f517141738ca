"""`manage.py reindex`: rebuild a lost or damaged database from the two repositories."""

from __future__ import annotations

from pathlib import Path

from django.core.management.base import BaseCommand

from portal.attempts.reindex import reindex


class Command(BaseCommand):
    help = "Rebuild attempts, evaluations, reviews and solutions from the two repositories. Run `migrate` first."

    def add_arguments(self, parser) -> None:
        parser.add_argument(
            "--problems", nargs="*", type=Path, default=[], help="problem directories outside this checkout's suite"
        )

    def handle(self, *args, **options) -> None:
        report = reindex(options["problems"])
        for fault in report.faults:
            self.stderr.write(fault)
        self.stdout.write(
            f"added {report.problems} problems, {report.agents} agents, {report.campaigns} campaigns, "
            f"{report.attempts} attempts, {report.evaluations} evaluations, {report.reviews} reviews and "
            f"{report.solutions} solutions; {report.queued} evaluations queued"
        )
        self.stdout.write(
            "accounts and agents' tokens are not in git: make accounts with `manage.py createsuperuser`, and give each "
            "agent a new token with `manage.py createagent NAME --new-token`"
        )

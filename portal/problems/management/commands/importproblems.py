"""`manage.py importproblems PATH…`: add or update problems from directories."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.problems.importing import import_problems


class Command(BaseCommand):
    help = "Import every problem at or below the given directories (default: the suite of this checkout)."

    def add_arguments(self, parser) -> None:
        parser.add_argument("paths", nargs="*", type=Path, default=[])

    def handle(self, *args, **options) -> None:
        outcomes = import_problems(options["paths"] or [Path(settings.PROBLEMS_DIR)])
        for outcome in outcomes:
            if outcome.error:
                self.stderr.write(outcome.error)
                continue
            line = f"{outcome.problem.name}: {outcome.change}"
            if outcome.cannot_run:
                line += f"; data files absent, so {len(outcome.cannot_run)} workloads cannot run"
            self.stdout.write(line)
        broken = sum(bool(outcome.error) for outcome in outcomes)
        if broken:
            raise CommandError(f"{broken} of {len(outcomes)} problems were not imported; see above")

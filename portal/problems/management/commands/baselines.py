"""`manage.py baselines`: commit and queue the baselines of problems, so that attempts have something to beat."""

from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from agentcore.problems import ProblemError
from agentcore.vocabulary import HardwareName
from portal.problems.baselines import ensure_baselines
from portal.problems.models import Problem


class Command(BaseCommand):
    help = "Commit each problem's baselines where they changed and queue them where no current measurement exists."

    def add_arguments(self, parser) -> None:
        parser.add_argument("problems", nargs="*", help="names (default: all active problems)")
        parser.add_argument(
            "--hardware", nargs="+", choices=[member.value for member in HardwareName], default=["cpu"]
        )

    def handle(self, *args, **options) -> None:
        problems = Problem.objects.filter(is_active=True).order_by("name")
        if options["problems"]:
            known = set(problems.values_list("name", flat=True))
            if unknown := [name for name in options["problems"] if name not in known]:
                raise CommandError(f"there is no problem {unknown[0]!r}; importproblems adds problems")
            problems = problems.filter(name__in=options["problems"])
        for problem in problems:
            try:
                evaluations = ensure_baselines(problem, options["hardware"])
            except ProblemError as error:
                self.stderr.write(str(error))
                continue
            where = ", ".join(options["hardware"])
            self.stdout.write(f"{problem.name}: {len(evaluations)} baselines queued or measured on {where}")

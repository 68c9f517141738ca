"""`manage.py baselines`: commit and queue the baselines of problems, so that attempts have something to beat."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agentcore.baselines import BaselineKind
from agentcore.gitstore import GitStoreError
from agentcore.problems import ProblemError
from agentcore.vocabulary import HardwareName
from portal.baselines.adopting import CannotAdopt, adopt
from portal.baselines.measuring import Done, Step, measure
from portal.evaluations import scoring
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem

POLL_S = 1.0
WHY_CHARACTERS = 300


class Command(BaseCommand):
    help = (
        "Measure each problem's baselines where that is missing or stale: the problem, the harness, the device, its "
        "driver or torch changed. They go through the work queue, before agents' attempts. What failed is not measured "
        "again without --force."
    )

    def add_arguments(self, parser) -> None:
        parser.add_argument("names", nargs="*", metavar="PROBLEM", help="default: all active problems")
        parser.add_argument("--problem", action="append", default=[], metavar="PROBLEM", help="the same, by option")
        # One value an option: a list would take the problem's name that follows it.
        parser.add_argument(
            "--hardware", action="append", choices=[member.value for member in HardwareName],
            help="may be given more than once (default: cpu)",
        )
        parser.add_argument(
            "--kind", action="append", choices=[kind.value for kind in BaselineKind],
            help="may be given more than once (default: every kind that a problem has)",
        )
        parser.add_argument(
            "--adopt", metavar="COMMIT_OR_BRANCH",
            help="make this verified attempt in PyTorch its problem's baseline of kind agent; needs --kind agent",
        )
        parser.add_argument("--force", action="store_true", help="measure again what is neither missing nor stale")
        parser.add_argument("--wait", action="store_true", help="until all of it is measured; a worker must be running")
        parser.add_argument("--timeout-minutes", type=float, default=120.0, help="how long to wait (default 120)")

    def handle(self, *args, **options) -> None:
        kinds = [kind for kind in BaselineKind if kind.value in (options["kind"] or list(BaselineKind))]
        hardware = list(dict.fromkeys(options["hardware"] or ["cpu"]))
        names = [*options["names"], *options["problem"]]
        if options["adopt"]:
            names = [self._adopt(options["adopt"], kinds, names)]
        steps: list[Step] = []
        for problem in self._problems(names):
            try:
                steps += measure(problem, hardware, kinds, force=options["force"])
            except ProblemError as error:
                self.stderr.write(f"{problem.name}: {error}")
                continue
            except GitStoreError as error:
                self.stderr.write(
                    f"{problem.name}: its baselines cannot be committed: {_one_line(str(error))}. "
                    "If main of the attempts repository lacks it, run manage.py initrepos"
                )
                continue
            for each in hardware:
                scoring.refresh_scores(problem, each)
        self._table(steps)
        if options["wait"]:
            self._wait(steps, options["timeout_minutes"])

    def _adopt(self, named: str, kinds: Sequence[BaselineKind], problems: Sequence[str]) -> str:
        """Adopt the attempt; returns its problem's name."""
        if len(kinds) != 1:
            raise CommandError("--adopt fills one kind of baseline: add --kind agent")
        try:
            attempt = adopt(named, kinds[0], problems)
        except CannotAdopt as error:
            raise CommandError(f"--adopt: {error}") from None
        except GitStoreError as error:
            raise CommandError(f"--adopt: {_one_line(str(error))}") from None
        self.stdout.write(
            f"{attempt.problem.name}: {attempt.commit[:10]} of {attempt.agent.name} is its {kinds[0]} baseline"
        )
        return str(attempt.problem.name)

    def _problems(self, names: Sequence[str]) -> list[Problem]:
        problems = Problem.objects.filter(is_active=True).order_by("name")
        if names:
            known = set(problems.values_list("name", flat=True))
            if unknown := [name for name in names if name not in known]:
                raise CommandError(f"there is no problem {unknown[0]!r}; importproblems adds problems")
            problems = problems.filter(name__in=names)
        return list(problems)

    def _table(self, steps: Sequence[Step]) -> None:
        rows = [("problem", "kind", "hardware", "done", "why")]
        rows += [
            (step.problem.name, step.kind.value, step.hardware.value, step.done.value, _one_line(step.why))
            for step in steps
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            self.stdout.write("  ".join([*cells, row[4]]).rstrip())
        counts = [f"{sum(step.done is done for step in steps)} {done.value}" for done in Done]
        self.stdout.write(", ".join(counts))

    def _wait(self, steps: Sequence[Step], minutes: float) -> None:
        left = {
            step.evaluation.pk: step for step in steps
            if step.evaluation is not None and step.done in (Done.QUEUED, Done.WAITING)
        }
        deadline = time.monotonic() + 60 * minutes
        while left:
            ended = Evaluation.objects.filter(pk__in=left).exclude(state__in=Evaluation.PENDING)
            for row in ended.order_by("finished_at"):
                step = left.pop(row.pk)
                took = f" after {(row.finished_at - row.queued_at).total_seconds():.0f} s" if row.finished_at else ""
                said = f"{row.latency_geomean_us:.4g} µs" if row.latency_geomean_us else _one_line(row.message)
                self.stdout.write(
                    f"{timezone.now():%H:%M:%S}  {step.problem.name}: {step.kind} on {step.hardware}: "
                    f"{row.verdict or row.state}{took}  {said}"
                )
            if left and time.monotonic() > deadline:
                hardware = sorted({step.hardware.value for step in left.values()})
                raise CommandError(
                    f"{len(left)} baselines are not measured after {minutes:g} minutes; they stay queued. "
                    f"Does `manage.py fleet --hardware {hardware[0]}` run on a host that has one?"
                )
            if left:
                time.sleep(POLL_S)


def _one_line(text: str) -> str:
    """A message, which may quote a program, on one line without control characters, and bounded."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= WHY_CHARACTERS else shown[:WHY_CHARACTERS] + "…"

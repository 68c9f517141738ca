"""`manage.py importproblems PATH…`: add or update problems from directories, JSONL, parquet or FlashInfer-Trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agentcore.build.log import clean_text
from agentcore.gitstore import GitStoreError
from agentcore.problems import Problem as ProblemFiles
from agentcore.sandbox import SandboxError, find_sandbox
from portal.attempts.repository import ensure_repositories
from portal.problems.importing import Examine, imports

NAMED = 4
"""Up to so many problems are named in the command that comes next; else it is the one for all."""


def _problems(count: int) -> str:
    return f"{count} problem{'s' if count != 1 else ''}"


class Command(BaseCommand):
    help = (
        "Import every problem at or below the given paths (default: the suite of this checkout): directories with a "
        "definition.json at any depth, JSONL with one problem a line, parquet, FlashInfer-Trace. A broken one is "
        "reported and stops no other. Main of the attempts repository, from which agents start, follows. "
        "The judge runs references in its own process: import only what you trust."
    )

    def add_arguments(self, parser) -> None:
        parser.add_argument("paths", nargs="*", type=Path, default=[])
        parser.add_argument(
            "--reference", action="store_true",
            help="run each reference and input generator once in the sandbox, and refuse those that fail",
        )

    def handle(self, *args, **options) -> None:
        examine = self._examiner() if options["reference"] else None
        counts: Counter[str] = Counter()
        changed: list[str] = []
        for outcome in imports(options["paths"] or [Path(settings.PROBLEMS_DIR)], examine=examine):
            counts[outcome.change or "broken"] += 1
            if outcome.error:
                self.stderr.write(clean_text(outcome.error))
                continue
            if outcome.problem and outcome.change in ("created", "updated"):
                changed.append(outcome.problem.name)
            line = f"{outcome.problem.name if outcome.problem else outcome.path}: {outcome.change}"
            if outcome.cannot_run:
                line += f"; data files absent, so {len(outcome.cannot_run)} workloads cannot run"
            self.stdout.write(line)
            for warning in outcome.warnings:
                self.stdout.write(clean_text(f"  warning: {warning}"))
        words = ("created", "updated", "unchanged", "repeated", "broken")
        summary = ", ".join(f"{counts[word]} {word}" for word in words if counts[word])
        self.stdout.write(f"{_problems(counts.total())}: {summary}")
        self._publish()
        if changed:
            which = " ".join(changed) + " " if len(changed) <= NAMED else ""
            self.stdout.write(
                "next: their baselines, without which no attempt has a speedup or a score: manage.py baselines "
                f"{which}--hardware cpu (or a GPU class; manage.py fleet or quickstart must be running to measure them)"
            )
        if counts["broken"]:
            raise CommandError(f"{counts['broken']} of {counts.total()} problems were not imported; see above")

    def _publish(self) -> None:
        """Bring what agents start from up to date: on a problem that main does not have, nobody can push."""
        attempts = Path(settings.ATTEMPTS_REPOSITORY)
        if not attempts.exists():
            self.stdout.write(f"{attempts} does not exist yet; manage.py initrepos creates it, with all problems")
            return
        try:
            commit = ensure_repositories()
        except GitStoreError as error:
            raise CommandError(
                f"imported, but main of {attempts} does not have it: {clean_text(str(error))}. Run manage.py initrepos"
            ) from None
        brought = f"brought up to date by commit {commit[:10]}" if commit else "was up to date"
        self.stdout.write(f"main of {attempts.name}, from which agents start: {brought}")

    def _examiner(self) -> Examine:
        from agentcore.problems.trial import try_reference

        try:
            sandbox = find_sandbox(settings.SANDBOX)
        except SandboxError as error:
            raise CommandError(f"--reference needs a sandbox: {error}") from None

        def examine(problem: ProblemFiles) -> str:
            trial = try_reference(problem, sandbox)
            if trial.outcome == "skipped":
                self.stdout.write(f"{problem.name}: the reference was not run: {clean_text(trial.message)}")
            place = problem.source or problem.root
            return "" if trial.ok else f"{place}: reference: workload {trial.workload}: {trial.message}"

        return examine

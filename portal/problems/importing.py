"""Problem directories into rows: a re-import updates in place and keeps all history.

Not for validation: `agentcore.problems` does that, and its errors are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from agentcore.problems import Problem as ProblemFiles
from agentcore.problems import ProblemError, find_problems, load_problem, missing_blobs
from portal.events.models import log as log_event
from portal.problems.models import Problem, Workload


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome for one directory: ``problem`` is None where ``error`` says what is wrong with it."""

    path: Path
    problem: Problem | None = None
    change: str = ""
    """``created``, ``updated`` or ``unchanged``"""
    error: str = ""
    cannot_run: tuple[str, ...] = ()
    """uuids of workloads whose data files are absent"""


def import_problems(paths: Iterable[Path], actor="system") -> list[Imported]:
    """Import every problem at or below ``paths``; a broken one is reported and does not stop the others."""
    outcomes = []
    for path in paths:
        found = find_problems(path) if path.is_dir() else []
        if not found:
            outcomes.append(Imported(path, error=f"{path}: no definition.json here or below"))
        for directory in found:
            try:
                outcomes.append(import_problem(directory, actor))
            except ProblemError as error:
                outcomes.append(Imported(directory, error=str(error)))
    return outcomes


def import_problem(path: Path, actor="system") -> Imported:
    """Import one problem directory. Raises ProblemError, and then nothing is changed."""
    files = load_problem(path)
    values = {
        "title": files.name.replace("_", " "),
        "description": str(files.definition.description or ""),
        "digest": files.digest,
        "definition": files.definition.model_dump(mode="json", exclude={"reference"}),
        "reference": files.reference,
        "brief": files.brief,
        "source_path": str(path.resolve()),
        "is_active": True,
    }
    with transaction.atomic():
        problem = Problem.objects.select_for_update().filter(name=files.name).first()
        if problem is None:
            problem, change = Problem.objects.create(name=files.name, **values), "created"
        else:
            changed = [field for field, value in values.items() if getattr(problem, field) != value]
            change = "updated" if changed else "unchanged"
            for field in changed:
                setattr(problem, field, values[field])
            if changed:
                problem.save()
        _import_workloads(problem, files)
        if change != "unchanged":
            log_event(f"problem.{change}", actor, problem=problem, digest=files.digest)
    return Imported(path, problem, change, cannot_run=tuple(missing_blobs(files)))


def _import_workloads(problem: Problem, files: ProblemFiles) -> None:
    listed = (
        (Workload.Target.GPU, files.workloads),
        (Workload.Target.CPU, files.cpu_workloads),
        (Workload.Target.HELDOUT, files.heldout),
    )
    for target, workloads in listed:
        for workload in workloads:
            Workload.objects.update_or_create(
                problem=problem, target=target, uuid=workload.uuid,
                defaults={
                    "index": workload.index,
                    "axes": dict(workload.axes),
                    "tolerance": workload.tolerance.model_dump(mode="json") if workload.tolerance else {},
                    "is_current": True,
                },
            )
        current = [workload.uuid for workload in workloads]
        problem.workloads.filter(target=target, is_current=True).exclude(uuid__in=current).update(is_current=False)

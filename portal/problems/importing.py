"""Problems of any layout into rows: a re-import updates in place and keeps all history.

Not for validation: `agentcore.problems` does that, and its errors are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from agentcore.problems import Problem as ProblemFiles
from agentcore.problems import load_problem, missing_blobs
from agentcore.problems.official import Official, official_of
from agentcore.problems.sources import collect
from portal.events.models import log as log_event
from portal.problems import bounds
from portal.problems.models import Problem, Workload, converted_directory

Examine = Callable[[ProblemFiles], str]
"""Looks at a problem before it is imported and says what is wrong with it; nothing is."""

_WHENCE = {"source_path", "source"}
"""Fields that say where a problem was read from: another place alone is no update."""
KEEP = Official("", "", {})
"""Says that the official figures which the rows have shall stay."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome for one problem: ``problem`` is None where ``error`` says what is wrong with it."""

    path: Path
    problem: Problem | None = None
    change: str = ""
    """``created``, ``updated``, ``unchanged``, or ``repeated``: met earlier in the same import"""
    error: str = ""
    cannot_run: tuple[str, ...] = ()
    """uuids of workloads whose data files are absent"""
    warnings: tuple[str, ...] = ()
    """what loads but may not have been meant"""


def import_problems(paths: Iterable[Path], actor="system", examine: Examine | None = None) -> list[Imported]:
    """Import every problem at or below ``paths``; a broken one is reported and does not stop the others."""
    return list(imports(paths, actor, examine))


def imports(paths: Iterable[Path], actor="system", examine: Examine | None = None) -> Iterator[Imported]:
    """Import every problem at or below ``paths``, one by one as they are read.

    Those of other layouts than directories are written as such below ``KERNELYARD_HOME`` first.
    """
    for found in collect(paths, converted_directory()):
        path = found.problem.root if found.problem else Path(found.place)
        fault = found.error
        if found.problem is not None and not found.same_as and examine is not None:
            fault = examine(found.problem)
        if fault:
            yield Imported(path, error=fault)
        elif found.same_as:
            yield Imported(path, Problem.objects.filter(name=found.problem.name).first(), "repeated")
        else:
            yield _import(found.problem, actor)


def import_problem(path: Path, actor="system") -> Imported:
    """Import one problem directory. Raises ProblemError, and then nothing is changed."""
    return _import(load_problem(path), actor)


def _import(files: ProblemFiles, actor) -> Imported:
    official = official_of(files)
    definition = files.definition.model_dump(mode="json", exclude={"reference"})
    values = {
        "title": files.name.replace("_", " "),
        "description": str(files.definition.description or ""),
        "digest": files.digest,
        "definition": {key: value for key, value in definition.items() if key != "constraints" or value},
        "reference": files.reference,
        "brief": files.brief,
        "source_path": str(files.root.resolve()),
        "source": files.source[:500],
        "original_name": files.original_name[:500] if files.original_name != files.name else "",
        "official_source": (official.source or "its own file") if official else "",
        "official_hardware": official.hardware if official else "",
        "is_active": True,
    }
    with transaction.atomic():
        problem = Problem.objects.select_for_update().filter(name=files.name).first()
        details: dict[str, object] = {"digest": files.digest}
        if problem is None:
            problem, change = Problem.objects.create(name=files.name, **values), "created"
        else:
            changed = [field for field, value in values.items() if getattr(problem, field) != value]
            if official is None and problem.digest == files.digest:
                # The same problem from a source that states no figures: those that are known stay.
                official = KEEP
                changed = [field for field in changed if not field.startswith("official_")]
            details |= {"changed": changed, "earlier_digest": problem.digest}
            for field in changed:
                setattr(problem, field, values[field])
            if changed:
                problem.save()
            change = "updated" if set(changed) - _WHENCE else "unchanged"
        if _import_workloads(problem, files, official) and change == "unchanged":
            change = "updated"
        bounds.ask(problem)
        if change != "unchanged":
            log_event(f"problem.{change}", actor, problem=problem, **details)
    return Imported(files.root, problem, change, cannot_run=tuple(missing_blobs(files)), warnings=files.warnings)


def _import_workloads(problem: Problem, files: ProblemFiles, official: Official | None) -> bool:
    """Bring the rows in line with the files; whether anything had to change."""
    listed = (
        (Workload.Target.GPU, files.workloads),
        (Workload.Target.CPU, files.cpu_workloads),
        (Workload.Target.HELDOUT, files.heldout),
    )
    rows = {(row.target, row.uuid): row for row in problem.workloads.all()}
    new, changed = [], []
    for target, workloads in listed:
        for workload in workloads:
            values = {
                "index": workload.index,
                "axes": dict(workload.axes),
                "tolerance": workload.tolerance.model_dump(mode="json"),
                "is_current": True,
            }
            if official is not KEEP:
                times = official.workloads.get(workload.uuid) if official and target == Workload.Target.GPU else None
                values["official_sol_us"] = times.sol_us if times else None
                values["official_baseline_us"] = times.baseline_us if times else None
            row = rows.pop((target, workload.uuid), None)
            if row is None:
                new.append(Workload(problem=problem, target=target, uuid=workload.uuid, **values))
            elif any(getattr(row, field) != value for field, value in values.items()):
                for field, value in values.items():
                    setattr(row, field, value)
                changed.append(row)
    # What the files no longer list keeps its row, for the results that name it.
    dropped = [row for row in rows.values() if row.is_current]
    for row in dropped:
        row.is_current = False
    Workload.objects.bulk_create(new)
    Workload.objects.bulk_update(
        [*changed, *dropped],
        ["index", "axes", "tolerance", "official_sol_us", "official_baseline_us", "is_current"], batch_size=200,
    )
    return bool(new or changed or dropped)

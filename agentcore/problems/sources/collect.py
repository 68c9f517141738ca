"""All problems at or below some paths, each validated once, named once, and at hand as a directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agentcore.problems.assemble import Parts, assemble
from agentcore.problems.blobs import blob_faults
from agentcore.problems.errors import ProblemError
from agentcore.problems.problem import Problem
from agentcore.problems.sources.discover import discover
from agentcore.problems.sources.staging import stage


@dataclass(frozen=True, slots=True)
class Found:
    """A problem or what is wrong with it, in words that name file and field. ``same_as``: where it was met before.
    ``staged``: whether it was written as a directory below the staging directory, not found as one.
    """

    place: str
    problem: Problem | None = None
    error: str = ""
    same_as: str = ""
    staged: bool = False


def collect(paths: Iterable[Path], staging: Path) -> Iterator[Found]:
    """The problems of every layout below ``paths``, in order; those of no directory are written below ``staging``.

    A broken one is an outcome like the others and stops none. A name that was met before is the same problem where
    its digest is the same, and an error where it is not.
    """
    met: dict[str, tuple[str, str]] = {}
    for path in map(_named, paths):
        for outcome in discover(path, without=staging):
            if isinstance(outcome, ProblemError):
                yield Found(str(outcome.file or path), error=str(outcome))
                continue
            place = outcome.source if _is_elsewhere(outcome) else str(outcome.root)
            try:
                problem = assemble(outcome)
                before = met.setdefault(problem.name, (problem.digest, place))
                if before[1] != place and before[0] != problem.digest:
                    message = f"{problem.original_name!r} is also the name of {before[1]}, which differs; rename one"
                    raise outcome.definition.error("name", message, at=["name"])
                if before[1] != place:
                    yield Found(place, problem, same_as=before[1])
                    continue
                if _is_elsewhere(outcome):
                    # What is to be said of it is said of where its author wrote it.
                    problem = replace(stage(outcome, problem, staging), warnings=problem.warnings)
                faults = blob_faults(problem)
                if faults:
                    raise ProblemError("\n".join(faults[:5] + [f"and {len(faults) - 5} more"] * (len(faults) > 5)))
                yield Found(place, problem, staged=_is_elsewhere(outcome))
            except ProblemError as error:
                yield Found(place, error=str(error))


def _named(path: Path) -> Path:
    """``path``, and ``.`` or ``..`` in full: what is said of it shall name a directory."""
    return path if path.name not in ("", "..") else path.resolve()


def _is_elsewhere(parts: Parts) -> bool:
    """Whether the problem stands in another layout than a directory that is read in place."""
    return parts.definition.file.name != "definition.json" or parts.definition.file.parent != parts.root

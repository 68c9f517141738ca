"""A published solution as the solution.json of SOL-ExecBench, from what its commit holds. Logic without HTTP."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from pydantic import ValidationError

from agentcore.gitstore import SolutionsRepository
from agentcore.official import ExportError, Origin, export_solution, to_json
from agentcore.paths import RECORD_NAMES
from agentcore.problems import Definition
from agentcore.vocabulary import HardwareName, Language
from portal.solutions.models import Solution


def file_name(solution: Solution) -> str:
    """What the file is called when it is saved."""
    return f"{solution.problem.name}-{solution.language}-{solution.hardware}.solution.json"


def exported(solution: Solution) -> bytes:
    """The file. The kernel and the definition are those of the publishing commit, whatever was published since.

    Raises ExportError where the format cannot hold this kernel, GitStoreError where the commit cannot be read.
    """
    name = solution.problem.name
    with SolutionsRepository.open(Path(settings.SOLUTIONS_REPOSITORY)) as repository:
        files = repository.read(name, solution.language, solution.hardware, solution.commit)
        definition = repository.read_file(solution.commit, f"problems/{name}/definition.json")
    if definition is None:
        raise ExportError(f"commit {solution.commit[:10]} holds no definition of {name}")
    attempt = solution.attempt
    origin = Origin(
        name=f"{name}_{solution.language}_{solution.hardware}_{attempt.commit[:10]}",
        author=attempt.agent.name,
        description=f"{attempt.subject}\n\nAttempt {attempt.commit}, published as {solution.commit}.",
    )
    try:
        return to_json(export_solution(
            {path: content for path, content in files.items() if path not in RECORD_NAMES},
            Definition.model_validate_json(definition), Language(solution.language), HardwareName(solution.hardware),
            origin,
        ))
    except ValidationError as error:
        raise ExportError(f"the published definition of {name} is not valid: {error.error_count()} errors") from error

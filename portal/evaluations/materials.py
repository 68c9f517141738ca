"""What a worker needs on its own host before it can judge: the attempt's kernel and the problem's files.

The portal's host reads its attempts repository; any other fetches the commit into a mirror first (KERNELYARD_GIT_URL).
Not for judging, and not for deciding whether the row is tried again: see worker.py.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from agentcore.gitstore import AttemptsMirror, AttemptsRepository, GitStoreError
from agentcore.problems import ProblemError, load_problem
from agentcore.vocabulary import AttemptRef
from portal.attempts.models import Attempt
from portal.problems.models import Problem


class WrongProblem(RuntimeError):
    """This host's files of a problem are missing or are not what was imported. The message says what to do."""


def mirror() -> AttemptsMirror:
    """This host's mirror of the portal's attempts repository. Only where KERNELYARD_GIT_URL is set."""
    return AttemptsMirror(Path(settings.ATTEMPTS_MIRROR), settings.GIT_URL)


def export_kernel(attempt: Attempt, destination: Path) -> None:
    """Write the attempt's kernel files below ``destination``, fetching its commit first where this host must.

    Raises Unreachable where the portal's git address does not answer, GitStoreError where the commit is not to be had.
    """
    ref = AttemptRef.parse(attempt.ref)
    if settings.GIT_URL:
        path = Path(settings.ATTEMPTS_MIRROR)
        mirror().obtain(attempt.commit, ref, timeout_s=settings.GIT_FETCH_TIMEOUT_S)
    else:
        path = Path(settings.ATTEMPTS_REPOSITORY)
    with AttemptsRepository.open(path) as repository:
        if not repository.has_commit(attempt.commit):
            raise GitStoreError(f"commit {attempt.commit} is not in {repository.path} on this host")
        repository.export_kernel(attempt.commit, ref, destination)


def problem_directory(problem: Problem, host: str) -> Path:
    """The problem's directory on this host, its files those that were imported. Raises WrongProblem."""
    directory = problem.directory()
    try:
        digest = load_problem(directory).digest
    except ProblemError as error:
        raise WrongProblem(
            f"{problem.name} cannot be read from {directory} on {host}: {error}. Update this host's checkout"
        ) from None
    require_imported(problem, digest, host)
    return directory


def require_imported(problem: Problem, digest: str, host: str) -> None:
    """Raises WrongProblem unless ``digest`` is that of the problem as it is imported now."""
    imported = Problem.objects.values_list("digest", flat=True).get(pk=problem.pk)
    if digest != imported:
        raise WrongProblem(
            f"the files in {problem.directory()} on {host} are not the problem as imported (digest {digest[:12]}, "
            f"imported {imported[:12]}); run importproblems on the portal's host, or update this host's checkout"
        )

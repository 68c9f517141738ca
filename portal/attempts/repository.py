"""The two repositories of a portal: creating them, and keeping main of the attempts repository up to date.

Main holds what agents start from: the client, the protocol, starting kernels and each problem's public files. What an
agent must not see (held-out shapes) never gets there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from agentcore.build.header import problem_header
from agentcore.gitstore import AttemptsRepository, SolutionsRepository
from agentcore.problems import ProblemError, load_problem
from agentcore.vocabulary import Language
from portal.problems.models import Problem

PUBLIC_FILES = ("definition.json", "workload.jsonl", "workload.cpu.jsonl", "baseline.py", "library.py", "README.md")
_LEFT_OUT = {"__pycache__", ".pytest_cache", ".ruff_cache", ".DS_Store"}


def ensure_repositories() -> str | None:
    """Create both repositories where they are missing and bring main of the attempts repository up to date.

    Safe to call again: an unchanged tree makes no commit. Returns the commit that brought an existing main up to date.
    Raises GitStoreError where git refuses.
    """
    attempts, commit = Path(settings.ATTEMPTS_REPOSITORY), None
    if attempts.exists():
        with AttemptsRepository.open(attempts) as repository:
            repository.configure()
            commit = repository.update_main(list(seed_tree()), "Bring the starting tree up to date")
    else:
        AttemptsRepository.create(attempts, list(seed_tree())).close()
    solutions = Path(settings.SOLUTIONS_REPOSITORY)
    if solutions.exists():
        with SolutionsRepository.open(solutions) as published:
            published.configure()
    else:
        SolutionsRepository.create(solutions).close()
    return commit


def seed_tree() -> Iterator[tuple[str, bytes]]:
    """``(path, content)`` of every file that main of the attempts repository starts with."""
    seed = Path(settings.KERNELS_SEED_DIR)
    if seed.is_dir():
        for file in sorted(seed.rglob("*")):
            relative = file.relative_to(seed)
            if file.is_file() and not file.is_symlink() and not _LEFT_OUT & set(relative.parts):
                yield relative.as_posix(), file.read_bytes()
    protocol = Path(settings.PROTOCOL_PATH)
    if protocol.is_file():
        yield "protocol.md", protocol.read_bytes()
    for problem in Problem.objects.filter(is_active=True).order_by("name"):
        yield from problem_files(problem)


def problem_files(problem: Problem) -> Iterator[tuple[str, bytes]]:
    """The public files of one problem below ``problems/<name>/``, with the generated C headers; none if unreadable."""
    directory = problem.directory()
    try:
        files = load_problem(directory)
    except ProblemError:
        return
    base = f"problems/{problem.name}"
    for name in PUBLIC_FILES:
        if (directory / name).is_file():
            yield f"{base}/{name}", (directory / name).read_bytes()
    yield f"{base}/reference.py", files.reference.encode()
    for language in (Language.CUDA, Language.CPP):
        yield f"{base}/problem.{language}.h", problem_header(files.definition, language).encode()

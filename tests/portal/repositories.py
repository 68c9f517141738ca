"""Real repositories and one real small problem for portal tests; pushes are made as commits of the git store."""

from __future__ import annotations

import json
from pathlib import Path

from django.conf import settings

from agentcore.gitstore import AttemptsRepository, CommitRecord
from agentcore.vocabulary import AttemptRef, Language
from portal.attempts.repository import ensure_repositories
from portal.problems.importing import import_problem
from portal.problems.models import Problem

DEFINITION = {
    "name": "scale",
    "description": "Multiply by a vector.",
    "axes": {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 8}},
    "inputs": {
        "x": {"shape": ["batch", "hidden"], "dtype": "float32"},
        "weight": {"shape": ["hidden"], "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "float32"}},
}


def write_problem(directory: Path, name: str = "scale", *, batches: tuple[int, ...] = (4, 16)) -> Path:
    """A complete problem directory with two workloads per target and a held-out one."""
    path = directory / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "definition.json").write_text(json.dumps(DEFINITION | {"name": name}))
    (path / "reference.py").write_text("def run(x, weight):\n    return x * weight\n")
    (path / "baseline.py").write_text(
        "import torch\n\n\ndef run(x, weight, y):\n    torch.mul(x, weight, out=y)\n"
    )
    (path / "README.md").write_text(f"# {name}\n\nMultiply.\n")
    for file, prefix in (("workload.jsonl", "w"), ("workload.cpu.jsonl", "c"), ("heldout.jsonl", "h")):
        sizes = (7,) if prefix == "h" else batches
        (path / file).write_text(
            "".join(
                json.dumps(
                    {
                        "uuid": f"{prefix}{size}", "axes": {"batch": size},
                        "inputs": {"x": {"type": "random"}, "weight": {"type": "random"}},
                        "tolerance": {"max_atol": 1e-5, "max_rtol": 1e-5},
                    }
                )
                + "\n"
                for size in sizes
            )
        )
    return path


def start(directory: Path, name: str = "scale") -> Problem:
    """Import the problem and create both repositories under this test's home."""
    settings.PROBLEMS_DIR = directory / "problems"
    problem = import_problem(write_problem(settings.PROBLEMS_DIR, name)).problem
    ensure_repositories()
    return problem


def push(
    problem: str, agent: str, source: str, *, slug: str = "main", language: Language = Language.CPP,
    message: str = "Try something", parent: str | None = None, **trailers: str,
) -> tuple[AttemptRef, str]:
    """Commit a kernel on the agent's branch, as a checked push would land it; returns the ref and the commit."""
    ref = AttemptRef(problem, language, agent, slug)
    with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
        oid = repository.commit_attempt(
            ref, {language.source_name: source.encode()}, message, parent=parent, trailers=trailers
        )
    return ref, oid


def commit(oid: str) -> CommitRecord:
    with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
        return repository.commit(oid)


def start_again() -> Problem:
    """Import the problem of `start` once more, after its row was lost."""
    return import_problem(settings.PROBLEMS_DIR / "scale").problem

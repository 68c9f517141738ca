"""A real attempts repository and a real clone to push from, over the file protocol with the hooks in force."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcore.gitstore import AttemptsRepository, SolutionsRepository
from agentcore.gitstore.repository import SHARED_CONFIGURATION

SEED = [
    ("README.md", b"Start here.\n"),
    ("problems/rmsnorm/definition.json", b"{}\n"),
    ("problems/softmax/definition.json", b"{}\n"),
    ("kernels/rmsnorm/cpp/kernel.cpp", b"int start;\n"),
    ("kernels/softmax/cpp/kernel.cpp", b"int start;\n"),
    ("yard", b"#!/usr/bin/env python3\n"),
]


class Clone:
    """A clone of an agent, driven by the git command line as an agent would."""

    def __init__(self, path: Path, agent: str = "alice") -> None:
        self.path, self.agent = path, agent
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(path.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "KERNELYARD_AGENT": agent,
            "KERNELYARD_PUBLIC_URL": "http://portal.example",
        }

    def git(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(arguments)}: {done.stderr}")
        return done

    def identify(self) -> None:
        self.git("config", "user.name", self.agent)
        self.git("config", "user.email", f"{self.agent}@agents.kernelyard")

    def write(self, name: str, content: bytes = b"int changed;\n") -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return target

    def message(self, problem: str = "rmsnorm", language: str = "cpp", agent: str | None = None) -> str:
        return f"Try something\n\nProblem: {problem}\nLanguage: {language}\nAgent: {agent or self.agent}\n"

    def commit(self, message: str | None = None, *options: str, **environment: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message if message is not None else self.message(), *options, **environment)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").stdout.strip()

    def push(
        self, ref: str = "refs/heads/attempts/rmsnorm/cpp/alice/first", *options: str, source: str = "HEAD"
    ) -> subprocess.CompletedProcess[str]:
        return self.git("push", *options, "origin", f"{source}:{ref}", check=False)


def clone_of(path: Path, url: str, agent: str = "alice") -> Clone:
    path.mkdir(parents=True)
    clone = Clone(path, agent)
    clone.git("clone", "-q", url, ".")
    clone.identify()
    return clone


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch) -> None:
    """Repositories of tests need not survive a power cut, and waiting for the disk is most of their time."""
    monkeypatch.setitem(SHARED_CONFIGURATION, "core.fsync", "none")


@pytest.fixture(scope="session")
def fresh_attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An attempts repository with the seed, to be copied: making one costs a dozen processes."""
    path = tmp_path_factory.mktemp("fresh") / "attempts.git"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHARED_CONFIGURATION, "core.fsync", "none")
        AttemptsRepository.create(path, SEED).close()
    return path


@pytest.fixture
def attempts(tmp_path: Path, fresh_attempts: Path) -> Iterator[AttemptsRepository]:
    shutil.copytree(fresh_attempts, tmp_path / "attempts.git")
    with AttemptsRepository.open(tmp_path / "attempts.git") as repository:
        yield repository


@pytest.fixture
def solutions(tmp_path: Path) -> Iterator[SolutionsRepository]:
    with SolutionsRepository.create(tmp_path / "solutions.git") as repository:
        yield repository


@pytest.fixture
def clone(tmp_path: Path, attempts: AttemptsRepository) -> Clone:
    return clone_of(tmp_path / "alice", str(attempts.path))

"""Repositories under the test's home, an agent with a token, and git clients that reach them over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcore.gitstore import AttemptsRepository, SolutionsRepository
from agentcore.gitstore.repository import SHARED_CONFIGURATION
from portal.agents.models import Agent
from portal.agents.tokens import issue_token

BRANCH = "refs/heads/attempts/rmsnorm/cpp/alice/first"
KERNEL = "kernels/rmsnorm/cpp/kernel.cpp"
SEED = [
    ("README.md", b"Start here.\n"),
    ("problems/rmsnorm/definition.json", b"{}\n"),
    (KERNEL, b"int start;\n"),
]


class Client:
    """The git command line, as an agent or a visitor runs it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
        }

    def command(self, *arguments: str) -> list[str]:
        return ["git", "-C", str(self.directory), *arguments]

    def git(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(arguments)}: {done.stderr}")
        return done

    def clone(self, url: str, agent: str = "alice") -> None:
        self.git("clone", "-q", url, ".")
        self.git("config", "user.name", agent)
        self.git("config", "user.email", f"{agent}@agents.kernelyard")

    def commit(self, files: dict[str, bytes], agent: str = "alice") -> str:
        for name, content in files.items():
            target = self.directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"Try\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: {agent}\n")
        return self.git("rev-parse", "HEAD").stdout.strip()

    def push(self, ref: str = BRANCH, *options: str) -> subprocess.CompletedProcess[str]:
        return self.git("push", *options, "origin", f"HEAD:{ref}", check=False)


@pytest.fixture(scope="session")
def fresh_repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both repositories, to be copied: making them costs two dozen processes."""
    directory = tmp_path_factory.mktemp("fresh")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHARED_CONFIGURATION, "core.fsync", "none")
        AttemptsRepository.create(directory / "attempts.git", SEED).close()
        SolutionsRepository.create(directory / "solutions.git").close()
    return directory


@pytest.fixture
def repositories(home: Path, fresh_repositories: Path) -> tuple[Path, Path]:
    """Fresh attempts.git and solutions.git where the settings say."""
    shutil.copytree(fresh_repositories, home, dirs_exist_ok=True)
    return home / "attempts.git", home / "solutions.git"


@pytest.fixture
def token(db) -> str:
    """The token of the agent alice."""
    return issue_token(Agent.objects.create(name="alice"))


@pytest.fixture
def client_of(tmp_path: Path):
    """Makes git clients, each in a directory of its own."""
    return lambda name="alice": Client(tmp_path / "clients" / name)


def with_token(url: str, agent: str, token: str) -> str:
    return url.replace("http://", f"http://{agent}:{token}@")

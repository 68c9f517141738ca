"""A bare attempts repository, a clone with the real client in it, and a portal that answers from a dictionary."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
YARD = ROOT / "kernels_repo" / "yard"
TOKEN = "ky_secret/+=token"


def git(cwd: Path, *arguments: str, **kwargs: Any) -> str:
    identity = {f"GIT_{w}_{k}": v for w in ("AUTHOR", "COMMITTER") for k, v in (("NAME", "t"), ("EMAIL", "t@t"))}
    environment = {**os.environ, **identity}
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=environment, check=True, capture_output=True, text=True, **kwargs
    )
    return done.stdout.strip()


@dataclass
class FakePortal:
    """Answers GET requests from ``answers`` (path under /api/v1/ → JSON, or a list served one by one)."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    failures: int = 0
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def portal() -> Iterator[FakePortal]:
    fake = FakePortal()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append(self.path)
            path = self.path.split("?")[0].removeprefix("/api/v1/")
            status, answer = 404, {"error": "no such thing"}
            if fake.failures:
                fake.failures -= 1
                status, answer = 503, {"error": "busy"}
            elif path in fake.answers:
                status, answer = 200, fake.answers[path]
                if isinstance(answer, list):
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                if answer is None:
                    status, answer = 404, {"error": "not indexed yet"}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True  # how long shutdown() waits
    )
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield fake
    server.shutdown()
    server.server_close()


@dataclass
class Clone:
    path: Path
    bare: Path

    def yard(self, *arguments: str, stdin: str = "", expect: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, str(self.path / "yard"), *arguments], cwd=self.path, input=stdin, capture_output=True,
            text=True, timeout=60, check=False,
        )
        assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def git(self, *arguments: str) -> str:
        return git(self.path, *arguments)

    @property
    def kernel(self) -> Path:
        return self.path / "kernels" / "rmsnorm" / "cpp" / "kernel.cpp"

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


@pytest.fixture(scope="session")
def fresh_bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that each test gets a copy of."""
    directory = tmp_path_factory.mktemp("fresh")
    seed, bare = directory / "seed", directory / "attempts.git"
    (seed / "kernels/rmsnorm/cpp").mkdir(parents=True)
    (seed / "kernels/rmsnorm/cpp/kernel.cpp").write_text("#define ROWS 4  // tune: 1 2 4\n")
    (seed / "problems/rmsnorm").mkdir(parents=True)
    (seed / "problems/rmsnorm/definition.json").write_text('{"name": "rmsnorm", "description": "Normalise rows."}')
    shutil.copy(YARD, seed / "yard")
    git(seed, "init", "-q", "-b", "main")
    git(seed, "add", "-A")
    git(seed, "commit", "-q", "-m", "seed")
    git(directory, "clone", "-q", "--bare", str(seed), str(bare))
    return bare


@pytest.fixture
def bare(tmp_path: Path, fresh_bare: Path) -> Path:
    return shutil.copytree(fresh_bare, tmp_path / "attempts.git")


@pytest.fixture
def clone(tmp_path: Path, bare: Path, portal: FakePortal) -> Clone:
    path = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--single-branch", f"file://{bare}", str(path))
    with (path / ".git/config").open("a") as file:
        file.write(f'[yard]\n\turl = {portal.url}\n\tagent = ada\n\ttoken = "{TOKEN}"\n')
    return Clone(path, bare)

"""A portal in processes of its own (gunicorn, a database file, real repositories) and a judge whose clock is a formula.

One for all tests here; each test works on a problem of its own. A test sees what an agent sees: the JSON and git.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.portal.deployment import Deployment

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = 10
KERNEL = """\
#include "problem.h"
#define LANES 1   // tune: 1 2 4
#define UNROLL 1  // tune: 1 2
extern "C" int kernel_launch(const float* x, const float* weight, float* y, int64_t batch) { return 0; }
"""

NARROW = KERNEL.replace("1 2 4", "1 2")

PREPARE = """
import shutil
from pathlib import Path
from django.conf import settings
from django.core.management import call_command
from portal.agents.models import Agent
from portal.agents.tokens import issue_token
from portal.attempts.repository import ensure_repositories
from portal.problems.importing import import_problem
from tests.portal.repositories import write_problem
call_command("migrate", verbosity=0)
home, kernels = Path({home!r}), {kernels!r}
for name, kernel in kernels.items():
    make.make_baseline(import_problem(write_problem(home / "problems", name)).problem, latencies=(200.0, 400.0))
    target = home / "seed" / "kernels" / name / "cpp"
    target.mkdir(parents=True)
    (target / "kernel.cpp").write_text(kernel)
shutil.copy(settings.KERNELS_SEED_DIR / "yard", home / "seed" / "yard")
settings.KERNELS_SEED_DIR = home / "seed"
ensure_repositories()
print(issue_token(Agent.objects.create(name="tuner", kind=Agent.Kind.TUNER)))
"""

JUDGE = """
import re, time
from pathlib import Path
from agentcore.gitstore import AttemptsRepository
from agentcore.vocabulary import AttemptRef, Verdict
from django.conf import settings
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
home = Path({home!r})
while True:
    claim = queue.claim("cpu", "test:1")
    if claim is None:
        time.sleep(0.1)
        continue
    attempt = Evaluation.objects.select_related("attempt__problem").get(pk=claim.evaluation_id).attempt
    rule = json.loads((home / "formulas" / attempt.problem.name).read_text())
    with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
        source = repository.read_kernel(attempt.commit, AttemptRef.parse(attempt.ref))["kernel.cpp"].decode()
    values = dict((name, int(value)) for name, value in re.findall(r"#define (\\w+) (\\d+)\\s+// tune", source))
    latency = eval(rule["latency"], dict(values))
    verdict = Verdict.PASSED if latency else Verdict.INCORRECT
    result = make.make_result(attempt, latencies=(latency, 2 * latency) if latency else (None, None), verdict=verdict,
                              noise=rule["noise"])
    assert queue.finish(claim, result)
"""


@dataclass
class Town:
    """Where the portal is, and who the tuner is."""

    home: Path
    url: str
    token: str
    unused: list[str]


@dataclass
class Yard:
    """One problem as a tuner meets it. The judge times a kernel by ``latency``, a Python expression over its values."""

    town: Town
    problem: str
    outputs: list[str] = field(default_factory=list)

    def judge_by(self, latency: str, noise: float = 0.005) -> None:
        """Microseconds as an expression over LANES and UNROLL, 0 = wrong; ± ``noise`` relative."""
        rules = self.town.home / "formulas"
        rules.mkdir(exist_ok=True)
        (rules / self.problem).write_text(json.dumps({"latency": latency, "noise": noise}))

    def tune(self, *arguments: str, agent: str = "tuner", expect: int = 0) -> str:
        address = self.town.url.replace("http://", f"http://{agent}:{self.town.token}@") + "/git/attempts.git"
        command = [sys.executable, "-m", "agentcore.agents.tuner", "--problem", self.problem, "--hardware", "cpu"]
        done = subprocess.run(
            [*command, *arguments], env={**os.environ, "KERNELYARD_ATTEMPTS_URL": address}, cwd=ROOT, text=True,
            capture_output=True, timeout=120, check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == expect, output
        assert self.town.token not in output
        return output

    def attempts(self) -> list[dict[str, Any]]:
        """The record, oldest first."""
        address = f"{self.town.url}/api/v1/problems/{self.problem}/history?language=cpp&limit=500"
        with urllib.request.urlopen(address) as answer:
            return json.load(answer)["attempts"][::-1]

    def values(self, commit: str) -> dict[str, int]:
        path = f"{commit}:kernels/{self.problem}/cpp/kernel.cpp"
        source = subprocess.run(
            ["git", "-C", str(self.town.home / "attempts.git"), "show", path],
            check=True, capture_output=True, text=True,
        ).stdout
        return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)\s+// tune", source)}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    home = tmp_path_factory.mktemp("town")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    deployment = Deployment(home, {"KERNELYARD_PUBLIC_URL": url})
    names = [f"scale{number}" for number in range(PROBLEMS)]
    kernels = {**dict.fromkeys(names, KERNEL), "narrow": NARROW, "bare": "int nothing;\n"}
    prepared = deployment.python(PREPARE.format(home=str(home), kernels=kernels))
    gunicorn = [sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--threads", "4"]
    gunicorn += ["--bind", f"127.0.0.1:{port}"]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(gunicorn, cwd=ROOT, env=deployment.environment, stdout=log, stderr=log)
        judge = deployment.start(JUDGE.format(home=str(home)))
        try:
            _await(f"{url}/api/v1/health", server, home / "log")
            yield Town(home, url, prepared.split()[-1], names)
            assert server.poll() is None, (home / "log").read_text()[-3000:]
            judge.kill()
            judged = judge.communicate()
            assert judge.returncode == -signal.SIGKILL, judged
        finally:
            judge.kill()
            server.terminate()
            server.wait(timeout=20)
            deployment.close()


@pytest.fixture(scope="module")
def searched(town: Town) -> Yard:
    """A problem with three attempts, to look at and to go on with."""
    yard = Yard(town, town.unused.pop())
    yard.judge_by("100 / LANES")
    yard.tune("--attempts", "3")
    return yard


@pytest.fixture
def yard(town: Town) -> Yard:
    yard = Yard(town, town.unused.pop())
    yard.judge_by("100 / LANES")
    return yard


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.05)

"""Real django-q2 clusters of a deployment, one real kernel for them to judge, and looking at what became of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.portal.deployment import ROOT, Deployment

NEEDS_A_JUDGE = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed (Debian: apt install g++)"),
    pytest.mark.skipif(
        shutil.which("bwrap") is None and os.geteuid() != 0, reason="no sandbox (Debian: apt install bubblewrap)"
    ),
]
KERNEL = """
#include "problem.h"
extern "C" int kernel_launch(const float* x, const float* weight, float* y, int64_t batch) {
    for (int64_t i = 0; i < batch; ++i)
        for (int64_t j = 0; j < KY_HIDDEN; ++j) y[i * KY_HIDDEN + j] = x[i * KY_HIDDEN + j] * weight[j];
    return 0;
}
"""
PREPARE = """
from pathlib import Path
from tests.portal import repositories as repos
from portal.attempts import intake
repos.start(Path({directory!r}))
make.make_agent("ada")
repos.push("scale", "ada", {kernel!r})
intake.reconcile()
"""
STATE = """
from portal.evaluations.models import Evaluation
def show():
    row = Evaluation.objects.get()
    print(json.dumps([row.state, row.verdict, row.claims, row.claimed_by, row.message]), flush=True)
show()
"""
WATCH = STATE + """
import time
while True:
    time.sleep(0.1)
    show()
"""


def prepare(deployment: Deployment, directory: Path) -> None:
    """Both repositories, the problem ``scale`` below ``directory``, and one queued attempt at it by ada."""
    deployment.python(PREPARE.format(directory=str(directory), kernel=KERNEL))


def wait_for(deployment: Deployment, wanted: Callable[[list], bool], *, seconds: float) -> list:
    """The evaluation's ``[state, verdict, claims, claimed_by, message]`` once it is as ``wanted``.

    One process looks again and again: starting one for each look would take the cores from what is waited for.
    """
    deadline = time.monotonic() + seconds
    state: list = []
    with deployment.start(WATCH) as watching:
        try:
            for line in watching.stdout or ():
                state = json.loads(line)
                if wanted(state):
                    return state
                if time.monotonic() > deadline:
                    break
        finally:
            watching.kill()
    logs = "\n".join(path.read_text(errors="replace")[-3000:] for path in deployment.home.glob("logs/*"))
    raise AssertionError(f"still {state} after {seconds} s\n{logs}")


def descendants(pid: int) -> set[int]:
    """Every process below ``pid``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = set(), [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


@contextmanager
def fleets(log: Path) -> Iterator[Callable[[Deployment], subprocess.Popen]]:
    """Starts ``manage.py fleet --hardware cpu`` in deployments, output to ``log``; all end with the block."""
    started: list[subprocess.Popen] = []

    def start(deployment: Deployment) -> subprocess.Popen:
        with log.open("a") as output:
            process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "fleet", "--hardware", "cpu"], cwd=ROOT,
                env=deployment.environment, stdout=output, stderr=output, start_new_session=True,
            )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            below = descendants(process.pid)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
            for pid in below:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue

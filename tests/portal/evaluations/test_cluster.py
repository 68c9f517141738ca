"""The real thing: a django-q2 cluster, the real judge and a killed worker."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.portal.deployment import ROOT, Deployment

pytestmark = [
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
row = Evaluation.objects.get()
print(json.dumps([row.state, row.verdict, row.claims, row.claimed_by, row.message]))
"""


def wait_for(deployment: Deployment, wanted, *, seconds: float) -> list:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = deployment.json(STATE)
        if wanted(state):
            return state
        time.sleep(0.2)
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


@pytest.fixture
def cluster(sqlite_deployment, tmp_path):
    sqlite_deployment.extra["DJANGO_SETTINGS_MODULE"] = "tests.portal.fast_settings"
    log = (tmp_path / "cluster.log").open("w")
    started = []

    def start() -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "fleet", "--hardware", "cpu"], cwd=ROOT,
            env=sqlite_deployment.environment, stdout=log, stderr=log, start_new_session=True,
        )
        started.append(process)
        return process

    yield sqlite_deployment, start
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


def test_a_pushed_kernel_is_judged_and_a_killed_workers_evaluation_finished_once_by_another(cluster, tmp_path):
    deployment, start = cluster
    deployment.python(PREPARE.format(directory=str(tmp_path / "suite"), kernel=KERNEL))
    process = start()
    state = wait_for(deployment, lambda s: s[0] == "running", seconds=60)
    worker = int(state[3].rpartition(":")[2])
    assert worker in descendants(process.pid)
    judged_by = descendants(worker)
    os.kill(worker, signal.SIGKILL)

    time.sleep(4)  # longer than the lease
    assert deployment.json(STATE)[0] == "running", "nobody else may finish it before it is reaped"
    deployment.python("from portal.evaluations import tasks\nprint(tasks.tick())")
    state = wait_for(deployment, lambda s: s[0] == "done", seconds=90)
    assert state[1:3] == ["passed", 2], state
    assert int(state[3].rpartition(":")[2]) != worker
    assert not [pid for pid in judged_by if Path(f"/proc/{pid}").exists()], "the dead worker's judge is gone too"

    noted, rows, events = deployment.json(
        """
from django.conf import settings
from agentcore.gitstore import AttemptsRepository
from portal.attempts import notes
from portal.attempts.models import Attempt
from portal.events.models import Event
from portal.evaluations.models import WorkloadResult
notes.write()
with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
    lines = repository.read_notes("evaluations", Attempt.objects.get().commit)
print(json.dumps([len(lines), WorkloadResult.objects.filter(heldout=False).count(),
                  Event.objects.filter(kind="evaluation.finished").count()]))
"""
    )
    assert (noted, rows, events) == (1, 2, 1)

    below = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    deadline = time.monotonic() + 10
    while (left := [pid for pid in below if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == [], "stopping the cluster leaves no process behind"

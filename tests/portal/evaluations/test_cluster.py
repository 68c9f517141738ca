"""The real thing: a django-q2 cluster, the real judge and a killed worker."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.portal.evaluations.clusters import NEEDS_A_JUDGE, STATE, descendants, fleets, prepare, wait_for

pytestmark = NEEDS_A_JUDGE


@pytest.fixture
def cluster(sqlite_deployment, tmp_path, lay_cpu_rates):
    lay_cpu_rates(sqlite_deployment.home / "cache")
    sqlite_deployment.extra["DJANGO_SETTINGS_MODULE"] = "tests.portal.fast_settings"
    with fleets(tmp_path / "cluster.log") as start:
        yield sqlite_deployment, lambda: start(sqlite_deployment)


def test_a_pushed_kernel_is_judged_and_a_killed_workers_evaluation_finished_once_by_another(cluster, tmp_path):
    deployment, start = cluster
    prepare(deployment, tmp_path / "suite")
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
    assert state[1] == "passed" and state[2] >= 2, state  # a busy machine has it measured again
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

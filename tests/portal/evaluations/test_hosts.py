"""A second host: the portal's database and git address, a home of its own without repositories, the real judge."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.portal.deployment import ROOT, Deployment
from tests.portal.evaluations.clusters import NEEDS_A_JUDGE, descendants, fleets, prepare, wait_for

pytestmark = pytest.mark.postgres
FAST = {"DJANGO_SETTINGS_MODULE": "tests.portal.fast_settings"}
WAITING_HOUSEKEEPING = """
from django_q.tasks import async_task
async_task("portal.evaluations.tasks.tick", cluster="kernelyard")
"""
AFTERWARDS = """
from django_q.models import OrmQ, Task
from portal.events.models import Event
from portal.evaluations.models import Evaluation
print(json.dumps({
    "noted": Evaluation.objects.get().note_written_at is not None,
    "housekeeping waits": sum(row.func().endswith(".tick") for row in OrmQ.objects.filter(key="kernelyard")),
    "housekeeping ran": Task.objects.filter(func__endswith="tick").count(),
    "requeued": Event.objects.filter(kind="evaluation.requeued").count(),
    "finished": Event.objects.filter(kind="evaluation.finished").count(),
}))
"""
TICK = """
from django.conf import settings
from agentcore.gitstore import AttemptsRepository
from portal.attempts.models import Attempt
from portal.evaluations import tasks
done = tasks.tick()
with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
    print(json.dumps([done["woken"], len(repository.read_notes("evaluations", Attempt.objects.get().commit))]))
"""


@pytest.fixture
def portal(postgres_deployment) -> Deployment:
    postgres_deployment.extra |= FAST
    return postgres_deployment


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def other(portal, tmp_path, port, lay_cpu_rates) -> Deployment:
    """The second host, before anything was started on it."""
    home = tmp_path / "other-home"
    lay_cpu_rates(home / "cache")
    portal.python("")  # makes the portal's signing key
    return Deployment(home, portal.extra | {
        "KERNELYARD_GIT_URL": f"http://127.0.0.1:{port}/git/attempts.git",
        "KERNELYARD_SECRET_KEY": (portal.home / "secret_key").read_text(),
    })


@contextmanager
def serving(portal: Deployment, port: int) -> Iterator[None]:
    """The portal's web server."""
    with (portal.home / "gunicorn.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "portal.wsgi", "--bind", f"127.0.0.1:{port}", "--threads", "4"],
            cwd=ROOT, env=portal.environment, stdout=log, stderr=log,
        )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, (portal.home / "gunicorn.log").read_text()[-3000:]
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


class TestJudging:
    pytestmark = NEEDS_A_JUDGE

    def test_a_host_without_repositories_waits_for_the_portal_and_then_judges_its_attempts(
        self, portal, other, port, tmp_path
    ):
        prepare(portal, tmp_path / "suite")
        portal.python(WAITING_HOUSEKEEPING)
        with fleets(tmp_path / "other.log") as start:
            process = start(other)
            address = other.extra["KERNELYARD_GIT_URL"]
            state = wait_for(portal, lambda s: s[4], seconds=60)
            assert state[:3] == ["queued", "", 0], "requeued, and no claim is lost to an outage"
            assert f"could not be fetched from {address}" in state[4]
            assert "refs/heads/attempts/scale/cpp/ada/main" in state[4]

            with serving(portal, port):
                assert portal.json(TICK)[1] == 0  # whether it had to wake the worker depends on who asked first
                state = wait_for(portal, lambda s: s[0] == "done", seconds=90)
                assert state[1] == "passed" and state[2] >= 1, state
                assert int(state[3].rpartition(":")[2]) in descendants(process.pid)
            said = (tmp_path / "other.log").read_text()
            assert f"fetched from {address} into {other.home / 'attempts-mirror.git'}" in said
            assert f"{address} does not answer" in said
            assert "postgresql" in said
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0

        found = portal.json(AFTERWARDS)
        assert found.pop("requeued") >= 1  # a busy machine has it measured again
        assert found == {"noted": False, "housekeeping waits": 1, "housekeeping ran": 0, "finished": 1}, (
            "the other host judges, and leaves the rest to the portal's"
        )
        assert not {"attempts.git", "solutions.git", "notes.lock"} & {path.name for path in other.home.iterdir()}
        assert portal.json(TICK)[1] == 1, "the portal's host writes the note"


def test_a_host_that_differs_from_the_fleet_is_told_in_what(portal, other):
    """Another signing key, another clock, another version of the code; in one process, each by itself."""
    portal.python("from portal.evaluations import fleet\nfleet.announce_key()\nfleet.announce_key()")
    found = other.json(
        """
from django.db import connection
from django.test import override_settings
from portal.events.models import Event
from portal.evaluations import fleet
fine = fleet.obstacles()
with override_settings(SECRET_KEY="another"):
    key = fleet.obstacles()
with override_settings(EVALUATION_LEASE_S=0):
    clock = fleet.obstacles()
with connection.cursor() as cursor:
    cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('attempts', '0999_later', now())")
    newer = fleet.obstacles()
    cursor.execute("DELETE FROM django_migrations WHERE name = '0999_later' OR app = 'events'")
    older = fleet.obstacles()
print(json.dumps([fine, key, clock, newer, older, Event.objects.filter(kind=fleet.KEY_EVENT).count()]))
"""
    )
    fine, key, clock, newer, older, announced = found
    assert fine == []
    assert len(key) == 1
    assert "signing key is not the portal's" in key[0]
    assert len(clock) == 1
    assert "Synchronise" in clock[0]
    assert len(newer) == 1
    assert "older than the database (attempts.0999_later)" in newer[0]
    assert len(older) == 1
    assert "lacks migrations" in older[0]
    assert announced == 1

"""`manage.py fleet` says what it uses and refuses what could not work; what it starts is in test_hosts.py."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from agentcore.judge import devices
from agentcore.vocabulary import HardwareName
from portal.attempts.repository import ensure_repositories
from portal.evaluations import compiling, tasks
from portal.events.models import Event
from tests.portal.deployment import ROOT, Deployment

pytestmark = pytest.mark.django_db
H200 = {"hardware": "h200", "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580"}
ADDRESS = "http://portal.example:8000/git/attempts.git"


@pytest.fixture
def started(monkeypatch) -> list[dict[str, str]]:
    """The environments of the clusters that would have been started."""
    environments: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: environments.append(environment))
    return environments


def test_the_portals_host_serves_cpu_with_its_own_cluster_and_gpus_with_theirs(home, started, capsys, monkeypatch):
    ensure_repositories()
    monkeypatch.setattr(devices, "gpus", lambda: [H200])
    call_command("fleet", "--hardware", "cpu")
    call_command("fleet", "--hardware", "h200", "--workers", "3")
    assert "Q_CLUSTER_NAME" not in started[0]
    assert (started[1]["Q_CLUSTER_NAME"], started[1]["KERNELYARD_WORKERS"]) == ("h200", "3")
    said = capsys.readouterr().out
    for part in ("sqlite", f"{home / 'attempts.git'} (this is the portal's host)", "h200, 3 at a time"):
        assert part in said


def test_hardware_that_is_not_there_is_refused_and_not_announced(home, started, monkeypatch):
    """Such a host would take every evaluation of that class, fail each, and end what is compiled for want of one."""
    ensure_repositories()
    monkeypatch.setattr(devices, "gpus", list)
    with pytest.raises(CommandError, match="there is no h200 here, but no NVIDIA GPU"):
        call_command("fleet", "--hardware", "h200")
    monkeypatch.setattr(devices, "gpus", lambda: [H200])
    with pytest.raises(CommandError, match="there is no b200 here, but NVIDIA H200"):
        call_command("fleet", "--hardware", "b200")
    with pytest.raises(CommandError, match="--workers must be at least 1"):
        call_command("fleet", "--hardware", "h200", "--workers", "0")
    assert started == []
    assert not any(compiling.is_measured(hardware) for hardware in HardwareName if hardware.is_gpu)


def test_sqlite_is_refused_where_a_git_address_is_set(home, settings, started, capsys):
    settings.GIT_URL = ADDRESS
    with pytest.raises(CommandError, match=r"SQLite, which hosts cannot share\. Set KERNELYARD_DATABASE_URL"):
        call_command("fleet", "--hardware", "h200")
    assert started == []
    assert ADDRESS in capsys.readouterr().out, "what it would use is said before why not"


def test_a_host_with_neither_repositories_nor_a_git_address_is_told_of_both(home, started):
    with pytest.raises(CommandError) as caught:
        call_command("fleet", "--hardware", "h200")
    for part in (str(home / "attempts.git"), "initrepos", "KERNELYARD_GIT_URL"):
        assert part in str(caught.value)
    assert started == []


def test_the_portals_own_home_is_refused_where_a_git_address_is_set(home, settings, started):
    ensure_repositories()
    settings.GIT_URL = ADDRESS
    with pytest.raises(CommandError, match="On the portal's host leave KERNELYARD_GIT_URL out"):
        call_command("fleet", "--hardware", "h200")


def test_housekeeping_tells_the_fleet_a_check_of_the_key_but_not_the_key(home, settings):
    ensure_repositories()
    tasks.tick()
    tasks.tick()
    event = Event.objects.get(kind="fleet.signing-key")
    assert len(event.data["check"]) == 4
    settings.SECRET_KEY = "a new key"
    tasks.tick()
    checks = Event.objects.filter(kind="fleet.signing-key").values_list("data__check", flat=True)
    assert len(set(checks)) == 2


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (ADDRESS, "needs the portal's signing key: copy secret_key"),
        ("portal:8000", "is not a git address such as"),
        ("http://ada:hunter2@portal/git/attempts.git", "leave it out"),
    ],
)
def test_a_wrong_setting_stops_every_command_with_what_to_do(tmp_path, address, said):
    environment = Deployment(tmp_path, {"KERNELYARD_GIT_URL": address}).environment
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "check"], cwd=ROOT, env=environment, text=True, capture_output=True,
        timeout=60, check=False,
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert "hunter2" not in done.stderr
    assert not (tmp_path / "secret_key").exists(), "no key of its own is made up"

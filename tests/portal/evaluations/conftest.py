"""Real databases for tests of several processes: an SQLite file and a PostgreSQL server."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.portal.deployment import Deployment, postgres_programs, postgres_server

_serial = itertools.count()


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory) -> Path:
    """An SQLite file with all migrations applied, to be copied."""
    home = tmp_path_factory.mktemp("migrated")
    Deployment(home).manage("migrate", "--verbosity", "0")
    return home / "kernelyard.sqlite3"


@pytest.fixture(scope="session")
def postgres():
    """The URL of a running PostgreSQL with a migrated database ``template_kernelyard``."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt install postgresql)")
    with postgres_server(programs) as url:
        socket = url.partition("host=")[2]
        subprocess.run(
            [programs / "createdb", "-h", socket, "-U", "kernelyard", "template_kernelyard"], check=True, timeout=30
        )
        Deployment(Path(socket), {"KERNELYARD_DATABASE_URL": url.format(name="template_kernelyard")}).manage(
            "migrate", "--verbosity", "0"
        )
        yield url, programs, socket


@pytest.fixture
def sqlite_deployment(tmp_path, migrated_sqlite) -> Deployment:
    home = tmp_path / "sqlite-home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "kernelyard.sqlite3")
    return Deployment(home)


@pytest.fixture
def postgres_deployment(tmp_path, postgres) -> Deployment:
    url, programs, socket = postgres
    name = f"test{next(_serial)}"
    subprocess.run(
        [programs / "createdb", "-h", socket, "-U", "kernelyard", "-T", "template_kernelyard", name],
        check=True, timeout=30,
    )
    home = tmp_path / "postgres-home"
    home.mkdir()
    return Deployment(home, {"KERNELYARD_DATABASE_URL": url.format(name=name)})


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def deployment(request, tmp_path) -> Deployment:
    """A deployment with an empty, migrated database; each test runs on SQLite and on PostgreSQL."""
    return request.getfixturevalue(f"{request.param}_deployment")

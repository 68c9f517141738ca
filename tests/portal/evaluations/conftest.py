"""Real databases for tests of several processes: an SQLite file and a PostgreSQL server.

The deployments of a file's tests stand at one place, one after the other: each begins with an empty home and a fresh
copy of the migrated database, but what has loaded Django there serves them all.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.portal.deployment import Deployment, postgres_programs, postgres_server

DATABASE = "kernelyard_test"


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


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Deployment]:
    """Where this file's deployments stand, and what they fork from."""
    place = Deployment(tmp_path_factory.mktemp("place"))
    yield place
    place.close()


def _emptied(home: Path) -> Path:
    """``home`` as a deployment finds it at its start; the settings made these two when they were loaded."""
    home.mkdir(exist_ok=True)
    for entry in home.iterdir():
        if entry.name not in ("secret_key", "static"):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return home


@pytest.fixture
def sqlite_deployment(place, migrated_sqlite) -> Deployment:
    home = _emptied(place.home / "sqlite")
    shutil.copy(migrated_sqlite, home / "kernelyard.sqlite3")
    return Deployment(home, pool=place.pool)


@pytest.fixture
def postgres_deployment(place, postgres) -> Deployment:
    url, programs, socket = postgres
    for command in ("dropdb --if-exists --force", "createdb -T template_kernelyard"):
        subprocess.run(
            [programs / command.split()[0], *command.split()[1:], "-h", socket, "-U", "kernelyard", DATABASE],
            check=True, timeout=30, capture_output=True,
        )
    return Deployment(
        _emptied(place.home / "postgres"), {"KERNELYARD_DATABASE_URL": url.format(name=DATABASE)}, place.pool
    )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def deployment(request) -> Deployment:
    """A deployment with an empty, migrated database; each test runs on SQLite and on PostgreSQL."""
    return request.getfixturevalue(f"{request.param}_deployment")

"""A deployment of its own for tests that need real processes: a home directory, a migrated database, environment.

Code runs in processes forked from one that has loaded Django (`warm`), commands in processes from scratch. Also
starts a throw-away PostgreSQL cluster. pytest-django's test database is per process, so it cannot serve here.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.portal.warm import Forked, Warm

ROOT = Path(__file__).resolve().parents[2]
_NOT_INHERITED = ("KERNELYARD_", "DJANGO_", "PYTEST_")


@dataclass
class Deployment:
    """Environment and home of one deployment; each method runs a separate process in it. Close it at the end."""

    home: Path
    extra: dict[str, str] = field(default_factory=dict)
    pool: dict[frozenset[tuple[str, str]], Warm] = field(default_factory=dict)
    """What to fork from in each environment so far; may be shared by the deployments of several tests."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_INHERITED)}
        return kept | {
            "KERNELYARD_HOME": str(self.home),
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONPATH": str(ROOT),
            **self.extra,
        }

    def manage(self, *arguments: str) -> str:
        return self._run([sys.executable, str(ROOT / "manage.py"), *arguments])

    def python(self, code: str) -> str:
        """Run ``code`` after django.setup(), with ``make`` (the factories) at hand, and return what it printed."""
        with self.start(code) as process:
            said, errors = process.communicate()
        assert process.returncode == 0, f"{code[-300:]}\n{said[-2000:]}\n{errors[-4000:]}"
        return said

    def json(self, code: str):
        """As `python`, for code whose last printed line is one JSON value."""
        return json.loads(self.python(code).splitlines()[-1])

    def start(self, code: str, *, stdin: int = subprocess.DEVNULL) -> Forked:
        """Start ``code`` in the background; the caller waits for it or kills it."""
        environment = self.environment
        key = frozenset(environment.items())
        if key not in self.pool:
            self.pool[key] = Warm(environment)
        return self.pool[key].fork(code, stdin=stdin)

    def close(self) -> None:
        """End what the pool holds."""
        while self.pool:
            self.pool.popitem()[1].close()

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, cwd=ROOT, env=self.environment, text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, f"{command[-1][-300:]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def postgres_programs() -> Path | None:
    """The directory of initdb and pg_ctl, or None where PostgreSQL's server is not installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """A running cluster reachable over a socket only; yields a database URL without the database's name filled in.

    PostgreSQL refuses to run as root, so root starts it as nobody.
    """
    directory = Path(tempfile.mkdtemp(prefix="ky-postgres-"))
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data = directory / "data"

    def run(*command: str) -> None:
        with (directory.parent / f"{directory.name}.log").open("a+") as log:
            done = subprocess.run(
                command, stdout=log, stderr=log, cwd="/", timeout=60, env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                **as_user,
            )
            log.seek(0)
            assert done.returncode == 0, log.read()[-2000:]

    try:
        run(str(programs / "initdb"), "-D", str(data), "-U", "kernelyard", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {directory} -c listen_addresses='' -c fsync=off -c max_connections=60"
        run(str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "30", "-o", options, "start")
        try:
            yield f"postgresql://kernelyard@/{{name}}?host={directory}"
        finally:
            run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        (directory.parent / f"{directory.name}.log").unlink(missing_ok=True)

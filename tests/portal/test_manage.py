"""manage.py on a host that lacks something: a line with the remedy, no traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.db import DatabaseError, connection

import manage

ROOT = Path(__file__).resolve().parents[2]


def test_a_host_without_git_is_told_so_in_a_line(tmp_path: Path) -> None:
    environment = {"KERNELYARD_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT), "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "initrepos"], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=120,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("install the Debian package git")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "told"), [("SELECT * FROM nowhere", True), ("SELECT no_column FROM agents_agent", True), ("SELEC", False)]
)
def test_a_database_that_was_not_migrated_is_known_by_what_it_lacks(query: str, told: bool) -> None:
    with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
        cursor.execute(query)
    assert manage._remedy(caught.value).endswith("run: manage.py migrate") is told

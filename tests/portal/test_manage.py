"""manage.py on a host that lacks something: a line with the remedy, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("command", "has_git", "said"),
    [
        (["createagent", "ada"], True, "run: manage.py migrate"),
        (["initrepos"], False, "install the Debian package git"),
    ],
)
def test_what_a_fresh_host_lacks_is_said_in_a_line(
    command: list[str], has_git: bool, said: str, tmp_path: Path
) -> None:
    environment = {
        "KERNELYARD_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"] if has_git else str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(said)

"""Stops a process that has a problem in a sandbox while it waits for that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


def stopped_inside(program: str, root: Path, temporary: Path, number: int) -> int:
    """Run a Python program with the problem's directory as its argument, and send it a signal once it is inside. Its
    exit status. Its temporary directories are made in ``temporary``.
    """
    known = set(temporary.iterdir())
    environment = os.environ | {"TMPDIR": str(temporary)}
    owner = subprocess.Popen([sys.executable, "-c", program, str(root)], env=environment)
    # Once it has written the problem for the sandbox it is inside. However long that takes, it comes.
    while not any((made / "workload.jsonl").exists() for made in {*temporary.iterdir()} - known):
        assert owner.poll() is None
        time.sleep(0.02)
    owner.send_signal(number)
    return owner.wait()

"""The GPU's side of the runner by itself, around a libcuda that runs the judge's kernels on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from agentcore.judge.gate import GATE_SOURCE
from tests.judge.fake_libcuda import FAKE


def test_a_call_that_raises_leaves_no_gate_of_the_runner_closed_and_garbage_is_collected(
    fake_libcuda: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(FAKE / "raising.py"), str(GATE_SOURCE.parent / "runner")],
        env={**os.environ, "LD_LIBRARY_PATH": str(fake_libcuda)}, capture_output=True, text=True, timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"raised": ["out of its launch"] * 2, "collects": True}

"""Bounds counted in a sandbox, by a process that may say anything: what of it is taken."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from agentcore.bounds.confined import confined_bounds
from agentcore.problems import load_problem
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName
from tests.problems.stopping import stopped_inside

# Finds the pipe that answers go through, says all of it before anything is counted, and ends.
_TELLS = """
import json, os
bound = dict(t_sol_us=1.0, limiter="memory", hardware="h200")
lines = [
    b"[" * 100_000,
    b'{"hardware": "h200", "uuid": "w0", "bound": ' + b'{"a":' * 30_000,
    json.dumps(dict(uuid="w0", hardware="h200", bound=bound | dict(bytes_moved=dict(x=10**400)))).encode(),
    json.dumps(dict(uuid="w0", hardware="h200", bound=bound | dict(flops=dict(x=float("inf"))))).encode(),
    json.dumps(dict(uuid="w0", hardware="h200", bound=bound | dict(limiter="z" * 200_000))).encode(),
]
for number in range(3, 64):
    try:
        if "pipe" in os.readlink(f"/proc/self/fd/{number}"):
            os.set_blocking(number, True)
            with open(number, "wb") as answer:
                answer.write(b"\\n".join(lines) + b"\\n" + b"{}\\n" * 2_000_000)
    except OSError:
        pass
os._exit(0)
"""


def test_nothing_that_a_reference_says_is_taken_unless_it_has_the_form_and_no_more_of_it_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "definition.json").write_text(json.dumps({
        "name": "tells", "axes": {"n": {"type": "var"}}, "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}}, "reference": _TELLS + "def run(x):\n    return x\n",
    }))
    line = {"uuid": "w0", "axes": {"n": 8}, "inputs": {"x": {"type": "random"}}}
    (tmp_path / "workload.jsonl").write_text(json.dumps(line) + "\n")
    found = confined_bounds(load_problem(tmp_path), find_sandbox(), [HardwareName.H200], None, wall_s=60)
    assert not found.records and not found.troubles
    assert "more than the" in found.trouble


_COUNTS = """
import pathlib, sys
from agentcore.bounds.confined import confined_bounds
from agentcore.problems import load_problem
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName
confined_bounds(load_problem(pathlib.Path(sys.argv[1])), find_sandbox(), [HardwareName.H200], None, wall_s=300)
"""


def test_a_counting_that_is_stopped_leaves_no_directory_and_one_that_is_killed_leaves_it_to_the_next(
    tmp_path: Path,
) -> None:
    root, temporary = tmp_path / "problem", tmp_path / "tmp"
    root.mkdir()
    temporary.mkdir()
    (root / "definition.json").write_text(json.dumps({
        "name": "sleeps", "axes": {"n": {"type": "var"}}, "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "import time\ntime.sleep(600)\ndef run(x):\n    return x\n",
    }))
    (root / "workload.jsonl").write_text('{"uuid": "w0", "axes": {"n": 8}, "inputs": {}}\n')

    assert stopped_inside(_COUNTS, root, temporary, signal.SIGKILL) == -signal.SIGKILL
    (left,) = temporary.glob("kernelyard-bounds-*")
    os.utime(left, (0, 0))
    assert stopped_inside(_COUNTS, root, temporary, signal.SIGTERM) == 128 + signal.SIGTERM
    assert list(temporary.glob("kernelyard-bounds-*")) == []

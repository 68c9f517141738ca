"""Children end with their supervisor, whatever ends it, and so do the processes they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .conftest import ROOT, processes_of

# A supervisor with one child, which leaves a grandchild that ignores SIGTERM in a session of its own.
PARENT = """
import os, sys, time
from pathlib import Path
from portal.quickstart.processes import Supervisor
child = '''
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
                 start_new_session=True)
print("ready", flush=True)
time.sleep(600)
'''
home = Path(os.environ["MARK"])
with Supervisor(home) as supervisor:
    made = supervisor.start("child", [sys.executable, "-c", child], environment=os.environ, cwd=home)
    while "ready" not in made.last_words():
        time.sleep(0.02)
    print("ready", flush=True)
    sys.stdin.readline()
print("stopped", flush=True)
"""


def start(mark: Path) -> subprocess.Popen[str]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, env={**os.environ, "MARK": str(mark)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    return parent


def test_stop_ends_children_and_their_stubborn_orphans(tmp_path: Path) -> None:
    parent = start(tmp_path)
    assert len(processes_of(tmp_path)) == 3
    output, _ = parent.communicate("stop\n", timeout=30)
    assert output == "stopped\n"
    assert processes_of(tmp_path) == []


def test_a_killed_supervisor_takes_its_children_with_it(tmp_path: Path) -> None:
    parent = start(tmp_path)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    # The stubborn grandchild has no supervisor left to kill it; the child itself must be gone.
    while any("ready" in command for command in processes_of(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = processes_of(tmp_path)
    assert not any("ready" in command for command in left)
    for entry in Path("/proc").glob("[0-9]*"):  # clean up after ourselves
        try:
            if f"MARK={tmp_path}".encode() in entry.joinpath("environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue

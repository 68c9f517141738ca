"""What a sandbox leaves behind, however it ends: no process, file, mount, shared memory, cgroup or descriptor."""

# ruff: noqa: PTH208

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.sandbox import MIB, Limits, Sandbox, SandboxError
from agentcore.sandbox.cgroup import CgroupUnavailable, cgroup_home
from agentcore.sandbox.process import SandboxProcess

PYTHON = [sys.executable, "-I", "-S", "-c"]
STANDING: set[threading.Thread] = set()
"""Threads of whatever runs the tests, those of the files before this one too: they stay, and are not waited for."""
KEY = 4711


@pytest.fixture(autouse=True)
def standing() -> None:
    STANDING.clear()
    STANDING.update(threading.enumerate())


LITTER = """
import ctypes, mmap, os, signal, socket, subprocess, sys, threading, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
libc = ctypes.CDLL(None, use_errno=True)
kept = []
for place in ("/tmp", "/dev/shm", "/var/tmp", "/run", out := sys.argv[1]):
    for name in ("kernelyard-litter", ".kernelyard-litter", "x" * 200):
        try: kept.append(open(f"{place}/{name}", "wb")); kept[-1].write(b"litter" * 1000); kept[-1].flush()
        except OSError: pass
try: os.mkfifo("/tmp/fifo")
except OSError: pass
for name in ("\\0kernelyard-litter", "/tmp/socket"):
    kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind(name); kept[-1].listen()
libc.shmget(KEY, 1 << 20, 0o1666)
libc.msgget(KEY, 0o1666)
libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
kept.append(os.memfd_create("litter")); kept.append(mmap.mmap(-1, 1 << 20))
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/"); time.sleep(1000)
        os._exit(0)
subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM HUP; sleep 1000 & sleep 1000"])
print("ready", flush=True)
""".replace("KEY", str(KEY))


def state(out: Path) -> dict[str, object]:
    """What there is on the host that a sandbox could have added to."""
    for thread in threading.enumerate():
        if thread not in STANDING:
            thread.join(2)  # a cancelled timer, a reader at the end of its pipe
    try:
        cgroups = sorted(cgroup_home().iterdir())
    except CgroupUnavailable:
        cgroups = []
    return {
        "processes": {pid for pid in os.listdir("/proc") if pid.isdigit() and of_a_sandbox(pid)},
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "shared memory": sorted(os.listdir("/dev/shm")),
        "System V": [line for kind in ("shm", "msg") for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
                     if line.split()[0] == str(KEY)],
        "files": [name for place in ("/tmp", "/var/tmp", "/run") for name in os.listdir(place) if "litter" in name],
        "sockets": [line for line in Path("/proc/net/unix").read_text().splitlines() if "litter" in line],
        "cgroups": cgroups,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "zombies": [pid for pid in children() if zombie(pid)],
    }


def of_a_sandbox(pid: str) -> bool:
    """Run by a uid of our range, or (in this test) started by this very process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid >= 1_900_000_000 and own(pid)
    except OSError:
        return False


def own(pid: str) -> bool:
    """Other sandboxes may be at work on this host; ours carry the mark."""
    try:
        return b"litter" in Path(f"/proc/{pid}/cmdline").read_bytes() or b"sleep 1000" in Path(
            f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return False


def children() -> list[str]:
    found: list[str] = []
    for task in Path("/proc/self/task").glob("*/children"):
        found += task.read_text().split()
    return found


def zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def killed(process: SandboxProcess) -> None:
    assert process.kill_tree()


def left_alone(process: SandboxProcess) -> None:
    """Its program ends by itself, and its daemons do not."""
    assert process.wait(20) == 0


def out_of_time(process: SandboxProcess) -> None:
    process.wait(20)
    assert process.timed_out


def out_of_memory(process: SandboxProcess) -> None:
    process.wait(30)
    assert process.exceeded == "memory"


def frozen(process: SandboxProcess) -> None:
    assert process.freeze(5)
    assert process.kill_tree()


def monitor_killed(process: SandboxProcess) -> None:
    """Somebody kills the process outside that the sandbox hangs on."""
    os.kill(process.pid, 9)
    process.wait(20)


HOLD = "time.sleep(1000)"
ENDS: list[tuple[str, Callable[[SandboxProcess], None], Limits]] = [
    (HOLD, killed, Limits(wall_s=60)),
    ("os._exit(0)", left_alone, Limits(wall_s=60)),
    (HOLD, out_of_time, Limits(wall_s=1.5)),
    ("mine = bytearray(100 << 20); mine[::4096] = bytes(25600); " + HOLD, out_of_memory,
     Limits(wall_s=60, memory_bytes=90 * MIB)),
    (HOLD, frozen, Limits(wall_s=60)),
    (HOLD, monitor_killed, Limits(wall_s=60)),
]


@pytest.mark.parametrize(("ending", "end", "limits"), ENDS, ids=[end.__name__ for _, end, _ in ENDS])
def test_nothing_is_left_behind(
    sandbox: Sandbox, tmp_path: Path, ending: str, end: Callable[[SandboxProcess], None], limits: Limits
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    sandbox.run(["true"])
    before = state(out)
    program = [*PYTHON, LITTER + ending, str(out)]
    with sandbox.popen(program, stdout=subprocess.PIPE, writable=[out], limits=limits) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        inside = [*process.host_pids(), process.init_pid, process.pid]
        assert len(inside) > 3 or ending == "os._exit(0)"
        end(process)
        assert not [pid for pid in inside if pid and Path(f"/proc/{pid}").exists() and not zombie(str(pid))]
    after = state(out)
    assert after == before
    # What it was given to write is the caller's, and stays.
    assert (out / "kernelyard-litter").stat().st_uid == process.uid


def test_what_could_not_be_killed_is_said_and_not_waited_for_for_ever(sandbox: Sandbox) -> None:
    """A process that hangs in the kernel, as one does on a device that hangs: frozen, it takes no signal either."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists() or not os.access(freezer, os.W_OK):
        pytest.skip("no version 1 freezer cgroup here, whose processes SIGKILL does not reach")
    cage = freezer / f"kernelyard-test-{os.getpid()}"
    cage.mkdir()
    try:
        with sandbox.popen(["sleep", "1000"], limits=Limits(wall_s=60)) as process:
            while not process.host_pids():
                time.sleep(0.01)
            (pid,) = process.host_pids()
            (cage / "cgroup.procs").write_text(str(pid))
            (cage / "freezer.state").write_text("FROZEN")
            while (cage / "freezer.state").read_text().strip() != "FROZEN":
                time.sleep(0.01)
            began = time.monotonic()
            assert not process.kill_tree(timeout=1.0)
            assert time.monotonic() - began < 9  # not the ten seconds that it waits by default
            assert Path(f"/proc/{pid}").exists()
            (cage / "freezer.state").write_text("THAWED")
            assert process.kill_tree()
            assert not Path(f"/proc/{pid}").exists()
    finally:
        (cage / "freezer.state").write_text("THAWED")
        deadline = time.monotonic() + 5
        while (cage / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        cage.rmdir()


def test_a_sandbox_that_could_not_be_made_leaves_nothing_either(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.run(["true"])
    before = state(tmp_path)
    for _ in range(3):
        with pytest.raises(SandboxError):
            sandbox.run(["true"], devices=[Path("/dev/no-such-directory/device")])
        with pytest.raises(SandboxError):
            sandbox.run(["true"], readable=[tmp_path / "nowhere"])
        with pytest.raises(OSError):
            sandbox.run(["true"], pass_fds=[4000])
    assert state(tmp_path) == before

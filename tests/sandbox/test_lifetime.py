"""How sandboxed programs end, are bounded and are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentcore.sandbox import MIB, BoundedCapture, Limits, SandboxError, SandboxProcess
from tests.sandbox.conftest import alive, wait_until

LIMITS = Limits(wall_s=60)
PYTHON = [sys.executable, "-I", "-S", "-c"]


def run_time(pid: int) -> list[int]:
    """CPU time so far of every thread, ns."""
    return [int((task / "schedstat").read_text().split()[0]) for task in sorted(Path(f"/proc/{pid}/task").iterdir())]


STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: time.sleep(1)
        os._exit(0)
    os.wait()
print("ready", flush=True)
while True: time.sleep(1)
"""


def stubborn_tree(sandbox, limits=LIMITS) -> SandboxProcess:
    process = sandbox.popen([*PYTHON, STUBBORN], stdout=subprocess.PIPE, limits=limits)
    assert process.stdout.readline() == b"ready\n"
    assert len(process.host_pids()) == 3
    return process


def test_the_exit_status_comes_through(sandbox):
    assert sandbox.run(["sh", "-c", "exit 42"]).returncode == 42
    assert sandbox.run(["sh", "-c", "kill -SEGV $$"]).returncode == 128 + signal.SIGSEGV
    assert sandbox.run(["no-such-program"]).returncode == 127


def test_killing_takes_daemons_that_ignore_signals_too(sandbox):
    with stubborn_tree(sandbox) as process:
        pids = [*process.host_pids(), process.init_pid]
        assert len(pids) == 4 and all(map(alive, pids))
        assert process.kill_tree()
        assert not any(map(alive, pids))
        assert process.poll() == 128 + signal.SIGKILL
        assert process.host_pids() == []


def test_nothing_outlives_the_program(sandbox):
    program = STUBBORN.rpartition("while True")[0] + "time.sleep(0.2)"
    with sandbox.popen([*PYTHON, program], stdout=subprocess.PIPE, limits=Limits(wall_s=60)) as process:
        assert process.stdout.readline() == b"ready\n"
        pids = [*process.host_pids(), process.init_pid]
        assert process.wait(10) == 0
        assert not any(map(alive, pids))


def test_the_wall_limit_kills_the_whole_tree(sandbox):
    process = stubborn_tree(sandbox, Limits(wall_s=2))
    with process:
        pids = [*process.host_pids(), process.init_pid]
        process.wait(10)
        assert process.timed_out
        assert process.seconds < 40
        assert not any(map(alive, pids))


def test_run_reports_a_timeout_and_what_was_said_before(sandbox):
    done = sandbox.run(["sh", "-c", "trap '' TERM; echo begun; sleep 100"], limits=Limits(wall_s=1.5))
    assert done.timed_out
    assert done.stdout == b"begun\n"
    assert 1.4 < done.seconds < 90


def test_the_death_of_the_caller_takes_the_sandbox_along(sandbox):
    program = f"""
import os, signal, subprocess, sys, time
from agentcore.sandbox import find_sandbox, Limits
process = find_sandbox({sandbox.kind!r}).popen(["sleep", "1000"], limits=Limits(wall_s=None))
while not process.host_pids(): time.sleep(0.01)
print(process.init_pid, *process.host_pids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = list(map(int, done.stdout.split()))
    assert len(pids) == 2
    wait_until(lambda: not any(map(alive, pids)))


def test_a_caller_that_dies_while_it_starts_a_sandbox_leaves_none(sandbox):
    """Whenever it dies: after a hundred microseconds or when everything is up."""
    program = f"""
import os, signal, threading, time
from agentcore.sandbox import find_sandbox, Limits
sandbox = find_sandbox({sandbox.kind!r})
sandbox.run(["true"])
for number in range(24):
    if os.fork() == 0:
        def end():
            time.sleep(number * 0.0006)
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=end).start()
        sandbox.popen(["sleep", "{10_000 + os.getpid() % 10_000}"], limits=Limits(wall_s=None, memory_bytes=None))
        time.sleep(10)
    os.wait()
print("through", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as caller:
        assert caller.stdout.readline() == b"through\n"
    mark = f"sleep\0{10_000 + os.getpid() % 10_000}\0"
    wait_until(lambda: all(name_of(pid) in ("bwrap", "") for pid in running(mark)))
    type(sandbox)()  # whoever starts next sweeps up what bubblewrap itself has left waiting
    wait_until(lambda: not running(mark))


def name_of(pid: int) -> str:
    """What a process calls itself; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def running(command: str) -> list[int]:
    """Whose command line contains this."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if command in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_fork_bomb_meets_its_limit_and_does_not_reach_the_next_sandbox(sandbox):
    program = """
import os, sys
count = 0
try:
    while True:
        if os.fork() == 0:
            while True: os.read(0, 1) or __import__("time").sleep(100)
        count += 1
except OSError as error:
    print(count, error.errno, flush=True)
__import__("time").sleep(100)
"""
    limits = Limits(wall_s=60, processes=40)
    with sandbox.popen([*PYTHON, program], stdout=subprocess.PIPE, limits=limits) as bomb:
        count, number = map(int, bomb.stdout.readline().split())
        assert 20 < count < 41
        assert number == 11  # EAGAIN
        if bomb.uid != 65534:
            assert sandbox.run(["sh", "-c", "true & wait"], limits=limits).returncode == 0
        pids = bomb.host_pids()
        assert len(pids) == count + 1
        assert bomb.kill_tree()
        assert not any(map(alive, pids))


def test_the_host_would_rather_kill_the_sandbox_when_memory_runs_out(sandbox):
    assert sandbox.run(["cat", "/proc/self/oom_score_adj"]).stdout == b"1000\n"


def test_cpu_time_file_size_and_descriptors_are_bounded(sandbox, tmp_path):
    deaf = "import os, signal; signal.signal(signal.SIGXCPU, lambda *_: os.write(1, b'told'))\nwhile True: pass"
    spun = sandbox.run([*PYTHON, deaf], limits=Limits(cpu_s=1, wall_s=30))
    assert spun.stdout == b"told" and spun.returncode == 128 + signal.SIGKILL and not spun.timed_out
    out = tmp_path / "out"
    out.mkdir()
    wrote = sandbox.run(
        ["dd", "if=/dev/zero", f"of={out}/big", "bs=1M", "count=16"],
        writable=[out],
        limits=Limits(file_bytes=4 * MIB, wall_s=30),
    )
    assert wrote.returncode != 0
    assert (out / "big").stat().st_size <= 4 * MIB
    opened = sandbox.run(
        [*PYTHON, "import os\nfor n in range(64): os.dup(0)"], limits=Limits(open_files=32, wall_s=30)
    )
    assert b"Too many open files" in opened.stderr


def test_no_core_files_are_left(sandbox):
    done = sandbox.run([*PYTHON, "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"])
    assert done.stdout == b"(0, 0)\n"


def test_endless_output_is_read_to_the_end_but_not_kept(sandbox):
    program = "import sys\nfor n in range(400000): sys.stdout.buffer.write(b'%07d\\n' % n)"
    done = sandbox.run([*PYTHON, program], limits=Limits(output_bytes=4096, wall_s=60))
    assert done.returncode == 0
    assert done.stdout_truncated and not done.stderr_truncated
    assert len(done.stdout) < 4096 + 100
    assert done.stdout.startswith(b"0000000\n0000001\n")
    assert done.stdout.endswith(b"0399999\n")


def test_output_may_be_any_bytes(sandbox):
    done = sandbox.run([*PYTHON, "import os; os.write(1, bytes(range(256)) * 8)"])
    assert done.stdout == bytes(range(256)) * 8


def test_input_of_any_size_arrives_without_a_deadlock(sandbox):
    content = os.urandom(3 * MIB)
    done = sandbox.run(["cat"], input=content, limits=Limits(output_bytes=8 * MIB))
    assert done.stdout == content


def test_stderr_can_be_merged_in_order(sandbox):
    done = sandbox.run(["sh", "-c", "echo one; echo two >&2; echo three"], merge_stderr=True)
    assert done.stdout == b"one\ntwo\nthree\n"
    assert done.stderr == b""


def test_a_sandbox_that_cannot_be_made_is_an_error_not_a_result(sandbox, tmp_path):
    with pytest.raises(SandboxError, match=r"could not be made|no-such-directory"):
        sandbox.run(["true"], devices=[Path("/dev/no-such-directory/device")])


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_behind(sandbox):
    sandbox.run(["true"])
    before = open_descriptors()
    for _ in range(5):
        sandbox.run(["true"], input=b"x")
        with sandbox.popen(["sleep", "100"]) as process:
            process.freeze()
            process.thaw()
    assert open_descriptors() == before


SPINNERS = """
import os, threading
def spin():
    while True: pass
for _ in range(2): threading.Thread(target=spin, daemon=True).start()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: spin()
    os._exit(0)
print("ready", flush=True)
spin()
"""


@pytest.fixture
def spinning(sandbox):
    with sandbox.popen([*PYTHON, SPINNERS], stdout=subprocess.PIPE, limits=Limits(wall_s=60)) as process:
        assert process.stdout.readline() == b"ready\n"
        wait_until(lambda: len(process.host_pids()) in (2, 3))
        yield process


def test_freezing_stops_every_thread_of_every_process(spinning):
    for _ in range(5):
        assert spinning.freeze()
        assert spinning.is_frozen()
        pids = spinning.host_pids()
        before = [run_time(pid) for pid in pids]
        time.sleep(0.05)
        assert [run_time(pid) for pid in pids] == before
        spinning.thaw()
        wait_until(lambda pids=pids, before=before: [run_time(pid) for pid in pids] != before)
        assert not spinning.is_frozen()


def test_a_frozen_sandbox_can_be_killed(spinning):
    assert spinning.freeze()
    pids = spinning.host_pids()
    assert spinning.kill_tree()
    assert not any(map(alive, pids))


def test_a_frozen_program_cannot_have_itself_continued(sandbox):
    """By relatives that keep sending the signal, a child that sends it by dying, or a signal-driven descriptor."""
    program = """
import ctypes, fcntl, os, signal, threading
libc = ctypes.CDLL(None, use_errno=True)
attempts = [
    lambda: os.kill(os.getpid(), signal.SIGCONT),
    lambda: os.kill(-1, signal.SIGCONT),
    lambda: signal.pthread_kill(threading.get_ident(), signal.SIGCONT),
    lambda: signal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGCONT),
    lambda: fcntl.fcntl(os.pipe()[0], 10, signal.SIGCONT),
]
refused = 0
for attempt in attempts:
    try: attempt()
    except OSError: refused += 1
refused += libc.syscall(56 if os.uname().machine == "x86_64" else 220, int(signal.SIGCONT), 0, 0, 0, 0) == -1
print(refused, flush=True)
signal.signal(signal.SIGCONT, lambda *_: None)
for _ in range(3):
    if os.fork() == 0: break
while True:
    for pid in range(1, 12):
        try: os.kill(pid, signal.SIGCONT)
        except OSError: pass
"""
    with sandbox.popen([*PYTHON, program], stdout=subprocess.PIPE, limits=Limits(wall_s=60)) as process:
        assert process.stdout.readline() == b"6\n"
        wait_until(lambda: len(process.host_pids()) >= 4)
        for _ in range(5):
            assert process.freeze(timeout=5)
            time.sleep(0.02)
            assert process.is_frozen()
            process.thaw()


def test_processes_started_between_two_freezes_are_found(sandbox):
    program = """
import os, time
print("ready", flush=True)
while True:
    pid = os.fork()
    if pid == 0:
        end = time.monotonic() + 0.002
        while time.monotonic() < end: pass
        os._exit(0)
    os.waitpid(pid, 0)
"""
    with sandbox.popen([*PYTHON, program], stdout=subprocess.PIPE, limits=Limits(wall_s=60)) as process:
        assert process.stdout.readline() == b"ready\n"
        for _ in range(20):
            assert process.freeze(timeout=2)
            pids = process.host_pids()
            before = [run_time(pid) for pid in pids]
            time.sleep(0.005)
            assert process.host_pids() == pids
            assert [run_time(pid) for pid in pids] == before
            process.thaw()
            time.sleep(0.003)


def test_a_process_that_waits_for_its_vforked_child_counts_as_stopped(sandbox):
    """Python's subprocess and posix_spawn may leave one at any moment: nobody is to be accused of that."""
    program = """
import os, signal, subprocess, sys, threading
def spawn():
    while True: subprocess.run(["/bin/true"])
threads = [threading.Thread(target=spawn) for _ in range(3)]
for thread in threads: thread.start()
print("ready", flush=True)
"""
    with sandbox.popen([*PYTHON, program], stdout=subprocess.PIPE, limits=Limits(wall_s=60)) as process:
        assert process.stdout.readline() == b"ready\n"
        for _ in range(60):
            assert process.freeze(timeout=3)
            before = process.cpu_times()
            time.sleep(0.002)
            assert process.is_frozen() and process.cpu_times() == before
            process.thaw()
            time.sleep(0.001)


@pytest.mark.parametrize("limit", [2, 10, 1000])
def test_a_capture_keeps_head_and_tail(limit):
    with BoundedCapture(limit) as capture:
        os.write(capture.write_fd, b"0123456789" * 20)
        kept, cut = capture.result()
    assert cut == (limit < 200)
    if cut:
        half = limit // 2
        assert kept.startswith((b"0123456789" * 20)[:half] + b"\n")
        assert kept.endswith(b"\n" + (b"0123456789" * 20)[-half:])
    else:
        assert kept == b"0123456789" * 20

"""What others do on the host while the CPU target is timed: from proc files as a kernel writes them, and for real."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentcore.build.header import parameters
from agentcore.judge.host_load import HostLoadWatch
from agentcore.judge.process_table import TICKS_PER_S, processes, tree
from agentcore.judge.result import HostLoad
from agentcore.vocabulary import Language
from tests.judge.conftest import DOUBLE_KERNEL, Bench, workload

BURN = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"


def write_proc(root: Path, cpu: str, own_ticks: int, pressure_us: int | None) -> Path:
    """A /proc with this process, a child of it with an awkward name, and a stranger."""
    root.mkdir(exist_ok=True)
    (root / "stat").write_text(f"cpu  {cpu}\ncpu0 1 2 3\nintr 5\n")
    me = os.getpid()
    for pid, name, parent, ticks in (
        (me, "pytest", 1, own_ticks), (me + 1, "a) R (b", me, own_ticks), (me + 2, "stranger", 1, 99_999),
    ):
        (root / str(pid)).mkdir(exist_ok=True)
        zeros = " ".join("0" for _ in range(9))
        (root / str(pid) / "stat").write_text(f"{pid} ({name}) R {parent} {zeros} {ticks} {ticks} 0 0 20 0 1 0\n")
    if pressure_us is not None:
        (root / "pressure").mkdir(exist_ok=True)
        (root / "pressure" / "cpu").write_text(
            f"some avg10=1.00 avg60=1.00 avg300=1.00 total={pressure_us}\nfull avg10=0.00 total=0\n"
        )
    return root


def test_shares_are_of_all_cores_time_less_what_is_our_own(tmp_path: Path) -> None:
    # 1000 ticks pass on all cores: 600 busy, of them 4 × 100 our own, 100 stolen, 300 idle.
    watch = HostLoadWatch(write_proc(tmp_path / "proc", "100 100 100 1000 50 0 0 10 7 7", 0, None))
    watch.start()
    write_proc(tmp_path / "proc", "400 200 250 1250 100 30 20 110 900 900", 100, None)
    load = watch.stop()
    assert load is not None
    assert (load.others_share, load.steal_share, load.waiting_share) == (0.2, 0.1, None)


def test_waiting_for_a_core_is_a_share_of_the_wall_time(tmp_path: Path) -> None:
    watch = HostLoadWatch(write_proc(tmp_path / "proc", "0 0 0 0 0 0 0 0 0 0", 0, 1_000_000))
    begun_s = time.monotonic()
    watch.start()
    time.sleep(0.1)
    write_proc(tmp_path / "proc", "1 0 0 9 0 0 0 0 0 0", 0, 1_050_000)
    load = watch.stop()
    longest_s = time.monotonic() - begun_s
    # Of 50 ms in 100 ms or somewhat more; shares are rounded to four digits.
    assert load is not None and load.waiting_share is not None
    assert 0.05 / longest_s - 1e-4 <= load.waiting_share <= 0.5


def test_a_watch_that_was_not_started_or_has_no_proc_says_nothing(tmp_path: Path) -> None:
    assert HostLoadWatch().stop() is None
    watch = HostLoadWatch(tmp_path / "absent")
    watch.start()
    assert watch.stop() is None
    once = HostLoadWatch()
    once.start()
    time.sleep(2 / TICKS_PER_S)
    assert once.stop() is not None and once.stop() is None


def ticks(seconds: float) -> int:
    return round(seconds * TICKS_PER_S)


def own_s() -> float:
    return sum(process.cpu_s for process in tree(processes(), os.getpid()).values())


def test_what_children_use_is_ours_before_and_after_they_were_waited_for() -> None:
    before = own_s()
    child = subprocess.Popen([sys.executable, "-c", BURN + "time.sleep(30)"])
    try:
        deadline = time.monotonic() + 20
        while ticks(own_s() - before) < ticks(0.35) and time.monotonic() < deadline:
            time.sleep(0.05)
        alive = own_s()
    finally:
        child.kill()
        child.wait()
    # In ticks, as the kernel counts, which cuts the rest off twice: differences of their sums are no exact seconds.
    assert ticks(alive - before) >= ticks(0.35) and ticks(own_s() - alive) >= -2


def test_what_a_process_elsewhere_in_the_tree_uses_is_not_ours() -> None:
    command = [sys.executable, "-c", f"import os, subprocess, sys\nif os.fork(): os._exit(0)\nos.setsid()\n{BURN}"]
    before = own_s()
    subprocess.run(command, check=True)  # its parent ended, so the burning one belongs to nobody here
    time.sleep(0.6)
    assert own_s() - before < 0.3


def test_an_evaluation_on_the_cpu_says_how_busy_its_host_was(bench: Bench) -> None:
    result = bench.judge_kernel(DOUBLE_KERNEL)
    load = result.stamp.host_load
    assert load is not None and 0 <= load.others_share <= 1 and 0 <= load.steal_share <= 1


STUMBLES = """
#include "problem.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int awake = 0;
static void *other(void *) {
    for (;;) {
        syscall(SYS_futex, &awake, FUTEX_WAIT, 0, 0, 0, 0);
        for (volatile int i = 0; awake && i < 20000; i = i + 1) {}
        awake = 0;
    }
}
extern "C" int kernel_launch(DECLARED) {
    static int calls = 0;
    static pthread_t thread;
    if (calls++ == 0) pthread_create(&thread, 0, other, 0);
    const bool slow = calls % 2;
    for (int r = 0; r < (slow ? 90 : 15); ++r) {
        for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
        asm volatile("" ::"r"(y) : "memory");
    }
    if (slow) {
        awake = 1;
        syscall(SYS_futex, &awake, FUTEX_WAKE, 1, 0, 0, 0);
        for (int i = 0; i < 50 && awake; ++i) sched_yield();
    }
    return 0;
}
"""


def test_a_kernel_does_not_choose_which_calls_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives its core away after every slow call, which looks like a preemption, on a host where nobody else is."""
    quiet = HostLoad(others_share=0.0, steal_share=0.0)
    monkeypatch.setattr("agentcore.judge.host_load.HostLoadWatch.stop", lambda watch: quiet)
    problem = bench.problem(workloads=[workload(axes={"n": 65536})])
    declared = ", ".join(p.declaration for p in parameters(problem.definition, Language.CPP))
    samples = bench.judge_kernel(STUMBLES.replace("DECLARED", declared), problem).workloads[0].samples_us
    assert sum(us > 2 * min(samples) for us in samples) >= 2, samples

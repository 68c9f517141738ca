"""Whatever goes wrong with the judge or its host frees the device and leaves the next evaluation unharmed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partialmethod
from pathlib import Path

import pytest

from agentcore.judge.evaluate import Judge
from agentcore.judge.service import JudgeDied, JudgeTimeout
from agentcore.sandbox import MIB, Sandbox, SandboxProcess
from agentcore.vocabulary import CheckName, HardwareName, Verdict
from tests.judge.conftest import (
    DOUBLE,
    DOUBLE_KERNEL,
    Bench,
    candidates_of,
    failing,
    wait_until,
    while_a_candidate_runs,
    whole_kernel,
    workload,
    write_problem,
)
from tests.judge.yard import Yard, device_is_free


def while_judging(yard: Yard, then: Callable[[int], None]) -> AbstractContextManager[set[int]]:
    """Does something to the judge once a candidate is running; yields the pids that were alive then."""
    yard.is_unharmed()
    return while_a_candidate_runs(yard.service.pid or 0, then, after_s=0.2)


HANG = "if (x) for (;;) usleep(1000);"


def test_a_judge_that_is_killed_frees_the_device(yard: Yard) -> None:
    """As a judge is whose device falls off the bus."""
    hang = yard.kernel(HANG)
    with while_judging(yard, lambda pid: os.kill(pid, signal.SIGKILL)) as seen, pytest.raises(
        JudgeDied, match=r"ended \(status -9\)"
    ):
        yard.judge(hang, call_timeout_s=60)
    assert len(seen) > 2 and wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in seen))
    yard.is_unharmed()
    assert yard.service.pid not in seen


def test_a_judge_that_hangs_is_ended_at_the_deadline_and_frees_the_device(yard: Yard) -> None:
    """As one does in a driver that never returns: it answers no signal but the last."""
    hang = yard.kernel(HANG)
    for deadline_s in (2, 6, 15, 40):  # a busy machine gets no further by the first than to the build
        with while_judging(yard, lambda pid: os.kill(pid, signal.SIGSTOP)) as seen, pytest.raises(JudgeTimeout):
            yard.judge(hang, call_timeout_s=60, deadline_s=deadline_s)
        if seen:
            break
    assert len(seen) > 2 and wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in seen))
    yard.is_unharmed()


def test_a_judge_without_memory_for_the_comparison_says_so_and_blames_nobody(yard: Yard) -> None:
    large = write_problem(yard.root / "large", DOUBLE, [workload(axes={"n": 20_000_000})])
    yard.is_unharmed()
    pid = yard.service.pid
    assert pid is not None
    used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    try:
        # Inputs and outputs of four slots fit, the reference and what comparing it takes do not.
        resource.prlimit(pid, resource.RLIMIT_AS, (used + 970 * MIB, before[1]))
        result = yard.judge(yard.honest, problem=large)
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, before)
    assert result.verdict is Verdict.INFRA_ERROR, result.message
    assert "memory" in result.message.lower() and failing(result) == {CheckName.INFRASTRUCTURE}
    assert yard.service.pid == pid
    yard.is_unharmed()


FREEZES = """
import sys, time
from pathlib import Path
name, cage, deadline = sys.argv[1], Path(sys.argv[2]), time.monotonic() + 60
print("looking", flush=True)
while time.monotonic() < deadline:
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            found = comm.read_text().strip() == name
        except OSError:
            continue
        if found:
            (cage / "cgroup.procs").write_text(comm.parent.name)
            (cage / "freezer.state").write_text("FROZEN")
            sys.exit()
    time.sleep(0.02)
sys.exit("nothing of that name was seen")
"""
"""Freezes the process that calls itself so: a kernel is loaded before it is called, also where it is built."""


def test_a_candidate_that_cannot_be_killed_is_the_hosts_trouble(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hangs in the kernel, as on a device that hangs; here in a frozen cgroup of version 1, where signals wait."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists() or not os.access(freezer, os.W_OK):
        pytest.skip("no version 1 freezer cgroup here, whose processes SIGKILL does not reach")
    # In this process, where killing can be made to give up sooner than after ten seconds.
    monkeypatch.setattr(SandboxProcess, "kill_tree", partialmethod(SandboxProcess.kill_tree, timeout=1.0))
    cage = freezer / f"kernelyard-judge-{os.getpid()}"
    cage.mkdir()
    name = f"hang{os.getpid()}"
    hang = f'std::ofstream("/proc/self/comm") << "{name}"; for (;;) usleep(1000);'
    problem = bench.problem()
    kernel = "#include <fstream>\n" + whole_kernel(hang + DOUBLE_KERNEL, problem)
    try:
        # By a process of its own: a thread of this one would have to wait for the judge's while that spins.
        looking = [sys.executable, "-c", FREEZES, name, str(cage)]
        with subprocess.Popen(looking, stdout=subprocess.PIPE) as watcher:
            assert watcher.stdout is not None and watcher.stdout.readline() == b"looking\n"
            result = bench.judge_kernel(kernel, problem, call_timeout_s=2)
        assert watcher.returncode == 0
        assert result.verdict is Verdict.INFRA_ERROR, result.message
        assert "could not be killed" in result.message
        (cage / "freezer.state").write_text("THAWED")
        assert wait_until(lambda: not candidates_of(os.getpid())) and wait_until(device_is_free)
        assert bench.judge_kernel(DOUBLE_KERNEL).passed
    finally:
        (cage / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (cage / "cgroup.procs").read_text())
        cage.rmdir()


def test_a_cache_that_cannot_be_written_is_the_hosts_trouble(
    tmp_path: Path, sandbox: Sandbox, lay_cpu_rates: Callable[[Path], Path]
) -> None:
    cache = lay_cpu_rates(tmp_path / "cache")
    (cache / "builds").write_text("in the way")
    bench = Bench(tmp_path, Judge(HardwareName.CPU, cache))
    result = bench.judge_kernel(DOUBLE_KERNEL)
    assert result.verdict is Verdict.INFRA_ERROR and "build cache" in result.message
    (cache / "builds").unlink()
    result = bench.judge_kernel(DOUBLE_KERNEL)
    assert result.verdict is Verdict.PASSED, result.message

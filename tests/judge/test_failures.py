"""Whatever goes wrong in an evaluation ends in its verdict, frees the device, and leaves the next evaluation unharmed.

Through a JudgeService that stays up, as a worker's does. What GPUs add is in test_gpu_failures.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from agentcore.judge.result import EvaluationResult
from agentcore.judge.service import JudgeDied, JudgeService, JudgeTimeout
from agentcore.judge.stamp import host_uuid
from agentcore.sandbox import MIB, Sandbox, SandboxProcess, memory_mechanism
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict
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
    write_kernel,
    write_problem,
)

QUICK: dict[str, Any] = {"quick": True, "call_timeout_s": 3.0}
HEADERS = "".join(f"#include <{name}>\n" for name in ("fcntl.h", "pthread.h", "sys/mman.h", "string", "vector"))


class Yard:
    """One judge kept up, and kernels for the problem y = 2x."""

    def __init__(self, root: Path, cache_dir: Path) -> None:
        root.chmod(0o755)
        self.root, self.made = root, 0
        self.problem = write_problem(root / "problem", DOUBLE, [workload("a"), workload("b", {"n": 5000})])
        self.service = JudgeService(HardwareName.CPU, cache_dir, root / "judge.log")
        self.honest = self.kernel(DOUBLE_KERNEL)

    def kernel(self, body: str) -> Path:
        self.made += 1
        return write_kernel(self.root / f"kernel{self.made}", HEADERS + whole_kernel(body, self.problem))

    def judge(
        self, kernel: Path, language: Language = Language.CPP, *, problem: Path | None = None,
        deadline_s: float = 100, **options: Any,
    ) -> EvaluationResult:
        """A result that no busy machine has a part in."""
        for _ in range(4):
            result = self.service.evaluate(
                problem or self.problem, kernel, language, deadline_s=deadline_s, options={**QUICK, **options}
            )
            if CheckName.QUIET_DEVICE not in failing(result):
                break
        return result

    def is_unharmed(self) -> None:
        """The device is free, nothing of a candidate is left, and an honest kernel passes."""
        assert device_is_free()
        if self.service.pid is not None:
            assert wait_until(lambda: not candidates_of(self.service.pid or 0))
        result = self.judge(self.honest)
        assert result.verdict is Verdict.PASSED, result.message


def device_is_free() -> bool:
    """Whether nobody holds the lock of this host's CPU target."""
    directory = Path(tempfile.gettempdir()) / f"kernelyard-devices-{os.getuid()}"
    with (directory / f"{host_uuid()}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path, sandbox: Sandbox) -> Iterator[Yard]:
    root = tmp_path_factory.mktemp("failures")
    root.parent.chmod(0o755)
    made = Yard(root, cache_dir)
    with made.service:
        yield made


SECOND_CALL = "static int calls = 0; if (calls++ == 5) { %s }" + DOUBLE_KERNEL
FAILURES: dict[str, tuple[str, Verdict, CheckName, str]] = {
    "hangs": (SECOND_CALL % "for (;;) {}", Verdict.TIMEOUT, CheckName.IN_TIME, "did not return within 1 s"),
    "hangs, ignores every signal, with daemons": (
        SECOND_CALL % """
            for (int s = 1; s < 65; ++s) signal(s, SIG_IGN);
            for (int i = 0; i < 3; ++i) if (fork() == 0) { setsid(); if (fork() == 0) for (;;) {} _exit(0); }
            for (;;) {}
        """, Verdict.TIMEOUT, CheckName.IN_TIME, "did not return within 1 s",
    ),
    "hangs on the first call": ("if (x) for (;;) pause();", Verdict.TIMEOUT, CheckName.IN_TIME, "did not return"),
    "stops itself": (SECOND_CALL % "raise(SIGSTOP);", Verdict.TIMEOUT, CheckName.IN_TIME, "did not return"),
    "dies of a wild pointer": (
        SECOND_CALL % "*(volatile int*)8 = 1;", Verdict.RUNTIME_ERROR, CheckName.RUNS, "SIGSEGV",
    ),
    "asks to be terminated": (SECOND_CALL % "raise(SIGTERM);", Verdict.RUNTIME_ERROR, CheckName.RUNS, "SIGTERM"),
    "overflows its stack": (
        SECOND_CALL % "volatile char deep[1 << 30]; for (size_t i = 0; i < sizeof deep; i += 4096) deep[i] = 1;",
        Verdict.RUNTIME_ERROR, CheckName.RUNS, "SIGSEGV",
    ),
    "runs out of memory": (
        SECOND_CALL % "for (;;) { volatile char* p = (char*)malloc(4096); for (int i = 0; i < 4096; ++i) p[i] = 1; }",
        Verdict.RUNTIME_ERROR, CheckName.RUNS, "out of memory: ",
    ),
    "runs out of memory in its children": (
        SECOND_CALL % """
            for (int i = 0; i < 8; ++i) if (fork() == 0) {
                volatile char* p = (char*)malloc(80 << 20); for (int j = 0; j < 80 << 20; j += 512) p[j] = 1;
                for (;;) pause();
            }
            for (;;) pause();
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS, "out of memory: ",
    ),
    "runs out of memory in a file of memory": (
        SECOND_CALL % """
            int fd = memfd_create("x", 0); std::vector<char> page(1 << 20, 1);
            for (;;) if (write(fd, page.data(), page.size()) < 0) { fd = memfd_create("x", 0); }
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS, "out of memory: ",
    ),
    "cannot get memory": (
        SECOND_CALL % "return mmap(0, 1ull << 50, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 12 : 0;",
        Verdict.RUNTIME_ERROR, CheckName.RUNS, "kernel_launch returned 12",
    ),
    "writes a file that is too large": (
        SECOND_CALL % """
            int fd = open("/tmp/large", O_CREAT | O_WRONLY, 0600); std::vector<char> page(1 << 20, 1);
            for (;;) if (write(fd, page.data(), page.size()) < 0) return 28;
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS, "kernel_launch returned 28",
    ),
    "fills its /tmp": (
        SECOND_CALL % """
            std::vector<char> page(1 << 20, 1);
            for (int i = 0;; ++i) {
                int fd = open(("/tmp/" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0600);
                for (int j = 0; j < 60; ++j) if (write(fd, page.data(), page.size()) < 0) return 28;
                close(fd);
            }
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS,
        "kernel_launch returned 28",
    ),
    "forks without end": (
        SECOND_CALL % "for (;;) { pid_t p = fork(); if (p < 0) return 11; if (!p) for (;;) pause(); }",
        Verdict.RUNTIME_ERROR, CheckName.RUNS, "returned 11",
    ),
    "starts threads without end": (
        SECOND_CALL % """
            for (;;) { pthread_t t; if (pthread_create(&t, 0, [](void*) -> void* { for (;;) pause(); }, 0)) return 11; }
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS, "returned 11",
    ),
    "prints without end": (
        SECOND_CALL % "static char line[1 << 16]; for (;;) if (write(1, line, sizeof line) < 0) return 5;",
        Verdict.RUNTIME_ERROR, CheckName.RUNS, "kernel_launch returned 5",
    ),
    "closes every descriptor and goes on": (
        SECOND_CALL % "for (int fd = 0; fd < 1024; ++fd) close(fd); for (;;) pause();",
        Verdict.REWARD_HACK, CheckName.CHANNEL_INTACT, "closed its channel but is still running",
    ),
    "leaves": (SECOND_CALL % "_exit(0);", Verdict.REWARD_HACK, CheckName.CHANNEL_INTACT, ""),
}


def test_a_crash_that_comes_and_goes_is_no_proof_of_writing_to_inputs(yard: Yard) -> None:
    """In a fresh runner it would not happen at the first call, whether inputs can be written or not."""
    result = yard.judge(yard.kernel(SECOND_CALL % "abort();"))
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.RUNS}


@pytest.mark.parametrize("restore", ["", "*where = before;"], ids=["leaves it", "puts it back"])
def test_writing_to_an_input_is_told_from_any_other_crash(yard: Yard, restore: str) -> None:
    write = "volatile float* where = (float*)x; float before = *where; *where = 1;"
    result = yard.judge(yard.kernel(write + restore + DOUBLE_KERNEL))
    assert result.verdict is Verdict.REWARD_HACK and CheckName.INPUTS_INTACT in failing(result)


@pytest.mark.parametrize(("body", "verdict", "check", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failing_kernel_gets_its_verdict_and_the_next_is_unharmed(
    yard: Yard, body: str, verdict: Verdict, check: CheckName, said: str
) -> None:
    # What hangs is waited for in full; all others have time enough for a busy machine.
    limits = {"call_timeout_s": 1.0, "first_call_timeout_s": 3.0} if verdict is Verdict.TIMEOUT else {}
    result = yard.judge(yard.kernel(body), memory_bytes=400 * MIB, **limits)
    assert result.verdict is verdict, result.message
    assert check in failing(result)
    assert said in " ".join(c.message for c in result.failed_checks())
    yard.is_unharmed()


def test_the_stamp_says_how_memory_was_limited(yard: Yard) -> None:
    result = yard.judge(yard.honest)
    assert result.stamp.memory_limit == memory_mechanism()[0]
    assert result.build is not None and result.build.memory_limit == memory_mechanism()[0]


def test_a_kernel_that_needs_its_memory_is_given_it(yard: Yard) -> None:
    """What the judge shares with it, and what it holds within the limit, is not held against it."""
    body = "static char* p = (char*)malloc(150 << 20); std::memset(p, 1, 150 << 20);" + DOUBLE_KERNEL
    assert yard.judge(yard.kernel(body), memory_bytes=400 * MIB).verdict is Verdict.PASSED


def test_a_python_kernel_that_runs_out_of_memory_is_told_so(yard: Yard) -> None:
    source = "import torch\nkept = []\ndef run(x, y):\n    while True: kept.append(torch.ones(4 << 20))\n"
    kernel = write_kernel(yard.root / "greedy", source, Language.TORCH)
    result = yard.judge(kernel, Language.TORCH, memory_bytes=1500 * MIB, call_timeout_s=30)
    assert result.verdict is Verdict.RUNTIME_ERROR and "out of memory: " in result.message
    yard.is_unharmed()


def test_a_slow_first_call_is_no_failure(yard: Yard) -> None:
    """Just-in-time compilation, tables made once: what is slow once is not timed."""
    result = yard.judge(yard.kernel("static int first = usleep(1500000); (void)first;" + DOUBLE_KERNEL))
    assert result.verdict is Verdict.PASSED and all((w.latency_us or 1e9) < 1e6 for w in result.workloads)


@pytest.mark.parametrize(("wait", "slower_than_us"), [("", 0), ("usleep(250000);", 250_000)], ids=["short", "long"])
def test_very_short_and_very_long_calls_are_measured(yard: Yard, wait: str, slower_than_us: int) -> None:
    problem = write_problem(yard.root / f"sizes{slower_than_us}", DOUBLE, [workload(axes={"n": 1})])
    result = yard.judge(yard.kernel(wait + DOUBLE_KERNEL), problem=problem)
    assert result.verdict is Verdict.PASSED, result.message
    (measured,) = result.workloads
    assert measured.latency_us is not None and measured.latency_us > slower_than_us
    assert measured.latency_us < slower_than_us + 100_000


def test_a_result_larger_than_any_pipe_buffer_arrives(yard: Yard) -> None:
    problem = write_problem(yard.root / "many", DOUBLE, [workload(f"w{i}", {"n": 16 + i}) for i in range(20)])
    prints = yard.kernel(  # six bytes of JSON for each byte of the log
        "static std::string log(40000, '\\1'); static auto written = write(2, log.data(), log.size()); (void)written;"
        + DOUBLE_KERNEL
    )
    result = yard.judge(prints, problem=problem)
    assert result.verdict is Verdict.PASSED, result.message
    assert len(result.workloads) == 20 and len(result.model_dump_json()) > 150_000


# -- the judge itself


def while_judging(yard: Yard, then: Callable[[int], None]) -> AbstractContextManager[set[int]]:
    """Does something to the judge once a candidate is running; yields the pids that were alive then."""
    yard.is_unharmed()
    return while_a_candidate_runs(yard.service.pid or 0, then, after_s=0.2)


HANG = "if (x) for (;;) usleep(1000);"


def test_a_judge_that_is_killed_frees_the_device(yard: Yard) -> None:
    """As a judge is whose device falls off the bus."""
    hang = yard.kernel(HANG)
    with while_judging(yard, lambda pid: os.kill(pid, signal.SIGKILL)) as seen, pytest.raises(JudgeDied):
        yard.judge(hang, call_timeout_s=60)
    assert len(seen) > 2 and wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in seen))
    yard.is_unharmed()
    assert yard.service.pid not in seen


def test_a_judge_that_hangs_is_ended_at_the_deadline_and_frees_the_device(yard: Yard) -> None:
    """As one does in a driver that never returns: it answers no signal but the last."""
    hang = yard.kernel(HANG)
    for deadline_s in (5, 10, 20, 40):  # a busy machine gets no further by the first than to the build
        with while_judging(yard, lambda pid: os.kill(pid, signal.SIGSTOP)) as seen, pytest.raises(JudgeTimeout):
            yard.judge(hang, call_timeout_s=60, deadline_s=deadline_s)
        if seen:
            break
    assert len(seen) > 2 and wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in seen))
    yard.is_unharmed()


def test_a_judge_without_memory_for_the_comparison_says_so_and_blames_nobody(yard: Yard) -> None:
    large = write_problem(yard.root / "large", DOUBLE, [workload(axes={"n": 60_000_000})])
    yard.is_unharmed()
    pid = yard.service.pid
    assert pid is not None
    used = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.prlimit(pid, resource.RLIMIT_AS)
    try:
        # Inputs and outputs of four slots fit, the reference and what comparing it takes do not.
        resource.prlimit(pid, resource.RLIMIT_AS, (used + 2900 * MIB, before[1]))
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
    monkeypatch.setattr(SandboxProcess, "kill_tree", partialmethod(SandboxProcess.kill_tree, timeout=2.0))
    cage = freezer / f"kernelyard-judge-{os.getpid()}"
    cage.mkdir()
    name = f"hang{os.getpid()}"
    hang = f'std::ofstream("/proc/self/comm") << "{name}"; for (;;) usleep(1000);'
    problem = bench.problem()
    kernel = "#include <fstream>\n" + whole_kernel(hang + DOUBLE_KERNEL, problem)
    try:
        # By a process of its own: a thread of this one would have to wait for the judge's, which spins.
        with subprocess.Popen([sys.executable, "-c", FREEZES, name, str(cage)]) as freezer_of_it:
            result = bench.judge_kernel(kernel, problem, call_timeout_s=3)
        assert freezer_of_it.returncode == 0
        assert result.verdict is Verdict.INFRA_ERROR, result.message
        assert "could not be killed" in result.message
        (cage / "freezer.state").write_text("THAWED")
        assert wait_until(lambda: not candidates_of(os.getpid())) and device_is_free()
        assert bench.judge_kernel(DOUBLE_KERNEL).passed
    finally:
        (cage / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (cage / "cgroup.procs").read_text())
        cage.rmdir()


def test_a_cache_that_cannot_be_written_is_the_hosts_trouble(yard: Yard, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for file in yard.service.cache_dir.glob("cpu-rates-*.json"):
        (cache / file.name).write_bytes(file.read_bytes())
    (cache / "builds").write_text("in the way")
    with JudgeService(HardwareName.CPU, cache) as service:
        result = service.evaluate(yard.problem, yard.honest, Language.CPP, deadline_s=100, options=QUICK)
        assert result.verdict is Verdict.INFRA_ERROR and "build cache" in result.message
        (cache / "builds").unlink()
        for _ in range(3):
            result = service.evaluate(yard.problem, yard.honest, Language.CPP, deadline_s=100, options=QUICK)
            if CheckName.QUIET_DEVICE not in failing(result):
                break
        assert result.verdict is Verdict.PASSED, result.message


# -- other people's work on the same host

LOADS = {
    "spinning": "while True: pass",
    "in bursts": "import time\nwhile True:\n end = time.time() + .03\n while time.time() < end: pass\n time.sleep(.03)",
    "through memory": "full = bytearray(48 << 20)\nwhile True: bytes(full)",
    "starting programs": "import subprocess\nwhile True: subprocess.run(['/bin/true'])",
}


@pytest.mark.slow
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_on_a_busy_machine_nobody_is_accused(yard: Yard, load: str) -> None:
    """The load has the judge's own priority, where that is ours to give. No verdict is fine; a wrong one is not."""
    niceness = ["nice", "-n", "-15"] if os.geteuid() == 0 else []
    busy = [subprocess.Popen([*niceness, sys.executable, "-c", load]) for _ in range(4)]
    try:
        seen = [
            yard.service.evaluate(yard.problem, yard.honest, Language.CPP, deadline_s=100, options={"quick": True})
            for _ in range(5)
        ]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    for result in seen:
        assert result.verdict in (Verdict.PASSED, Verdict.INFRA_ERROR), result.message
    yard.is_unharmed()

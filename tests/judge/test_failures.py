"""Whatever goes wrong with a kernel ends in its verdict, frees the device, and leaves the next evaluation unharmed.

Through a JudgeService that stays up, as a worker's does. What GPUs add is in test_gpu_failures.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agentcore.sandbox import MIB, Sandbox, memory_mechanism
from agentcore.vocabulary import CheckName, Language, Verdict
from tests.judge.conftest import DOUBLE, DOUBLE_KERNEL, failing, workload, write_kernel, write_problem
from tests.judge.yard import Yard

SECOND_CALL = "static int calls = 0; if (calls++ == 5) { %s }" + DOUBLE_KERNEL
FAILURES: dict[str, tuple[str, Verdict, CheckName, str]] = {
    "hangs": (SECOND_CALL % "for (;;) {}", Verdict.TIMEOUT, CheckName.IN_TIME, "did not return within 0.4 s"),
    "hangs, ignores every signal, with daemons": (
        SECOND_CALL % """
            for (int s = 1; s < 65; ++s) signal(s, SIG_IGN);
            for (int i = 0; i < 3; ++i) if (fork() == 0) { setsid(); if (fork() == 0) for (;;) {} _exit(0); }
            for (;;) {}
        """, Verdict.TIMEOUT, CheckName.IN_TIME, "did not return within 0.4 s",
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
            int fd = memfd_create("x", 0); static char page[1 << 20] = {1};
            for (;;) if (write(fd, page, sizeof page) < 0) { fd = memfd_create("x", 0); }
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS, "out of memory: ",
    ),
    "cannot get memory": (
        SECOND_CALL % "return mmap(0, 1ull << 50, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 12 : 0;",
        Verdict.RUNTIME_ERROR, CheckName.RUNS, "kernel_launch returned 12",
    ),
    "writes a file that is too large": (
        SECOND_CALL % """
            int fd = open("/tmp/large", O_CREAT | O_WRONLY, 0600); static char page[1 << 20] = {1};
            for (;;) if (write(fd, page, sizeof page) < 0) return 28;
        """, Verdict.RUNTIME_ERROR, CheckName.RUNS, "kernel_launch returned 28",
    ),
    "fills its /tmp": (
        SECOND_CALL % """
            static char page[1 << 20] = {1}, name[32];
            for (int i = 0;; ++i) {
                snprintf(name, sizeof name, "/tmp/%d", i);
                int fd = open(name, O_CREAT | O_WRONLY, 0600);
                for (int j = 0; j < 60; ++j) if (write(fd, page, sizeof page) < 0) return 28;
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


@pytest.fixture(scope="module")
def _built_ahead(yard: Yard, sandbox: Sandbox, request: pytest.FixtureRequest) -> None:
    """What this run has selected of the failing kernels."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    yard.build_ahead({body for item in items if (body := item.callspec.params.get("body"))}, sandbox)


@pytest.mark.usefixtures("_built_ahead")
@pytest.mark.parametrize(("body", "verdict", "check", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failing_kernel_gets_its_verdict_and_the_next_is_unharmed(
    yard: Yard, body: str, verdict: Verdict, check: CheckName, said: str
) -> None:
    # What hangs is waited for in full, and whichever call is late is said to be; others have time for a busy machine.
    limits = {"call_timeout_s": 0.4, "first_call_timeout_s": 2.0} if verdict is Verdict.TIMEOUT else {}
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
    result = yard.judge(yard.kernel("static int first = usleep(700000); (void)first;" + DOUBLE_KERNEL))
    assert result.verdict is Verdict.PASSED and all((w.latency_us or 1e9) < 5e5 for w in result.workloads)


@pytest.mark.parametrize(("wait", "slower_than_us"), [("", 0), ("usleep(120000);", 120_000)], ids=["short", "long"])
def test_very_short_and_very_long_calls_are_measured(yard: Yard, wait: str, slower_than_us: int) -> None:
    problem = write_problem(yard.root / f"sizes{slower_than_us}", DOUBLE, [workload(axes={"n": 1})])
    result = yard.judge(yard.kernel(wait + DOUBLE_KERNEL), problem=problem)
    assert result.verdict is Verdict.PASSED, result.message
    (measured,) = result.workloads
    assert measured.latency_us is not None and measured.latency_us > slower_than_us
    assert measured.latency_us < slower_than_us + 100_000


def test_a_result_larger_than_any_pipe_buffer_arrives(yard: Yard) -> None:
    problem = write_problem(yard.root / "many", DOUBLE, [workload(f"w{i}", {"n": 16 + i}) for i in range(3)])
    prints = yard.kernel(  # six bytes of JSON for each byte of the log
        "static char log[40000]; std::memset(log, 1, sizeof log); static auto written = write(2, log, sizeof log);"
        "(void)written;"
        + DOUBLE_KERNEL
    )
    result = yard.judge(prints, problem=problem)
    assert result.verdict is Verdict.PASSED, result.message
    assert len(result.workloads) == 3 and len(result.model_dump_json()) > 150_000


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
            for _ in range(3)
        ]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    for result in seen:
        assert result.verdict in (Verdict.PASSED, Verdict.INFRA_ERROR), result.message
    yard.is_unharmed()

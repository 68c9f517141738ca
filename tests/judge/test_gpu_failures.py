"""Whatever goes wrong on a GPU ends in its verdict, gives the device and its memory back, and harms no later kernel.

Through a JudgeService that stays up, as a worker's does; what needs no device is in test_failures.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from agentcore.build import build
from agentcore.judge.cuda_target import device_nodes
from agentcore.judge.devices import gpus
from agentcore.judge.result import EvaluationResult
from agentcore.judge.service import JudgeDied, JudgeService, JudgeTimeout
from agentcore.problems import load_problem
from agentcore.sandbox import GIB, Limits, Sandbox
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict
from tests.judge.conftest import (
    DOUBLE,
    candidates_of,
    failing,
    wait_until,
    while_a_candidate_runs,
    workload,
    write_kernel,
    write_problem,
)

pytestmark = pytest.mark.gpu

HONEST = r"""
#include "problem.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
__global__ void twice(const float* x, float* y, int64_t n, int call) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) { DEVICE; y[i] = 2.0f * x[i]; }
}
static int calls = 0;
extern "C" int kernel_launch(const float* x, float* y, int64_t n, cudaStream_t stream) {
    const int call = calls++;
    BEFORE;
    if (n) twice<<<unsigned((n + 255) / 256), 256, 0, stream>>>(x, y, n, call);
    AFTER;
    return cudaGetLastError() != cudaSuccess;
}
"""
FOREVER = "while (*(volatile const float*)x != 12345.0f) {}"
QUICK: dict[str, Any] = {"quick": True, "call_timeout_s": 4.0, "memory_bytes": 6 * GIB}


def source(device: str = "", before: str = "", after: str = "") -> str:
    return HONEST.replace("DEVICE;", device).replace("BEFORE;", before).replace("AFTER;", after)


NOT_RUN = (Verdict.RUNTIME_ERROR,)
SOURCES: dict[str, tuple[str, tuple[Verdict, ...], str]] = {
    "hangs at once": (source(FOREVER), (Verdict.TIMEOUT,), ""),
    "hangs behind the gate": (source(f"if (call == 6) {FOREVER}"), (Verdict.TIMEOUT,), ""),
    "hangs, its host too, with daemons": (
        source(f"if (call == 1) {FOREVER}", after="""
            if (call == 1) {
                for (int s = 1; s < 65; ++s) signal(s, SIG_IGN);
                for (int i = 0; i < 3; ++i) if (fork() == 0) { setsid(); for (;;) pause(); }
                for (;;) {}
            }
        """), (Verdict.TIMEOUT,), "",
    ),
    "dies while its kernel hangs": (
        source(f"if (call == 1) {FOREVER}", after="if (call == 1) abort();"), NOT_RUN, "SIGABRT",
    ),
    "reads what is not there": (source("if (call == 1) *(volatile int*)nullptr = 1;"), NOT_RUN, ""),
    "faults behind the gate": (source("if (call == 6) *(volatile int*)nullptr = 1;"), NOT_RUN, ""),
    "faults and says it did not": (
        source("if (call == 1) *(volatile int*)nullptr = 1;", after="cudaStreamSynchronize(stream); return 0;"),
        NOT_RUN, "",
    ),
    "traps": (source("if (call == 1) __trap();"), NOT_RUN, ""),
    "reads askew": (source("if (call == 1 && i == 0) ((volatile double*)((char*)y + 4))[0] = 1;"), NOT_RUN, ""),
    "launches what cannot be": (
        source(after="if (call == 1) twice<<<1, 4096, 0, stream>>>(x, y, n, call);"), NOT_RUN, "returned 1",
    ),
    "resets the device": (source(after="if (call == 1) { cudaDeviceReset(); return 0; }"), (), ""),
    "cannot get device memory": (
        source(before="""
            if (call == 1) { void* p; for (;;) if (cudaMalloc(&p, 256 << 20) != cudaSuccess) return 2; }
        """), NOT_RUN, "kernel_launch returned 2",
    ),
    "takes all device memory and goes on": (
        source(before="""
            static void* kept = 0;
            for (size_t size = size_t(1) << 33; !kept && size > (1 << 20);) {
                void* p = 0;
                if (cudaMalloc(&p, size) != cudaSuccess) { cudaGetLastError(); size /= 2; continue; }
                cudaMemsetAsync(p, 1, size, stream);
            }
            cudaStreamSynchronize(stream); kept = &kept;
        """), (Verdict.PASSED, Verdict.INFRA_ERROR, Verdict.RUNTIME_ERROR, Verdict.TIMEOUT), "",
    ),
    "runs out of host memory": (
        source(before="""
            if (call == 1) for (;;) {
                volatile char* p = (char*)malloc(1 << 20);
                for (int at = 0; at < 1 << 20; at += 512) p[at] = 1;
            }
        """), NOT_RUN, "out of memory: ",
    ),
    "leaves": (source(after="if (call == 3) _exit(0);"), (Verdict.REWARD_HACK,), ""),
    "is killed": (source(after="if (call == 3) raise(SIGKILL);"), NOT_RUN, "SIGKILL"),
}


class Yard:
    """One judge of this host's first GPU kept up; every kernel is compiled before the first is judged."""

    def __init__(self, root: Path, hardware: HardwareName, cache_dir: Path, sandbox: Sandbox) -> None:
        root.chmod(0o755)
        self.root, self.hardware = root, hardware
        self.problem = write_problem(root / "problem", DOUBLE, [workload(axes={"n": 1 << 18})])
        written = {"honest": source(), **{name: text for name, (text, _, _) in SOURCES.items()}}
        self.kernels = {
            name: write_kernel(root / f"kernel{number}", text, Language.CUDA)
            for number, (name, text) in enumerate(written.items())
        }
        problem = load_problem(self.problem)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            builds = pool.map(
                lambda place: build(
                    place, problem, Language.CUDA, hardware, cache_dir=cache_dir / "builds", sandbox=sandbox
                ),
                self.kernels.values(),
            )
            for name, built in zip(self.kernels, builds, strict=True):
                assert built.report.ok, f"{name}: {built.report.log}"
        self.service = JudgeService(hardware, cache_dir, root / "judge.log")
        self.used_bytes = 0

    def judge(self, name: str, *, deadline_s: float = 100, **options: Any) -> EvaluationResult:
        for _ in range(3):
            result = self.service.evaluate(
                self.problem, self.kernels[name], Language.CUDA, deadline_s=deadline_s, options={**QUICK, **options}
            )
            if CheckName.QUIET_DEVICE not in failing(result):
                break
        return result

    def is_unharmed(self) -> None:
        """Nothing of a candidate is left, an honest kernel passes, and the device has its memory back."""
        if self.service.pid is not None:
            assert wait_until(lambda: not candidates_of(self.service.pid or 0))
        result = self.judge("honest")
        assert result.verdict is Verdict.PASSED, result.message
        assert wait_until(lambda: used_bytes() < self.used_bytes + (512 << 20), 10), "device memory was not given back"


def used_bytes() -> int:
    """What is taken of the first GPU's memory, by anybody."""
    import pynvml

    pynvml.nvmlInit()
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path, sandbox: Sandbox) -> Iterator[Yard]:
    known = [gpu["hardware"] for gpu in gpus() if gpu["hardware"]]
    if not known:
        pytest.skip("no NVIDIA GPU of a known class on this host")
    root = tmp_path_factory.mktemp("gpu-failures")
    root.parent.chmod(0o755)
    made = Yard(root, HardwareName(known[0]), cache_dir, sandbox)
    with made.service:
        result = made.judge("honest")
        assert result.verdict is Verdict.PASSED, result.message
        made.used_bytes = used_bytes()
        yield made


@pytest.mark.parametrize("name", SOURCES)
def test_a_failing_kernel_gets_its_verdict_and_the_next_is_unharmed(yard: Yard, name: str) -> None:
    _, verdicts, said = SOURCES[name]
    result = yard.judge(name)
    print(f"{name}: {result.verdict} {result.seconds.get('total', 0):.1f} s: {result.message[:160]}")
    assert result.verdict in verdicts or (not verdicts and result.verdict is not Verdict.PASSED), result.message
    assert said in " ".join(c.message for c in result.failed_checks())
    yard.is_unharmed()


def while_hanging(yard: Yard, then: Callable[[int], None]) -> AbstractContextManager[set[int]]:
    """Does something to the judge while a candidate's kernel hangs on the device; yields the pids alive then."""
    yard.is_unharmed()
    return while_a_candidate_runs(yard.service.pid or 0, then, after_s=1.0)


def test_a_judge_that_is_killed_frees_the_device(yard: Yard) -> None:
    """As one is whose device falls off the bus; its candidate's kernel never ends by itself."""
    with while_hanging(yard, lambda pid: os.kill(pid, signal.SIGKILL)) as seen, pytest.raises(JudgeDied):
        yard.judge("hangs at once", call_timeout_s=60)
    assert len(seen) > 2 and wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in seen))
    yard.is_unharmed()


def test_a_judge_that_hangs_is_ended_at_the_deadline_and_frees_the_device(yard: Yard) -> None:
    with while_hanging(yard, lambda pid: os.kill(pid, signal.SIGSTOP)) as seen, pytest.raises(JudgeTimeout):
        yard.judge("hangs at once", call_timeout_s=60, deadline_s=8)
    assert len(seen) > 2 and wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in seen))
    yard.is_unharmed()


def test_a_candidate_sees_its_device_and_nothing_else_of_the_host(yard: Yard, sandbox: Sandbox) -> None:
    program = """
import ctypes, os
print(*sorted(os.listdir("/sys")))
print(*sorted(name for name in os.listdir("/dev") if name.startswith("nvidia")))
driver = ctypes.CDLL("libcuda.so.1")
print(driver.cuInit(0))
"""
    done = sandbox.run(
        [sys.executable, "-I", "-S", "-c", program], devices=device_nodes(0), limits=Limits(wall_s=60),
        env={"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
    )
    system, devices, status = done.stdout.decode().splitlines()
    assert set(system.split()) <= {"bus", "class", "dev", "devices", "module"} and status == "0"
    assert set(devices.split()) == {path.name for path in device_nodes(0)}

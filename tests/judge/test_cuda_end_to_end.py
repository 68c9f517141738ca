"""The whole GPU path without a GPU: the real judge and the real runner in its sandbox, around a libcuda that runs the
judge's own kernels, compiled from gate.cu, on host memory (fakecuda).

What the judge thinks of times is not looked at here: a host with two cores is no device. That is for test_gpu.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import pytest

from agentcore.judge import cuda_batches, cuda_region, cuda_runner, cuda_target, gaps
from agentcore.judge.cuda_batches import BatchTimes, NeedsHost, StillRunning
from agentcore.judge.cuda_region import FlushRegion
from agentcore.judge.cuda_runner import CudaRunner
from agentcore.judge.cuda_target import Calibration, CudaTarget
from agentcore.judge.device_page import DevicePage
from agentcore.judge.gate import GATE_SOURCE
from agentcore.judge.host_buffers import HostBuffers, SharedMemory
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import Effort, Measurement, Verifier, draw_repeated
from agentcore.judge.session import RunnerFailure, RunnerSession
from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import CheckName, CheckStatus, HardwareName, Language
from tests.judge.conftest import DOUBLE, workload, write_problem
from tests.judge.fake_libcuda import FAKE, copier_of, driver_of

REGION_BYTES, GRID = 1 << 16, 2
CALIBRATED: dict[str, Calibration] = {}
"""By the first test of this process for all of them: times are not looked at."""

KERNEL = r"""
#include <dlfcn.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
extern "C" {
extern const int ky_abi_version;
const int ky_abi_version = 1;
int ky_call(void* const* args, void* stream);
}
struct Call { const float* x; float* y; int64_t n; };
static int calls = 0, launches = 0;
template <typename T> T find(const char* name) {
    return reinterpret_cast<T>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}
static bool python(const char* source) {
    const auto ensure = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
    const auto release = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
    const auto run = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "PyRun_SimpleString"));
    const int state = ensure();
    const bool done = run(source) == 0;
    release(state);
    return done;
}
static const char* const shrink =
    "import gc\n"
    "for thing in gc.get_objects():\n"
    "    if type(thing).__name__ == 'DeviceTarget':\n"
    "        thing.region_bytes = 4096\n"
    "        thing.launches.clear()\n";
static void wait() { find<int (*)()>("cuCtxSynchronize")(); }
static void work(const Call& call) {
    for (int64_t i = 0; i < call.n; ++i) call.y[i] = 2 * call.x[i];
}
static volatile unsigned long long* page() {
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long long found = 0;
    while (std::fgets(line, sizeof line, maps))
        if (std::strstr(line, "device-page")) std::sscanf(line, "%llx", &found);
    std::fclose(maps);
    return reinterpret_cast<volatile unsigned long long*>(found);
}
static void forge_end_mark() {
    volatile unsigned long long* marks = page() + 8192 / 8;
    for (int call = 0; call < 128; ++call)
        if (marks[2 * call] && marks[2 * call + 1] != marks[2 * call]) marks[2 * call + 1] = marks[2 * call];
}
static void twice(void* given) {
    const Call call = *static_cast<Call*>(given);
    BEFORE;
    work(call);
}
int ky_call(void* const* args, void* stream) {
    static const auto launch = find<int (*)(void*, void (*)(void*), void*)>("cuLaunchHostFunc");
    auto* call = new Call{static_cast<const float*>(args[0]), static_cast<float*>(args[1]),
                          *static_cast<const int64_t*>(args[2])};
    const int status = launch(stream, twice, call);
    LAUNCHED;
    return status;
}
"""


def keyed_sum(words: npt.NDArray[np.uint32], key: int) -> int:
    """What keyed_part in gate.cu gives, written independently of it."""
    halves = np.array([key & 0xFFFFFFFF, key >> 32], dtype=np.uint64)
    masked = words.reshape(-1, 2).astype(np.uint64) ^ halves
    product = masked[:, 0] * masked[:, 1]
    return int(((product & np.uint64(0xFFFFFFFF)) ^ (product >> np.uint64(32))).sum()) & 0xFFFFFFFF


class Region:
    """The flush region in a memory file."""

    nbytes, grid = REGION_BYTES, GRID

    def __init__(self) -> None:
        self.memory = SharedMemory("region", REGION_BYTES, read_only=True)
        self.content = np.random.default_rng(7).integers(0, 2**32, REGION_BYTES // 4, dtype=np.uint32)
        self.memory.mapping[:REGION_BYTES] = self.content.tobytes()

    def hello(self) -> dict[str, int]:
        return {"clear_grid": GRID, "region_bytes": REGION_BYTES, "region_size": self.memory.size}

    def read(self, stream: object) -> None:
        pass

    def sums(self, keys: list[int]) -> list[int]:
        return [keyed_sum(self.content, key) for key in keys]


class KeptBuffers(HostBuffers):
    """In the place of CudaBuffers: what became of each, in order."""

    fates: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, layout: Layout, *_kept: object) -> None:
        super().__init__(layout)

    def release(self) -> None:
        self.fates.append(("released", self.nbytes()))
        super().close()

    def close(self) -> None:
        self.fates.append(("closed", self.nbytes()))
        super().close()


class HostTarget(CudaTarget):
    """The GPU target on host memory: everything that asks torch or the driver for a device is left out."""

    torch_device = "cpu"

    def __init__(self, fake_libcuda: Path) -> None:
        self.hardware, self.index, self.gate = HardwareName.H200, 0, fake_libcuda / "gate.cubin"
        self.copier = copier_of(fake_libcuda)
        self.region = cast(Any, Region())
        self._calibrations, self._page = CALIBRATED, None
        self.telemetry = cast(Any, SimpleNamespace(start=lambda: None))
        self.kept = cast(Any, SimpleNamespace(limit_bytes=1 << 30))

    def flush(self) -> None:
        self.finish_writing()

    def finish_writing(self) -> None:
        self.copier.wait()

    def canary_us(self) -> float:
        return 1.0


@functools.cache
def compiled(source: str) -> bytes:
    """A shared object, compiled once for all tests that ask for the same."""
    with tempfile.TemporaryDirectory() as directory:
        file, artifact = Path(directory) / "kernel.cpp", Path(directory) / "kernel.so"
        file.write_text(source)
        flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread"]
        subprocess.run(["g++", *flags, str(file), "-o", str(artifact)], check=True)
        return artifact.read_bytes()


class Yard:
    def __init__(self, root: Path, fake_libcuda: Path, sandbox: Sandbox, n: int = 500) -> None:
        self.root, self.sandbox = root, sandbox
        self.target = HostTarget(fake_libcuda)
        problem = load_problem(write_problem(root / "problem", DOUBLE, [workload(axes={"n": n})]))
        self.verifier = Verifier(problem, InputFactory(problem, "cpu"), problem.workloads[0])

    def measure(self, *, before: str = "", launched: str = "") -> Measurement:
        """What the judge finds out about a kernel with a meddling host function or launch."""
        with self.runner(before=before, launched=launched) as runner:
            return runner.measure(self.verifier)

    def runner(self, *, before: str = "", launched: str = "") -> CudaRunner:
        artifact = self.root / "kernel.so"
        artifact.write_bytes(compiled(KERNEL.replace("BEFORE;", before).replace("LAUNCHED;", launched)))
        chosen = Effort(
            batches=1, device_budget_s=0.0, long_budget_s=0.0, precision=1.0, call_timeout_s=20
        )
        return cast(CudaRunner, self.target.start(self.sandbox, Language.CUDA, artifact, chosen))


@contextlib.contextmanager
def not_stopped(_session: object) -> Iterator[SimpleNamespace]:
    """In the place of cuda_batches.stopped: this device is a part of the runner's process."""
    yield SimpleNamespace(begin=lambda: None, is_broken=lambda: False)


@pytest.fixture
def yard(
    tmp_path: Path, fake_libcuda: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> Yard:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_libcuda))
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr(cuda_batches, "stopped", not_stopped)
    monkeypatch.setattr(cuda_runner, "PATIENCE_S", 20.0)
    for module in (cuda_target, cuda_runner):
        monkeypatch.setattr(module, "CudaBuffers", KeptBuffers)
    KeptBuffers.fates.clear()
    monkeypatch.setattr(cuda_target, "TOUCHED_BYTES", (1 << 12,))
    monkeypatch.setattr(cuda_target, "CALIBRATION_BATCHES", 1)
    monkeypatch.setattr(cuda_target, "CALIBRATION_CALLS", 4)
    monkeypatch.setattr(cuda_runner, "OWN_MARK_BATCHES", 1)
    monkeypatch.setattr(cuda_runner, "MAX_SLOTS", 6)
    monkeypatch.setattr(cuda_batches, "ARRIVAL_S", 20.0)
    monkeypatch.setattr(cuda_batches, "WATCHDOG_S", 15.0)
    monkeypatch.setattr(cuda_runner, "REPEAT_SHARE", 0.0)
    monkeypatch.setattr(gaps.Around, "wrong", lambda _self: [])
    monkeypatch.setattr(gaps.Around, "charge", lambda _self: 0.0)
    return Yard(tmp_path, fake_libcuda, sandbox)


def failing(measurement: Measurement) -> set[CheckName]:
    """Without the two that compare times."""
    timed = {CheckName.CLOCK_AGREES, CheckName.QUIET_DEVICE}
    return {c.name for c in measurement.findings.checks() if c.status is CheckStatus.FAIL} - timed


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of each batch from now on."""
    batches: list[int] = []
    run = cuda_batches.Batch.run
    monkeypatch.setattr(cuda_batches.Batch, "run", lambda batch: batches.append(len(batch.order)) or run(batch))
    return batches


def test_an_honest_kernel_goes_all_the_way_and_every_pass_over_the_region_is_proven(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    sums: Callable[[list[int]], list[int]] = yard.target.region.sums
    monkeypatch.setattr(cuda_batches, "CHECKED_PASSES", 100)
    monkeypatch.setattr(yard.target.region, "sums", lambda keys: seen.append(len(keys)) or sums(keys))
    measurement = yard.measure()
    assert not failing(measurement), [c for c in measurement.findings.checks() if c.status is CheckStatus.FAIL]
    assert measurement.method == "gated" and len(measurement.samples_us) == 3
    assert len(measurement.claimed_us) == 6
    assert seen and set(seen) == {12}  # two passes of two grids for each of three pairs, one batch and the echoes


def test_inputs_are_given_again_in_workloads_drawn_for_that(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw_repeated(2) == {0, 1} and len(draw_repeated(14)) == 3
    assert len({tuple(draw_repeated(14)) for _ in range(20)}) > 1
    batches = counted(monkeypatch)
    monkeypatch.setattr(yard.verifier, "repeats", False)
    measurement = yard.measure()
    fresh = next(c for c in measurement.findings.checks() if c.name is CheckName.FRESH_EVERY_CALL)
    assert fresh.status is CheckStatus.SKIP and "other workloads" in fresh.message
    assert not failing(measurement) and len(batches) == 1


def test_memory_of_a_workload_is_for_later_runners_only(yard: Yard) -> None:
    with yard.runner() as runner:
        KeptBuffers.fates.clear()  # of the calibration
        for _ in range(3):
            runner._share(yard.verifier, writable_inputs=False)
        one = runner._kept[-1].nbytes()
        assert not KeptBuffers.fates
        yard.target.kept.limit_bytes = 2 * one
        runner._share(yard.verifier, writable_inputs=False)
        assert KeptBuffers.fates == [("closed", one)]  # the first, which this runner may still have mapped
        KeptBuffers.fates.clear()
    assert KeptBuffers.fates == [("released", one)] * 3


def test_memory_of_a_runner_that_could_not_be_killed_is_nobody_elses(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = yard.runner()
    runner._share(yard.verifier, writable_inputs=False)
    KeptBuffers.fates.clear()
    close = runner.session.close
    monkeypatch.setattr(runner.session, "close", lambda: close() and False)
    runner.close()
    assert [fate for fate, _ in KeptBuffers.fates] == ["closed"]


def test_memory_is_given_away_once_whatever_happens_in_the_middle(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given away twice it would be freed, and kept all the same: the next runner would get any file of its number.
    """
    runner = yard.runner()
    for _ in range(3):
        runner._share(yard.verifier, writable_inputs=False)
    first, second, third = runner._kept
    KeptBuffers.fates.clear()

    def failing_release() -> None:
        raise RuntimeError("the device says no")

    monkeypatch.setattr(second, "release", failing_release)
    with pytest.raises(RuntimeError, match="says no"):
        runner.close()
    runner.close()
    assert KeptBuffers.fates == [("released", each.nbytes()) for each in (first, third)]


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_and_next_to_nothing_pass(
    tmp_path: Path, yard: Yard, fake_libcuda: Path, sandbox: Sandbox, n: int
) -> None:
    small = Yard(tmp_path / "small", fake_libcuda, sandbox, n)
    measurement = small.measure()
    assert not failing(measurement) and measurement.method == "gated" and len(measurement.samples_us) == 3


def test_every_gate_opened_at_once_lets_everything_through(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the watchdog does for a kernel that waits for the device inside its call; it is timed call by call then, at
    once: no stall of a device looks like that.
    """
    monkeypatch.setattr(cuda_batches, "WATCHDOG_S", 1.0)
    tries = counted(monkeypatch)
    measurement = yard.measure(launched="wait();")
    assert not failing(measurement), [c for c in measurement.findings.checks() if c.status is CheckStatus.FAIL]
    assert measurement.method == "wall" and len(measurement.samples_us) == 6 and tries == [6]
    steady = next(c for c in measurement.findings.checks() if c.name is CheckName.STEADY_WORK)
    assert steady.status is CheckStatus.SKIP


@pytest.mark.parametrize("stall", ["first batch", "second batch", "both"])
def test_a_device_that_stalls_once_leaves_a_kernel_timed_as_before(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, stall: str
) -> None:
    """After two warm-up calls: in the second pair, or in that of the next batch; in one after another."""
    monkeypatch.setattr(cuda_runner, "PATIENCE_S", 2.0)
    tries = counted(monkeypatch)
    calls = {"first batch": "calls == 5", "second batch": "calls == 11", "both": "calls == 5 || calls == 9"}[stall]
    measurement = yard.measure(before=f"++calls; if ({calls}) usleep(3000000);")
    assert not failing(measurement), [c for c in measurement.findings.checks() if c.status is CheckStatus.FAIL]
    if stall == "both":
        assert measurement.method == "wall" and tries == [6, 6]
    else:
        assert measurement.method == "gated" and len(measurement.samples_us) == 3
        assert tries == [6] * (4 if stall == "first batch" else 5)  # what stalled, and a batch and two with repeats


def test_a_runner_that_reads_less_than_the_region_cannot_give_its_sum(yard: Yard) -> None:
    measurement = yard.measure(launched="static const bool patched = python(shrink); (void)patched;")
    assert failing(measurement) == {CheckName.STEADY_WORK}
    assert "was not read" in measurement.findings.message()


def test_work_that_ends_behind_the_end_mark_is_found(yard: Yard) -> None:
    measurement = yard.measure(
        before="if (++calls > 2) { std::thread([call] { usleep(3000); work(call); }).detach(); return; }"
    )
    assert failing(measurement) >= {CheckName.COMPLETE_ON_TIME}


LATER = """
    static Call left[64];
    static volatile int many = 0, quiet = 0;
    if (++calls > 2) {
        for (int64_t i = 0; i < call.n; ++i) call.y[i] = -1;
        quiet = 0;
        left[many] = call;
        many = many + 1;
        static const bool waits = (std::thread([] {
            for (;; usleep(10000)) {
                quiet = quiet + 1;
                if (quiet < 15) continue;
                while (many) {
                    many = many - 1;
                    work(left[many]);
                }
            }
        }).detach(), true);
        (void)waits;
        return;
    }
"""


@pytest.mark.parametrize("launched", ["", "wait();"], ids=["gated", "wall"])
def test_answers_that_come_while_references_are_worked_out_are_not_those_that_calls_gave(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, launched: str
) -> None:
    """Proofs and looks were compared with what stood there before that, references with what stood there afterwards."""
    monkeypatch.setattr(cuda_batches, "WATCHDOG_S", 1.0 if launched else 15.0)
    reference = yard.verifier.factory.reference

    def slow(*given: Any) -> Any:
        time.sleep(0.5)
        return reference(*given)

    monkeypatch.setattr(yard.verifier.factory, "reference", slow)
    found = failing(yard.measure(before=LATER, launched=launched))
    assert found & {CheckName.MATCHES_REFERENCE, CheckName.COMPLETE_ON_TIME}


def test_a_forged_end_mark_is_given_away_by_the_stamp_of_the_true_one(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    drifts: list[float] = []
    compare = BatchTimes.compare_stamps

    def comparing(self: BatchTimes, *given: Any) -> None:
        compare(self, *given)
        drifts[:] = self.drifts

    monkeypatch.setattr(BatchTimes, "compare_stamps", comparing)
    measurement = yard.measure(before="if (++calls > 2) { forge_end_mark(); usleep(50000); }")
    assert failing(measurement) >= {CheckName.COMPLETE_ON_TIME}  # it does not forge the proof
    assert len(drifts) == 3 and sorted(drifts)[1] > 10_000


def test_a_failing_launch_opens_the_gates_and_says_so(yard: Yard) -> None:
    with pytest.raises(RunnerFailure, match="kernel_launch returned 7"):
        yard.measure(launched="if (++launches > 4) return 7;")


def test_a_launch_that_fails_while_its_time_is_only_claimed_says_so(yard: Yard) -> None:
    """After two warm-up calls and three batches of six."""
    with pytest.raises(RunnerFailure, match="kernel_launch returned 7") as raised:
        yard.measure(launched="if (++launches > 20) return 7;")
    assert raised.value.kind == "error"


def region_of(fake_libcuda: Path, monkeypatch: pytest.MonkeyPatch, grid: int) -> FlushRegion:
    """The judge's own flush region over a region in a memory file, nothing loaded yet."""
    monkeypatch.setattr(cuda_region, "Driver", lambda: driver_of(fake_libcuda))
    made, fake = FlushRegion.__new__(FlushRegion), Region()
    address = ctypes.addressof(ctypes.c_char.from_buffer(fake.memory.mapping))
    made.device, made.grid, made.nbytes, made.multiprocessors = "cpu", grid, REGION_BYTES, 1
    made.memory = cast(Any, SimpleNamespace(address=address))
    return made


def test_the_judge_works_out_the_same_sums_by_a_kernel_of_its_own(
    fake_libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = region_of(fake_libcuda, monkeypatch, GRID)
    made.ready(fake_libcuda / "gate.cubin")
    keys, fake = [0, 1, 2**64 - 1, 0x0123456789ABCDEF], Region()
    assert made.sums(keys) == fake.sums(keys) and len(set(fake.sums(keys))) == len(keys)


def test_a_grid_that_would_wait_for_itself_is_refused_before_it_is_launched(
    fake_libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = region_of(fake_libcuda, monkeypatch, 3)
    with pytest.raises(RuntimeError, match=r"of the 3 blocks .* only 2 are resident"):
        made.ready(fake_libcuda / "gate.cubin")


def test_a_calibration_that_gets_no_answer_says_how_far_it_came(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_target, "CALIBRATION_S", 0.3)
    monkeypatch.setattr(yard.target, "_calibrations", {})
    monkeypatch.setattr(DevicePage, "publish", lambda *_a: 0)  # the grid is never told that the inputs are there
    expected = r"without a candidate: .* seen: grid there; missing: cache cleared, begin 0, .*behind the pair, grid"
    with pytest.raises(RunnerFailure, match=expected) as raised:
        yard.target.calibration(yard.sandbox)
    assert raised.value.kind == "host"


@pytest.mark.parametrize(
    "raised", [NeedsHost("late"), StillRunning("busy"), RunnerFailure("violation", "ran on")],
    ids=["needs host", "still running", "failure"],
)
def test_whatever_goes_wrong_in_a_calibrations_pair_is_ours_to_mend_and_nothing_keeps_the_gpu(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    left: list[bool] = []

    def failing(_target: object, session: RunnerSession, *_a: object, **_k: object) -> None:
        monkeypatch.setattr(session, "close", lambda: left.append(is_let_go(session)) or RunnerSession.close(session))
        raise raised

    def is_let_go(session: RunnerSession) -> bool:
        """What was admitted, and nobody will open now, comes to an end."""
        return session.request({"op": "idle"}, "idle", timeout_s=20)["op"] == "idle"

    monkeypatch.setattr(cuda_target, "open_pair", failing)
    monkeypatch.setattr(yard.target, "_calibrations", {})
    with pytest.raises(RunnerFailure, match=f"without a candidate: .*{raised}") as failure:
        yard.target.calibration(yard.sandbox)
    assert failure.value.kind == "host" and left == [True]


def test_a_runner_that_cannot_start_is_no_fault_of_a_candidate(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.target.calibration(yard.sandbox)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))  # no libcuda there
    with pytest.raises(RunnerFailure, match=r"without a candidate: .*libcuda") as raised:
        yard.measure()
    assert raised.value.kind == "host"


@pytest.mark.parametrize(
    ("case", "begun", "changed"),
    [
        ("claim_forged", [True] * 6, {}),
        ("delay_begin", [False, True] * 3, {}),
        ("delay_begin_within", [True, True, False, True, False, True], {}),
        ("flush_streams", [True] * 6, {"told": True}),
        ("flush_warms", [True] * 6, {"warmed": [3, 2, 5]}),
        ("left_between_pairs", [True] * 6, {"finished": 6}),
        ("reorder_marks", [True] * 6, {}),
        ("shrink_flush", [True] * 6, {"region_bytes": 4096, "summed": [False] * 12}),
    ],
)
def test_the_cases_that_patch_the_runner_still_fit_it(
    fake_libcuda: Path, case: str, begun: list[bool], changed: dict[str, Any]
) -> None:
    """One that no longer does would be an honest kernel, and be caught at nothing."""
    source = GATE_SOURCE.parents[2] / "tests" / "hacks" / "cuda" / f"{case}.cu"
    done = subprocess.run(
        [sys.executable, str(FAKE / "meddled.py"), str(GATE_SOURCE.parent / "runner"), str(source)],
        env={**os.environ, "LD_LIBRARY_PATH": str(fake_libcuda)}, capture_output=True, text=True, timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "status": 0, "begun": begun, "ended": [True] * 6, "over": [True] * 3, "region_bytes": 1 << 16, "warmed": [],
        "asked": [True] * 2, "cleared": [True] * 6, "summed": [True] * 12, "told": False, "finished": 0, **changed,
    }

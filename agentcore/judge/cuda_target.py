"""The GPU target: the device, its calibration, and fresh runners on it. What a runner is put through: cuda_runner."""

from __future__ import annotations

import contextlib
import glob
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentcore.judge.cuda_batches import (
    BatchTimes,
    NeedsHost,
    PairSteps,
    Seen,
    StillRunning,
    enqueue_request,
    new_token,
    open_pair,
    pairs,
)
from agentcore.judge.cuda_buffers import CudaBuffers, SharedAllocation
from agentcore.judge.cuda_copies import Copier, StillCopying
from agentcore.judge.cuda_glance import CudaGlance
from agentcore.judge.cuda_region import FlushRegion
from agentcore.judge.device_lock import device_lease
from agentcore.judge.device_page import DevicePage
from agentcore.judge.gaps import DRIFT_US, Expected
from agentcore.judge.gate import gate_cubin
from agentcore.judge.kept_memory import KeptMemory
from agentcore.judge.layout import Layout, Parameter
from agentcore.judge.measurement import Effort
from agentcore.judge.result import EnvironmentStamp
from agentcore.judge.session import RunnerFailure, RunnerSession
from agentcore.judge.stamp import gpu_stamp
from agentcore.judge.statistics import interquartile_mean
from agentcore.judge.telemetry import Telemetry
from agentcore.sandbox import GIB, Limits, Sandbox
from agentcore.vocabulary import HardwareName, Language

CALIBRATION_CALLS, CALIBRATION_BATCHES, CALIBRATION_S = 12, 4, 10.0
CANARY_TRIES, CANARY_USUAL = 5, 1.25
CANARY_WAIT_CYCLES = 2_000_000
COPY_TRIES = 50
KEPT_SHARE = 0.125
"""How much of the device's memory a judge keeps between runners, and how much a runner's past workloads may hold."""
PREPARE_S = 120.0
TOUCHED_BYTES = (1 << 16, 1 << 20, 1 << 23, 1 << 25, 1 << 27)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What lies around calls without a candidate, by the bytes copied to and written by each; measured in a runner that
    never loads one. ``copy_us``: what copying next to nothing takes the judge.

    Marks, and how long a gate takes to open, differ by some tenths of a µs between two runners: CudaTarget.empty.
    """

    after: dict[int, Expected]
    copy_us: float

    def expected(self, input_bytes: int, output_bytes: int, empty: Expected) -> Expected:
        """What to expect around a call: what was measured for its sizes, and this runner's ``empty`` calls."""
        written = self._of(output_bytes)
        return Expected(
            opening=empty.opening, gap=written.gap, tail=written.tail, clearing=self._clearing(input_bytes),
            longer=written.longer, longest=self.after[max(self.after)].longer,
            least_gap=empty.gap, least_tail=empty.tail,
            drift=empty.drift if self._stamps_agree() else math.nan, returning=empty.returning,
        )

    def _stamps_agree(self) -> bool:
        """Whether stamps and marks tell the same of calls of all lengths: a clock that ticks too coarsely does not."""
        drifts = [expected.drift for expected in self.after.values()]
        return max(drifts) - min(drifts) <= DRIFT_US

    def _clearing(self, nbytes: int) -> float:
        """Along a line between the sizes measured: what was copied is written back, up to the cache's size."""
        return float(np.interp(nbytes, sorted(self.after), [self.after[size].clearing for size in sorted(self.after)]))

    def _of(self, nbytes: int) -> Expected:
        larger = [size for size in self.after if size >= nbytes]
        return self.after[min(larger) if larger else max(self.after)]


class CudaTarget:
    """One GPU (the first visible to this process) as the judge uses it. Needs torch with CUDA, and nvcc once."""

    torch_device = "cuda"
    builds_disturb = False

    def __init__(self, hardware: HardwareName, cache_dir: Path) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError(f"{hardware} needs an NVIDIA GPU and a torch built with CUDA; this host has none")
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.hardware = hardware
        self.index = int(os.environ.get("KERNELYARD_GPU_INDEX", "0"))
        self.telemetry = Telemetry(self.index)
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.gate = gate_cubin(hardware, cache_dir)
        with device_lease(self.device_uuid):  # another judge may be timing
            self._flush = torch.zeros(2 * self.l2_bytes // 4, dtype=torch.float32, device="cuda")
            self.region = FlushRegion(self.gate, 2 * self.l2_bytes)
            torch.cuda.synchronize()
        self.copier = Copier(self.region.driver, self.region.copying)
        self.glance = CudaGlance(self.region.driver, self.gate.read_bytes(), self.region.multiprocessors)
        whole_bytes = torch.cuda.get_device_properties(0).total_memory
        self.kept = KeptMemory(SharedAllocation, int(KEPT_SHARE * whole_bytes))
        self._calibrations: dict[str, Calibration] = {}
        self._page: DevicePage | None = None
        self._best_canary_us = float("inf")

    @property
    def device_uuid(self) -> str:
        return self.telemetry.device["device_uuid"]

    def flush(self) -> None:
        """Wait, and read twice the L2 through from the judge's own context: what it wrote leaves the cache."""
        self.finish_writing()
        self._flush.sum()
        torch.cuda.synchronize()

    def finish_writing(self) -> None:
        """Wait for what the judge has begun; then no line of the L2 is kept longer than others, whoever asked."""
        torch.cuda.synchronize()
        self.copier.wait()
        self.copier.reset()

    def clear_held(self) -> None:
        """Begin to clear the cache of what the judge has just begun to copy, in the same turn on the device."""
        self.region.read(self.copier.stream)

    def page(self) -> DevicePage:
        """The page of flags, cleared. One for all runners and the calibration: where it lies in the host's memory moves
        every mark by some tenths of a µs. A runner's whole tree is dead before the next one maps it.
        """
        if self._page is None:
            self._page = DevicePage()
        self._page.reset()
        return self._page

    def retire_page(self) -> None:
        """Never use the page again: a runner that could not be killed may still write to it."""
        self._page = None

    def canary_us(self) -> float:
        """A fixed read of device memory, timed by events: slow means throttled or shared. Best of twenty.

        They wait for a kernel that keeps the device until all are enqueued, or a busy host would show in them. Slower
        than ever before, it is tried again: another context's last moments are no disturbance.
        """
        best = float("inf")
        for _ in range(CANARY_TRIES):
            events = []
            torch.cuda._sleep(CANARY_WAIT_CYCLES)  # type: ignore[no-untyped-call]
            for _ in range(20):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
                begin.record()
                self._flush.sum()
                end.record()
                events.append((begin, end))
            torch.cuda.synchronize()
            best = min(best, *(float(begin.elapsed_time(end)) * 1e3 for begin, end in events))
            self._best_canary_us = min(best, self._best_canary_us)
            if best <= CANARY_USUAL * self._best_canary_us:
                break
            time.sleep(0.005)
        return best

    def stamp(self, sandbox: str, compiler: str, canary_us: list[float]) -> EnvironmentStamp:
        return gpu_stamp(
            self.hardware, sandbox, compiler, self.telemetry.device, self.telemetry.stop(), canary_us
        )

    def session(self, sandbox: Sandbox, page: DevicePage) -> RunnerSession:
        """A runner without a candidate that has made its context and mapped the page."""
        session = self._runner(sandbox, "none", None, None)
        with closed_on_failure(session):
            self.greet(session, page)
        return session

    def prepare(self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort) -> RunnerSession:
        """A runner that has not seen the device yet, nor the candidate: what takes long before that needs neither, and
        the device can be another's meanwhile. Raises RunnerFailure.
        """
        session = self._runner(sandbox, language.value, artifact, effort.memory_bytes)
        with closed_on_failure(session), not_the_candidates(session):
            session.request({"op": "prepare", "language": language.value}, "prepared", timeout_s=PREPARE_S)
        return session

    def greet(self, session: RunnerSession, page: DevicePage) -> None:
        """Have a runner make its context, map the page and load the judge's kernels. Raises RunnerFailure."""
        with not_the_candidates(session):
            session.request(
                {"op": "hello", "gate": str(self.gate), **self.region.hello()}, "ready", timeout_s=60,
                descriptors=[page.descriptor, self.region.memory.descriptor],
            )

    def _runner(
        self, sandbox: Sandbox, language: str, artifact: Path | None, memory_bytes: int | None
    ) -> RunnerSession:
        readable = [self.gate.parent]
        if artifact is not None:
            readable.append(artifact if artifact.is_dir() else artifact.parent)
        return RunnerSession(
            sandbox, "gpu", readable=readable, devices=device_nodes(self.index), env=runner_environment(),
            limits=Limits(
                memory_bytes=memory_bytes, processes=512, file_bytes=GIB, cpu_s=1200, wall_s=1800,
                tmp_bytes=2 * GIB,
            ),
            isolated=language in ("cuda", "none"),
        )

    def start(
        self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort,
        prepared: RunnerSession | None = None,
    ) -> Any:
        """A fresh sandboxed runner with the candidate loaded, in ``prepared`` if given. Raises RunnerFailure."""
        from agentcore.judge.cuda_runner import CudaRunner

        calibration = self.calibration(sandbox)
        self.telemetry.start()
        return CudaRunner(self, sandbox, language, artifact, effort, calibration, prepared)

    def calibration(self, sandbox: Sandbox) -> Calibration:
        """Measured once per judge and sandbox kind, in a clean runner."""
        if sandbox.kind not in self._calibrations:
            page = self.page()
            with self.session(sandbox, page) as session, not_the_candidates(session):
                expected = {
                    size: Expected.of(_marks(self, session, page, size, "touch", CALIBRATION_BATCHES))
                    for size in TOUCHED_BYTES
                }
            self._calibrations[sandbox.kind] = Calibration(expected, self._copy_us())
        return self._calibrations[sandbox.kind]

    def empty(self, session: RunnerSession, page: DevicePage, batches: int) -> tuple[float, Expected]:
        """What a begin and an end mark with nothing between them cost in a runner that has loaded nothing yet, µs, and
        what lies around them there.
        """
        with not_the_candidates(session):
            times = _marks(self, session, page, TOUCHED_BYTES[0], "none", batches)
        return interquartile_mean(times.latencies), Expected.of(times)

    def _copy_us(self) -> float:
        """The least that copying a few bytes on the device takes, waiting included."""
        here, there = (torch.zeros(256, dtype=torch.uint8, device=self.torch_device) for _ in range(2))
        best = float("inf")
        for _ in range(COPY_TRIES):
            begun = time.perf_counter_ns()
            there.copy_(here)
            self.finish_writing()
            best = min(best, (time.perf_counter_ns() - begun) / 1e3)
        return best


@contextlib.contextmanager
def closed_on_failure(session: RunnerSession) -> Iterator[None]:
    """Whatever is raised inside, nothing of the runner is left."""
    try:
        yield
    except BaseException:
        session.close()
        raise


@contextlib.contextmanager
def not_the_candidates(session: RunnerSession) -> Iterator[None]:
    """What fails in a runner that has not loaded a candidate is ours to mend, but for its memory limit."""
    try:
        yield
    except RunnerFailure as failure:
        if failure.kind == "memory":
            raise
        said = f"; the runner printed {printed!r}" if (printed := session.log()[-500:]) else ""
        raise RunnerFailure("host", f"without a candidate: {failure.message}{said}") from failure


def _marks(
    target: CudaTarget, session: RunnerSession, page: DevicePage, size: int, kind: str, batches: int
) -> BatchTimes:
    """The times of some batches of calls that do nothing, or write ``size`` bytes each, after the judge has copied as
    much to each; needs no kernel loaded.
    """
    layout = Layout([Parameter("x", "output", (size // 4,), torch.float32, "float32")], CALIBRATION_CALLS)
    buffers = CudaBuffers(layout)
    source = torch.zeros(size, dtype=torch.uint8, device=target.torch_device)
    times = BatchTimes()

    def publish(pair: range) -> None:
        target.copier.copy([(buffers.data(layout.parameters[0], slot), source) for slot in pair])

    try:
        session.share(buffers, writable_inputs=False, timeout_s=30)
        for number in range(batches + 1):
            token = new_token()
            page.reset()
            target.flush()
            all_seen = []
            for pair in pairs(CALIBRATION_CALLS):
                page.admit(pair.stop)
                session.request(enqueue_request(pair, pair.start, kind, token), "enqueued", timeout_s=30)
                seen = _opened(target, session, page, pair, token, partial(publish, pair))
                all_seen.append(seen)
            session.request({"op": "idle"}, "idle", timeout_s=30)
            if number:  # the first batch warms up
                for seen in all_seen:
                    times.add_pair(seen, 0.0)
                times.compare_stamps(page, all_seen)
    finally:
        # The runner's mapping keeps the memory until its next buffers, or its end.
        buffers.close()
    return times


def _opened(
    target: CudaTarget, session: RunnerSession, page: DevicePage, pair: range, token: int, publish: Callable[[], None]
) -> Seen:
    """A pair without a candidate. Raises RunnerFailure that says how far it came."""
    why: Exception | None = None
    try:
        seen = open_pair(
            target, session, page, pair, token, PairSteps(publish), patience_s=CALIBRATION_S, timeout_s=CALIBRATION_S
        )
        if seen is not None:
            return seen
    except (StillRunning, StillCopying, NeedsHost) as error:
        why = error
    except BaseException:
        page.open_all()  # nothing must keep the GPU
        raise
    came = page.seen_of(pair, token)
    page.open_all()
    said = f": {why}" if why else f" within {CALIBRATION_S:g} s"
    try:
        session.request({"op": "idle"}, "idle", timeout_s=CALIBRATION_S)  # an error of the device says more
    except RunnerFailure as failure:
        if failure.kind != "timeout":
            raise
        came += "; nor when every gate was open"
    raise RunnerFailure("host", f"the device did not answer{said} ({came})")


def device_nodes(index: int) -> list[Path]:
    """The device files a CUDA process needs for GPU ``index``, those that exist here."""
    names = [f"/dev/nvidia{index}", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    return [Path(name) for name in names if Path(name).exists()]


def runner_environment() -> dict[str, str]:
    """What a CUDA process needs to find the driver and scratch space inside the sandbox."""
    env = {"CUDA_CACHE_PATH": "/tmp/cuda", "TRITON_CACHE_DIR": "/tmp/triton", "HOME": "/tmp"}  # noqa: S108  private there
    if path := os.environ.get("LD_LIBRARY_PATH"):
        env["LD_LIBRARY_PATH"] = path
    with contextlib.suppress(IndexError):
        env.setdefault("CUDA_HOME", sorted(glob.glob("/usr/local/cuda*"))[0])  # noqa: PTH207
    return env

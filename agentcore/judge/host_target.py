"""The CPU target: one call at a time, each with inputs that did not exist before, timed by the judge's wall clock.

Between calls the runner's whole tree is stopped. For every call the judge writes fresh inputs, poisons the outputs,
clears the caches, posts a sequence number, starts its clock and wakes the runner, which echoes the number, calls, and
posts it back. On seeing it the judge stops the clock, looks at random words of the outputs at once, stops the tree
again and takes a snapshot. Work done before the echo shows as slow waking up, work left over as unfinished outputs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from agentcore.judge.heap import keep_freed_memory
from agentcore.judge.host_buffers import HostBuffers, SharedMemory
from agentcore.judge.host_calls import (
    PROMPT_WAKE_US,
    SLOTS,
    Calls,
    CallTime,
    IntArray,
    counted_though_disturbed,
    hidden_before,
    judge_canary,
    judge_clock,
    judge_wakes,
)
from agentcore.judge.host_load import HostLoadWatch
from agentcore.judge.host_serve import serve_library
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import Effort, FirstCall, Measurement, Verifier
from agentcore.judge.result import EnvironmentStamp, HostLoad
from agentcore.judge.runner import pages
from agentcore.judge.session import RUNNER_DIR, RunnerFailure, RunnerSession
from agentcore.judge.stamp import host_stamp, host_uuid
from agentcore.sandbox import GIB, CpuTimes, Limits, Sandbox
from agentcore.vocabulary import CheckName, Language

WARM_CALLS = SLOTS
LATE_WAKE_SHARE, LATE_WAKE_US = 3.0, 50.0
"""A call that woke up later than this many times the usual, plus so much, is not counted."""
LONG_CALL_NS, LOOKS_A_LONG_CALL = 100_000_000, 2_000
"""From so long on a call is not spun on but looked for this often in as long as it has lasted, and at least every few
milliseconds: what is seen late is far below what two calls differ by, and a call that hangs burns no core."""
LONGEST_PAUSE_NS = 5_000_000


def last_level_cache_bytes() -> int:
    """The largest cache the kernel reports for CPU 0; 32 MiB where it reports none."""
    sizes = [32 << 20]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0))
    return min(max(sizes), 256 << 20)


def prefer(pid: int, nice: int = -15) -> None:
    """Ask the scheduler to leave a process alone where we may (root); a refusal only means more disturbed calls."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def split_cores() -> tuple[list[int], list[int]]:
    """(the judge's cores, the runner's cores): one for the judge, the rest for the candidate; shared if only one."""
    cores = sorted(os.sched_getaffinity(0))
    return (cores[:1], cores[1:]) if len(cores) > 1 else (cores, cores)


@contextmanager
def on_cores(cores: list[int]) -> Iterator[None]:
    """This thread, and what it starts, on ``cores``; afterwards where it was."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class HostTarget:
    """Starts runners and measures workloads on this machine's CPU. Holds the judge's own cores and eviction buffer."""

    torch_device = "cpu"
    builds_disturb = True  # a compiler takes the very cores a kernel is timed on

    def __init__(self, cache_dir: Path) -> None:
        self.judge_cores, self.runner_cores = split_cores()
        torch.set_num_threads(1)
        keep_freed_memory()
        self._eviction = torch.zeros(2 * last_level_cache_bytes() // 8, dtype=torch.int64)
        self._companions: dict[tuple[str, bool], HostRunner] = {}
        self.serve = serve_library(cache_dir)
        self._load = HostLoadWatch()
        atexit.register(self.close)

    def evict_caches(self) -> float:
        """Read twice the last-level cache through; returns how long that took, µs (it doubles as the canary)."""
        begun = time.perf_counter_ns()
        self._eviction.sum()
        return (time.perf_counter_ns() - begun) / 1e3

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """While calls are timed: on the judge's own cores, before everybody else on them."""
        before = os.getpriority(os.PRIO_PROCESS, 0)
        with on_cores(self.judge_cores):
            prefer(os.getpid())
            try:
                yield
            finally:
                prefer(os.getpid(), before)

    @property
    def device_uuid(self) -> str:
        return host_uuid()

    def stamp(self, sandbox: str, compiler: str, canary_us: list[float]) -> EnvironmentStamp:
        return host_stamp(sandbox, compiler, len(self.runner_cores), canary_us, self._load.stop())

    def prepare(self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort) -> RunnerSession | None:
        """Nothing can be done ahead: all of it would disturb whoever measures now."""
        return None

    def start(
        self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort,
        prepared: RunnerSession | None = None,
    ) -> HostRunner:
        """A fresh sandboxed runner with the candidate loaded. Raises RunnerFailure with kind and stage."""
        assert prepared is None
        self._load.start()
        return HostRunner(self, sandbox, language.value, artifact, effort)

    def close(self) -> None:
        """End the companions. Namespaces would end them with us, but there is a sandbox without any."""
        while self._companions:
            self._companions.popitem()[1].close()

    def companion(self, sandbox: Sandbox, native: bool) -> HostRunner:
        """A stopped runner without a candidate, woken before every call to learn what waking up costs just then.

        Its loop is the candidate's, native or in Python: they wake up unlike fast.
        """
        kept = self._companions.get((sandbox.kind, native))
        if kept is None or not kept.session.alive():
            if kept is not None:
                kept.close()
            kept = HostRunner(self, sandbox, "none", RUNNER_DIR, Effort(), native=native)
            kept.session.post({"op": "calls", "first": kept.sequence + 1})
            kept.session.freeze()
            self._companions[sandbox.kind, native] = kept
        return kept


class HostRunner:
    """One candidate's runner on the CPU target."""

    def __init__(
        self, target: HostTarget, sandbox: Sandbox, language: str, artifact: Path, effort: Effort, *,
        native: bool | None = None,
    ) -> None:
        self.target, self.effort, self.sandbox = target, effort, sandbox
        self.language, self.artifact = language, artifact
        self.native = language == Language.CPP if native is None else native
        serve = target.serve if self.native else None
        threads = len(target.runner_cores)
        readable = [artifact if artifact.is_dir() else artifact.parent, *([serve.parent] if serve else [])]
        with on_cores(target.runner_cores):  # inherited, and the sandbox refuses to change it
            self.session = RunnerSession(
                sandbox, "cpu", readable=readable,
                env={
                    "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
                    # torch.compile believes the CPU: trying each vector extension takes seconds of every evaluation.
                    "TORCHINDUCTOR_VEC_ISA_OK": "1",
                },
                limits=Limits(
                    # The companion runs nothing of anybody's, as long as there is a judge.
                    memory_bytes=None if language == "none" else effort.memory_bytes,
                    wall_s=None if language == "none" else 900,
                    processes=256, file_bytes=64 << 20, cpu_s=600, tmp_bytes=GIB // 4,
                ),
                isolated=language in ("cpp", "none"),
            )
        self._command = SharedMemory("command", pages.HOST_PAGE_BYTES, read_only=True)
        self._reply = SharedMemory("reply", pages.HOST_PAGE_BYTES, read_only=False)
        self.command = memoryview(self._command.mapping).cast("Q")
        self.reply = memoryview(self._reply.mapping).cast("q")
        self.sequence = 0
        self.pid = 0
        self._rested: CpuTimes | None = None
        """What the tree had used of the CPU when it was last stopped; None before its first call."""
        self._load_meanwhile: HostLoad | None = None
        """What others did on the host during the last series."""
        try:
            self.session.request(
                {"op": "hello", "serve": str(serve or "")}, "ready", timeout_s=30,
                descriptors=[self._command.descriptor, self._reply.descriptor],
            )
            path = artifact / "kernel.py" if artifact.is_dir() else artifact
            self.session.request(
                {"op": "load", "language": language, "path": str(path), "threads": threads}, "loaded",
                timeout_s=effort.first_call_timeout_s,
            )
            self.pid = next(iter(self.session.process.host_pids()), 0)
            prefer(self.pid)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.session.close()
        self._command.close()
        self._reply.close()

    def __enter__(self) -> HostRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(self, verifier: Verifier) -> Measurement:
        """A verified warm-up call per slot, then timed ones, all of them verified. Raises RunnerFailure."""
        measurement = Measurement(method="wall")
        self._rested = None
        buffers = self._share(verifier, writable_inputs=False)
        try:
            calls = Calls(self, buffers, verifier, measurement)
            watch = HostLoadWatch()
            with self.target.measuring(), self.session.process.unwatched():
                self.session.post({"op": "calls", "first": self.sequence + 1})
                self.session.freeze()
                try:
                    times = self._series(calls, measurement, watch)
                    # A busy machine looks like that too, but not twice. What has failed has failed, on any machine.
                    if not calls.ended and hidden_before(times):
                        times = self._series(calls, measurement, watch)
                    if not calls.ended:
                        calls.echoes(self.effort.call_timeout_s)
                finally:
                    self.session.thaw()
            self._end_series(measurement, calls.status)
            if not measurement.findings.failed:
                judge_clock(measurement, times)
                judge_canary(measurement)
                judge_wakes(measurement, times, self._load_meanwhile)
            return measurement
        finally:
            buffers.close()

    def _series(self, calls: Calls, measurement: Measurement, watch: HostLoadWatch) -> list[CallTime]:
        """Calls until enough of them were undisturbed, or until a finding or a status other than 0 ends it.

        A call during which the kernel took the CPU from judge or runner, or that woke up late, is verified like any
        other; what of these counts depends on what ``watch`` saw of others (`counted_though_disturbed`). Returns the
        times of every call after the warm-up.
        """
        effort = self.effort
        disturbed: list[CallTime] = []
        times: list[CallTime] = []
        measurement.samples_us.clear()
        measurement.claimed_us.clear()
        watch.start()
        begun = time.monotonic()
        for number in range(WARM_CALLS + 4 * effort.max_calls):
            timeout_s = effort.first_call_timeout_s if number == 0 else effort.call_timeout_s
            took = calls.fresh(number, timeout_s)
            if calls.ended:
                return times
            if number < WARM_CALLS:
                continue
            times.append(took)
            usual_us = statistics.median(t.companion_us for t in times)
            if took.quiet and took.wake_us <= LATE_WAKE_SHARE * usual_us + LATE_WAKE_US:
                measurement.samples_us.append(took.charged_us)
                measurement.claimed_us.append(took.claimed_us)
            else:
                disturbed.append(took)
            counted, spent = len(measurement.samples_us), time.monotonic() - begun
            if counted >= effort.max_calls or (counted >= effort.min_calls and spent > effort.budget_s):
                break
            if spent > 8 * effort.budget_s:
                break
        self._load_meanwhile = watch.stop()
        # A judge that was not running saw the echo and the end at once: what it missed is in the waking up.
        best_us = min(PROMPT_WAKE_US, *(t.companion_us for t in times))
        missing = effort.min_calls - len(measurement.samples_us)
        for late in counted_though_disturbed(disturbed, best_us, missing, self._load_meanwhile):
            measurement.samples_us.append(late.charged_against(best_us))
            measurement.claimed_us.append(late.claimed_us)
        return times

    def timed(
        self, slot: int, looks: Sequence[tuple[IntArray, IntArray, IntArray]], timeout_s: float
    ) -> CallTime:
        """Wake the stopped runner for one call on ``slot`` and stop it again, everything against the judge's clock.

        ``looks`` are (words, positions, result): outputs are looked at the moment the call is seen to have returned.
        """
        command, clock = self.command, time.perf_counter_ns
        ran = self._rested is not None and self._rested != self.session.process.cpu_times()
        before = self._preemptions()
        self.sequence += 1
        sequence = self.sequence
        command[pages.COMMAND_SLOT] = slot
        command[pages.COMMAND_SEQUENCE] = sequence
        begun = clock()
        self.session.thaw()
        self._spin(pages.REPLY_ARMED, sequence, begun, timeout_s)
        awake = clock()
        self._spin(pages.REPLY_SEQUENCE, sequence, begun, timeout_s)
        ended = clock()
        for words, positions, result in looks:
            words.take(positions, out=result)
        frozen = self.session.freeze()
        self.session.process.check_memory()
        self.rest()
        return CallTime(
            wake_us=(awake - begun) / 1e3, elapsed_us=(ended - awake) / 1e3,
            claimed_us=self.reply[pages.REPLY_CLAIMED_NS] / 1e3, quiet=self._preemptions() == before, frozen=frozen,
            ran_while_stopped=ran,
        )

    def rest(self) -> None:
        """From now on, with the tree stopped, none of it may use the CPU before the next call."""
        self._rested = self.session.process.cpu_times()

    def _preemptions(self) -> tuple[int, int]:
        """How often the kernel took the CPU from the judge and from the runner's main thread: its count, no claim."""
        own = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return own, 0
        return own, int(status.rpartition("nonvoluntary_ctxt_switches:")[2])

    def _spin(self, word: int, sequence: int, begun: int, timeout_s: float) -> None:
        """Until the runner posts ``sequence``; now and then sees that it lives and keeps silent."""
        reply, clock = self.reply, time.perf_counter_ns
        next_look = begun + 20_000_000
        while reply[word] != sequence:
            now = clock()
            if now - begun > LONG_CALL_NS:
                time.sleep(min((now - begun) // LOOKS_A_LONG_CALL, LONGEST_PAUSE_NS) / 1e9)
            if now > next_look:  # only long calls pay for this
                self.session.process.check_memory()
                if self.session.pending():
                    raise RunnerFailure("violation", "the runner sent a message nobody asked for during a call")
                if self.session.ended():
                    self.session.answer("finished", timeout_s=1)  # raises, saying how it ended
                if now - begun > timeout_s * 1e9:
                    raise RunnerFailure("timeout", f"a call did not return within {timeout_s:g} s")
                next_look = now + 20_000_000

    def _end_series(self, measurement: Measurement, status: int) -> None:
        """Release the runner from the series and hear its answer; anything unasked before that is a violation."""
        if self.session.pending() and measurement.findings.failed is False:
            raise RunnerFailure("violation", "the runner sent a message nobody asked for while calls were under way")
        self.sequence += 1 << 20
        self.command[pages.COMMAND_SEQUENCE] = self.sequence
        answer = self.session.answer("finished", timeout_s=self.effort.call_timeout_s)
        message = answer.get("message")
        if message and isinstance(message, str):
            measurement.findings.fail(CheckName.RUNS, f"the kernel raised {message[:2000]}")
        measurement.findings.record(CheckName.RUNS, not status, f"kernel_launch returned {status}" if status else "")

    def _share(self, verifier: Verifier, *, writable_inputs: bool) -> HostBuffers:
        layout = Layout.of(verifier.factory.problem, verifier.workload, verifier.scalars(), SLOTS)
        buffers = HostBuffers(layout, writable_inputs=writable_inputs)
        try:
            self.session.share(buffers, writable_inputs=writable_inputs, timeout_s=30)
        except BaseException:
            buffers.close()
            raise
        return buffers

    def first_call(self, verifier: Verifier, *, writable_inputs: bool) -> FirstCall:
        """After a crash: one call, on copies that may be written or on inputs that may not."""
        buffers = self._share(verifier, writable_inputs=writable_inputs)
        try:
            inputs = verifier.inputs(verifier.draw_seed())
            buffers.write_inputs(0, inputs)
            buffers.poison(0)
            self.session.post({"op": "calls", "first": self.sequence + 1})
            self.sequence += 1
            self.command[pages.COMMAND_SLOT] = 0
            self.command[pages.COMMAND_SEQUENCE] = self.sequence
            deadline = time.monotonic() + self.effort.first_call_timeout_s
            while self.reply[pages.REPLY_SEQUENCE] != self.sequence and self.session.alive():
                if time.monotonic() > deadline:
                    break
                time.sleep(0.001)
            returned = self.reply[pages.REPLY_SEQUENCE] == self.sequence
            return FirstCall(returned, buffers.inputs_equal(0, inputs))
        finally:
            buffers.close()

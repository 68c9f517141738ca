"""Batches of gated calls on a GPU: inputs that do not exist until after the enqueue, and a clock only the judge holds.

The runner enqueues, for every call of a batch, [gate][L2 flush, every other call][begin mark][call][end mark]. Only
then does the judge write the inputs, poison the outputs and open the gates — in two steps, pausing at a call chosen at
random after the enqueue. Every call has its own inputs and outputs, so nothing can be reused, precomputed or merged:
at the pause the later inputs do not exist yet and the earlier outputs must be complete.

A call's latency is the time between its two marks on the judge's clock, less what empty marks cost. Only calls that
follow a flush and are not followed by one count: what such a call hides behind its end mark has nowhere to go but the
next call's begin mark, whose distance is checked against the calibration.
"""

from __future__ import annotations

import random as pseudo_random
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from agentcore.judge.cuda_buffers import CudaBuffers
from agentcore.judge.cuda_content import BatchContent
from agentcore.judge.device_page import DevicePage
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import ANY_INPUT, Effort, Measurement, Verifier
from agentcore.judge.session import RunnerFailure
from agentcore.judge.statistics import estimate, interquartile_mean
from agentcore.vocabulary import CheckName, Language

random = pseudo_random.SystemRandom()

if TYPE_CHECKING:
    from agentcore.judge.cuda_target import Calibration, CudaTarget
    from agentcore.sandbox import Sandbox

MAX_SLOTS = 48
MIN_SLOTS = 6
SLOT_BUDGET_BYTES = 4 << 30
WATCHDOG_S = 3.0
MAX_BATCHES = 40
SAMPLED_CALLS = 3
ECHO_CALLS = 4
REPEAT_SHARE, REPEAT_SLACK_US = 0.7, 0.5
"""Repeated calls faster than this share of fresh ones, less so much, are answered from memory."""
HIDDEN_GAP_US, HIDDEN_FLUSH_US, HIDDEN_GAP_RATIO = 1.0, 4.0, 0.02
FLUSH_SHARE = 0.8
WRITE_BACK_BYTES_PER_US = 4e6
"""How much longer than calibrated the gap after an end mark may be before it counts as hidden work (a constant, and a
share of the call's own time), how much of a flush must be seen between calls, and how fast it writes back at least."""
DISTURBED_RATIO = 1.4
CLAIM_BELOW_US, CLAIM_ABOVE_US = 2.0, 10.0


class SelfSynchronising(Exception):
    """The candidate waits for the device inside its call, so its calls cannot be enqueued ahead."""


class CudaRunner:
    """One candidate's runner on the GPU."""

    def __init__(
        self, target: CudaTarget, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort,
        calibration: Calibration,
    ) -> None:
        self.target, self.effort, self.calibration = target, effort, calibration
        self.page = DevicePage()
        self.sequence = 0
        self.self_synchronising = False
        self._kept: list[CudaBuffers] = []
        try:
            self.session = target.session(sandbox, language.value, artifact, self.page)
        except BaseException:
            self.page.close()
            raise
        try:
            path = artifact / language.source_name if artifact.is_dir() else artifact
            self.session.request(
                {"op": "load", "language": language.value, "path": str(path)}, "loaded",
                timeout_s=effort.first_call_timeout_s,
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.session.close()
        for buffers in self._kept:
            buffers.close()
        self._kept = []
        self.page.close()

    def __enter__(self) -> CudaRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one workload --------------------------------------------------------------------------------------------

    def measure(self, verifier: Verifier) -> Measurement:
        """Two verified warm-up calls, then gated batches. Raises RunnerFailure."""
        measurement = Measurement(method="gated")
        measurement.canary_us.append(self.target.canary_us())
        buffers = self._share(verifier, writable_inputs=False)
        content = BatchContent(buffers, verifier, measurement)
        if not self._warm(content):
            return measurement
        if not self.self_synchronising:
            try:
                self._gated(content)
            except SelfSynchronising:
                self.self_synchronising = True
                measurement.samples_us.clear()
        if self.self_synchronising and not measurement.findings.failed:
            measurement.method = "slope"
            self._slope(content)
        if not measurement.findings.failed:
            self._compare_clocks(measurement, buffers.layout.slots)
        measurement.canary_us.append(self.target.canary_us())
        before, after = measurement.canary_us
        quiet = max(before, after) <= DISTURBED_RATIO * min(before, after)
        measurement.findings.record(
            CheckName.QUIET_DEVICE, quiet,
            "" if quiet else f"the canary took {before:.1f} µs before and {after:.1f} µs after: throttled or shared",
        )
        return measurement

    def _warm(self, content: BatchContent) -> bool:
        """Two ungated calls: lazy loading and JIT happen here, and plain mistakes show early."""
        findings = content.measurement.findings
        for number, slot in enumerate((0, 1)):
            content.poison()
            content.draw([slot])
            content.publish([slot])
            timeout_s = self.effort.first_call_timeout_s
            status = self.session.request({"op": "warm", "slots": [slot]}, "warm", timeout_s=timeout_s).get("status")
            returned = f"kernel_launch returned {status}"[:200]
            if not findings.record(CheckName.RUNS, status == 0, "" if status == 0 else returned):
                return False
            content.check_all([slot])
            content.check_call(slot, f"warm-up call {number}")
            if findings.failed:
                return False
        return True

    def wrote_input(self, verifier: Verifier) -> str:
        """After a crash: one call on writable copies. What it wrote to, or '' (it crashes all the same)."""
        buffers = self._share(verifier, writable_inputs=True)
        inputs = verifier.inputs(verifier.draw_seed())
        buffers.write_inputs(0, inputs)
        buffers.poison(0)
        torch.cuda.synchronize()
        returned = True
        try:
            self.session.request({"op": "warm", "slots": [0]}, "warm", timeout_s=self.effort.first_call_timeout_s)
        except RunnerFailure:
            returned = False
            self.session.close()
        # One that puts back what it wrote is given away by not crashing where writing is allowed.
        return buffers.inputs_equal(0, inputs) or (ANY_INPUT if returned else "")

    def _share(self, verifier: Verifier, *, writable_inputs: bool) -> CudaBuffers:
        while self._kept:
            self._kept.pop().close()
        problem, workload = verifier.factory.problem, verifier.workload
        one = Layout.of(problem, workload, verifier.scalars(), 1)
        slots = max(MIN_SLOTS, min(MAX_SLOTS, SLOT_BUDGET_BYTES // max(1, one.bytes_per_slot())))
        layout = Layout(one.parameters, slots)
        buffers = CudaBuffers(layout)
        self._kept.append(buffers)
        indices, sizes, descriptors = buffers.descriptors()
        self.session.request(
            {"op": "buffers", "slots": slots, "parameters": layout.describe(indices, sizes, writable_inputs)},
            "mapped", timeout_s=60, descriptors=descriptors,
        )
        return buffers

    def _gated(self, content: BatchContent) -> None:
        measurement, buffers = content.measurement, content.buffers
        gaps: list[float] = []
        flushes: list[float] = []
        order = list(range(buffers.layout.slots))
        begun = time.monotonic()
        for number in range(MAX_BATCHES):
            if number >= self.effort.batches:
                reached = estimate(measurement.samples_us, resamples=60)
                narrow = reached.high - reached.low <= 2 * self.effort.precision * reached.value
                if narrow or time.monotonic() - begun > self.effort.device_budget_s:
                    break
            random.shuffle(order)
            content.draw(order)
            batch = Batch(self, content, order)
            times = batch.run()
            # Which calls are verified is drawn after the batch has run.
            sample = len(order) if number < self.effort.batches else SAMPLED_CALLS
            if not batch.verify(random.sample(order, sample)):
                return
            measurement.samples_us += times.latencies_us
            gaps += times.gaps_us
            flushes += times.flush_gaps_us
        self._echo(content, order)
        self._judge_gaps(content, gaps, flushes)
        if not measurement.findings.failed:
            self._echo(content, order)

    def _judge_gaps(self, content: BatchContent, gaps: list[float], flushes: list[float]) -> None:
        """What lies between the calls must take what it takes without a candidate: no more, and the flush no less."""
        measurement = content.measurement
        gap_us, flush_us = self.calibration.gaps_after(sum(p.nbytes for p in content.outputs))
        hidden, flushed = interquartile_mean(gaps) - gap_us, interquartile_mean(flushes)
        share = HIDDEN_GAP_RATIO * interquartile_mean(measurement.samples_us)
        before, after = f"{hidden:+.2f} µs", f"{flushed - flush_us:+.2f} µs"
        measurement.findings.record(
            CheckName.STEADY_WORK, hidden <= HIDDEN_GAP_US + share,
            f"from an end mark to the next begin mark: {before} against the calibration, {after} with a flush between",
        )
        # A flush also writes back what a call left dirty in the cache, temporaries included: at most the whole cache.
        written_back_us = self.target.l2_bytes / WRITE_BACK_BYTES_PER_US
        if flushed > flush_us + written_back_us + HIDDEN_FLUSH_US + share:
            measurement.findings.fail(
                CheckName.STEADY_WORK, f"begin marks come late by {after}: work is hidden before the mark"
            )
        if flushed < FLUSH_SHARE * flush_us:
            measurement.findings.fail(
                CheckName.STEADY_WORK,
                f"clearing the cache between calls took {flushed:.1f} µs, without a candidate {flush_us:.1f} µs: it was"
                " tampered with",
            )

    def _echo(self, content: BatchContent, order: list[int]) -> None:
        """Two batches on the same content, almost: what a cache of results would answer from memory.

        In the second, every slot holds what it held before, half of them but for a few elements.
        """
        measurement = content.measurement
        random.shuffle(order)
        base = content.draw_same(order)
        batch = Batch(self, content, order)
        batch.run()
        if not batch.verify(order[:1]):
            return
        altered = {*order[1::4], *order[2::4]}
        content.alter(altered, base)
        batch = Batch(self, content, order)
        times = batch.run()
        if not batch.verify([slot for slot in order[:ECHO_CALLS] if slot not in altered]):
            return
        for slot in [slot for slot in order if slot in altered][:ECHO_CALLS]:
            if not content.check_echo(slot, base):
                return
        repeated, fresh = interquartile_mean(times.latencies_us), interquartile_mean(measurement.samples_us)
        cached = repeated < REPEAT_SHARE * fresh - REPEAT_SLACK_US
        measurement.findings.record(
            CheckName.FRESH_EVERY_CALL, not cached,
            f"inputs seen before are answered in {repeated:.2f} µs, new ones in {fresh:.2f} µs: results are kept"
            if cached else "",
        )

    def _slope(self, content: BatchContent) -> None:
        """Wall time of bursts of two sizes; the slope is the time of one call, launch overhead and waiting included."""
        measurement = content.measurement
        many = content.buffers.layout.slots
        few = max(1, many // 4)
        sizes = [few, many] * (self.effort.batches + 1)
        self.session.post({"op": "bursts", "first": self.sequence + 1, "count": len(sizes)})
        elapsed: list[float] = []
        for size in sizes:
            content.poison()
            content.draw(range(size))
            content.publish(range(size))
            self.target.flush()
            self.sequence += 1
            begun = time.perf_counter_ns()
            self.page.post_burst(size, self.sequence)
            limit = begun + int(self.effort.call_timeout_s * size * 1e9)
            while not self.page.burst_done(self.sequence):
                if time.perf_counter_ns() > limit:
                    limit_s = self.effort.call_timeout_s
                    raise RunnerFailure("timeout", f"{size} calls did not return within {limit_s:g} s each")
                if self.session.pending() or self.session.ended():
                    self.session.answer("finished", timeout_s=1)
                    raise RunnerFailure("error", "the kernel failed in a burst of calls")
            elapsed.append((time.perf_counter_ns() - begun) / 1e3)
            content.check_all(list(range(size)))
            if not all(content.check_call(slot, f"call {slot} of a burst") for slot in range(size)):
                break
        else:
            self.session.answer("finished", timeout_s=30)
        pairs = list(zip(elapsed[2::2], elapsed[3::2], strict=False))
        measurement.samples_us += [max(0.0, (long - short) / (many - few)) for short, long in pairs]
        why = "the kernel waits for the device inside its call: timed by slope"
        measurement.findings.skip(CheckName.STEADY_WORK, why)

    def _compare_clocks(self, measurement: Measurement, slots: int) -> None:
        self.page.reset()
        answer = self.session.request(
            {"op": "claim", "slots": list(range(min(slots, 12))), "gated": measurement.method == "gated"}, "claim",
            timeout_s=60,
        )
        claims = answer.get("latencies_us")
        plausible = isinstance(claims, list) and all(isinstance(c, float | int) and 0 <= c < 1e12 for c in claims)
        if not plausible or not claims:
            raise RunnerFailure("violation", "the runner's claim is not a list of latencies")
        measurement.claimed_us = [float(c) for c in claims]
        if measurement.method != "gated" or not measurement.samples_us:
            measurement.findings.skip(CheckName.CLOCK_AGREES, "only gated timing has a comparable clock")
            return
        judged, claimed = (interquartile_mean(s) for s in (measurement.samples_us, measurement.claimed_us))
        agrees = 0.85 * judged - CLAIM_BELOW_US <= claimed <= 1.35 * judged + CLAIM_ABOVE_US
        measurement.findings.record(
            CheckName.CLOCK_AGREES, agrees,
            "" if agrees else f"CUDA events in the runner say {claimed:.2f} µs, the judge's clock {judged:.2f} µs",
        )


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Latencies less the marks' own cost, gaps after them, and gaps that hold a flush; all µs."""

    latencies_us: list[float]
    gaps_us: list[float]
    flush_gaps_us: list[float]


class Batch:
    """One batch of gated calls, opened in two steps. ``order`` is the slot of each call."""

    def __init__(self, runner: CudaRunner, content: BatchContent, order: list[int]) -> None:
        self.runner, self.content, self.order = runner, content, order
        self.proofs: dict[int, tuple[int, bytes]] = {}

    def run(self) -> BatchTimes:
        """Enqueue, publish, open, watch. Raises RunnerFailure, and SelfSynchronising where it cannot be enqueued."""
        runner, content, order = self.runner, self.content, self.order
        size, token = len(order), secrets.randbits(62) | 1
        runner.page.reset()
        content.poison()
        torch.cuda.synchronize()
        self._enqueue(token)
        pause = 1 + secrets.randbelow(size - 2)
        begins: list[int] = []
        ends: list[int] = []
        for part in (range(pause), range(pause, size)):
            content.publish([order[call] for call in part])
            seeds = {call: secrets.randbits(63) for call in part}
            for call, seed in seeds.items():
                runner.page.set_seed(call, seed)
            runner.target.flush()
            runner.page.open_gates(part.stop)
            seen = runner.page.watch(part, token, runner.effort.call_timeout_s)
            if seen is None:
                runner.page.open_all()
                self._surface_error()
                raise RunnerFailure("timeout", f"calls did not finish within {runner.effort.call_timeout_s:g} s")
            content.look(order[part.stop - 1])
            begins += seen[0]
            ends += seen[1]
            self.proofs.update({order[c]: (seeds[c], proof) for c, proof in zip(part, seen[2], strict=True)})
            if part.stop < size:
                content.untouched(order[pause])
        runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
        marks = runner.calibration.empty_us
        counting = [i for i in range(0, size - 1, 2) if i != pause - 1]
        return BatchTimes(
            latencies_us=[max(0.0, (ends[i] - begins[i]) / 1e3 - marks) for i in counting],
            gaps_us=[(begins[i + 1] - ends[i]) / 1e3 for i in counting],
            flush_gaps_us=[(begins[i + 1] - ends[i]) / 1e3 for i in range(1, size - 1, 2) if i != pause - 1],
        )

    def verify(self, slots: list[int]) -> bool:
        """Every call's proof, look, inputs, guards and coverage; the outputs of ``slots`` against references."""
        content = self.content
        content.check_proofs(self.proofs)
        content.check_looks()
        content.check_all(self.order)
        for slot in slots:
            if not content.check_call(slot, f"call {self.order.index(slot)}"):
                break
        return not content.measurement.findings.failed

    def _enqueue(self, token: int) -> None:
        runner = self.runner
        request = {
            "op": "enqueue", "slots": self.order, "kind": "call", "token": token,
            "flush": [index % 2 == 0 for index in range(len(self.order))],
        }
        runner.session.post(request)
        try:
            answer = runner.session.answer("enqueued", timeout_s=WATCHDOG_S)
        except RunnerFailure as failure:
            if failure.kind != "timeout":
                raise
            # It waits for the device inside its call, behind a gate that only we can open.
            runner.page.open_all()
            runner.session.answer("enqueued", timeout_s=runner.effort.call_timeout_s * len(self.order))
            runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
            raise SelfSynchronising from None
        if answer.get("status"):
            runner.page.open_all()
            raise RunnerFailure("error", f"kernel_launch returned {answer['status']}"[:200])

    def _surface_error(self) -> None:
        """A device error shows at the next synchronise; a hang does not answer at all."""
        self.runner.session.request({"op": "idle"}, "idle", timeout_s=self.runner.effort.call_timeout_s)

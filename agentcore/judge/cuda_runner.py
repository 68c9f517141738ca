"""One candidate on a GPU, workload by workload: warm-up, gated batches, echoes, and the runner's own clock compared.

How one batch runs is in cuda_batches; how a kernel is timed that needs the host in its calls, in one_by_one.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from agentcore.judge.cuda_batches import PATIENCE, PATIENCE_S, Batch, BatchTimes, NeedsHost, WaitsInCall
from agentcore.judge.cuda_buffers import CudaBuffers
from agentcore.judge.cuda_content import BatchContent, held_bytes
from agentcore.judge.gaps import Around
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import Effort, FirstCall, Measurement, Verifier
from agentcore.judge.one_by_one import time_one_by_one
from agentcore.judge.session import RunnerFailure
from agentcore.judge.statistics import estimate, interquartile_mean
from agentcore.vocabulary import CheckName, Language

random = secrets.SystemRandom()

if TYPE_CHECKING:
    from agentcore.judge.cuda_target import Calibration, CudaTarget
    from agentcore.judge.session import RunnerSession
    from agentcore.sandbox import Sandbox

OWN_MARK_BATCHES = 3
MAX_SLOTS, MIN_SLOTS = 12, 6
"""Two batches of the most slots, of which half the calls count, settle the time of most short kernels."""
SLOT_BUDGET_BYTES = 10 << 30
"""Device memory for a workload's slots: inputs and outputs shared with the runner, the judge's own copies of both,
and the outputs it keeps of some pairs. References, which the first batches need for every slot at once, come on top.
"""
GATED_TRIES = 2
"""How often calls must end late before it is the candidate that needs the host: a device that stalls once looks the
same.
"""
MAX_BATCHES = 40
SAMPLED_CALLS = 3
ECHO_SLOTS, ECHO_CALLS = 8, 4
REPEAT_SHARE, REPEAT_SLACK_US = 0.7, 0.5
"""Repeated calls faster than this share of fresh ones, less so much, are answered from memory."""
DISTURBED_RATIO = 1.4
CLAIMED_CALLS = 12
CLAIM_S, CLAIM_SLOWER = 5.0, 20
"""How long claiming may take beside the calls, and how much longer a call without the judge's batches."""
CLAIM_SHARE, CLAIM_BELOW_US, CLAIM_ABOVE_US = 0.25, 1.0, 10.0
"""A claim far below is no sign of a cheat, but of a device that is not what it seems. What waits for the host is slower
in a batch, where the host has more to do between calls."""


def take_turns(order: list[int]) -> list[int]:
    """The order of the next batch's slots: those that did not count, as their pairs' second calls, come first.

    Where a slot's memory lies matters to some kernels: one read its weights in 81 µs in two slots and in 106 in the
    fourteen others. So over two batches each counts once.
    """
    first, second = order[1::2], order[::2]
    random.shuffle(first)
    random.shuffle(second)
    return [slot for pair in zip(first, second, strict=True) for slot in pair]


class CudaRunner:
    """One candidate's runner on the GPU."""

    def __init__(
        self, target: CudaTarget, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort,
        calibration: Calibration, session: RunnerSession | None = None,
    ) -> None:
        """``session``: one that target.prepare() has made."""
        self.target, self.effort, self.calibration = target, effort, calibration
        self.page = target.page()
        self.sequence = 0
        self.needs_host = False
        self.patience_s = PATIENCE_S
        self._kept: list[CudaBuffers] = []
        self._canary_us = 0.0  # behind the workload before, which is before the next
        self.session = session or target.prepare(sandbox, language, artifact, effort)
        try:
            target.greet(self.session, self.page)
            path = artifact / language.source_name if artifact.is_dir() else artifact
            self.empty_us, self.empty = target.empty(self.session, self.page, OWN_MARK_BATCHES)
            self.session.request(
                {"op": "load", "language": language.value, "path": str(path)}, "loaded",
                timeout_s=effort.first_call_timeout_s,
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        is_gone = self.session.close()
        if not is_gone:
            self.target.retire_page()
        while self._kept:
            buffers = self._kept.pop(0)  # before: whatever is raised, nothing is given away twice
            if is_gone:
                buffers.release()
            else:
                buffers.close()

    def __enter__(self) -> CudaRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one workload --------------------------------------------------------------------------------------------

    def measure(self, verifier: Verifier) -> Measurement:
        """Two verified warm-up calls, then gated batches. Raises RunnerFailure."""
        measurement = Measurement(method="gated")
        measurement.canary_us.append(self._canary_us or self.target.canary_us())
        buffers = self._share(verifier, writable_inputs=False)
        content = BatchContent(buffers, verifier, measurement, self.target.copier)
        if not self._warm(content):
            return measurement
        if not self.needs_host:
            self._gated_or_needs_host(content)
        if self.needs_host and not measurement.findings.failed:
            measurement.method = "wall"
            time_one_by_one(self, content)
        if not measurement.findings.failed:
            self._compare_clocks(measurement, buffers.layout.slots)
        self._canary_us = self.target.canary_us()
        measurement.canary_us.append(self._canary_us)
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
            content.poison([slot])
            content.draw([slot])
            content.publish([slot])
            torch.cuda.synchronize()
            timeout_s, begun = self.effort.first_call_timeout_s, time.monotonic()
            status = self.session.request({"op": "warm", "slots": [slot]}, "warm", timeout_s=timeout_s).get("status")
            self.patience_s = max(PATIENCE_S, PATIENCE * (time.monotonic() - begun))
            returned = f"kernel_launch returned {status}"[:200]
            if not findings.record(CheckName.RUNS, status == 0, "" if status == 0 else returned):
                return False
            content.check_all([slot])
            content.check_calls([slot], [f"warm-up call {number}"])
            if findings.failed:
                return False
        return True

    def first_call(self, verifier: Verifier, *, writable_inputs: bool) -> FirstCall:
        """After a crash: one call, on copies that may be written or on inputs that may not."""
        buffers = self._share(verifier, writable_inputs=writable_inputs)
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
        return FirstCall(returned, buffers.inputs_equal(0, inputs))

    def _share(self, verifier: Verifier, *, writable_inputs: bool) -> CudaBuffers:
        # Not for this runner to have again (kept_memory), and for the next as far as there is room.
        while sum(buffers.nbytes() for buffers in self._kept) > self.target.kept.limit_bytes:
            self._kept.pop(0).close()
        problem, workload = verifier.factory.problem, verifier.workload
        one = Layout.of(problem, workload, verifier.scalars(), 1)
        each, besides = held_bytes(one)
        fit = (SLOT_BUDGET_BYTES - besides) // max(1, one.bytes_per_slot() + each)
        slots = max(MIN_SLOTS, min(MAX_SLOTS, fit)) // 2 * 2
        buffers = CudaBuffers(Layout(one.parameters, slots), self.target.kept, (problem.digest, workload.uuid))
        self._kept.append(buffers)
        self.session.share(buffers, writable_inputs=writable_inputs, timeout_s=60)
        return buffers

    def _gated_or_needs_host(self, content: BatchContent) -> None:
        """Gated calls, begun anew where they seem to need the host; ``needs_host`` is set where they do every time."""
        measurement = content.measurement
        for _ in range(GATED_TRIES):
            try:
                self._gated(content)
            except NeedsHost as found:
                measurement.samples_us = []
                if measurement.findings.failed:
                    return
                if isinstance(found, WaitsInCall):
                    break
                # Grids behind the calls may still read the page, which the next batch resets.
                self.session.request({"op": "idle"}, "idle", timeout_s=self.effort.call_timeout_s)
            else:
                return
        self.needs_host = True

    def _gated(self, content: BatchContent) -> None:
        measurement, order = content.measurement, list(range(content.buffers.layout.slots))
        times = BatchTimes()
        begun = time.monotonic()
        for number in range(MAX_BATCHES):
            if number >= self.effort.batches and self._is_enough(measurement, time.monotonic() - begun):
                break
            # Which calls are verified is drawn after the batch has run.
            sample = len(order) if number < self.effort.batches else SAMPLED_CALLS
            if not self._fresh(content, order, times, sample):
                return
            measurement.samples_us = times.latencies
        self._judge_gaps(content, order, times)
        if measurement.findings.failed:
            return
        if content.verifier.repeats:
            self._echo(content, list(range(min(len(order), ECHO_SLOTS))), interquartile_mean(times.latencies))
        else:
            measurement.findings.skip(
                CheckName.FRESH_EVERY_CALL, "every counted call had inputs of its own; other workloads were repeated"
            )

    def _is_enough(self, measurement: Measurement, spent_s: float) -> bool:
        effort, reached = self.effort, estimate(measurement.samples_us, resamples=60)
        is_long = reached.value >= effort.long_us
        enough_us = max(effort.precision * reached.value, 0.0 if is_long else effort.resolution_us)
        if reached.high - reached.low <= 2 * enough_us:
            return True
        return spent_s > (effort.long_budget_s if is_long else effort.device_budget_s)

    def _fresh(self, content: BatchContent, order: list[int], times: BatchTimes, sample: int) -> bool:
        """One batch on new content, its times added to ``times``; False where something is wrong with it."""
        order[:] = take_turns(order)
        content.draw(order)
        batch = Batch(self, content, order)
        times.add(batch.run())
        return batch.verify(random.sample(order, sample))

    def _judge_gaps(self, content: BatchContent, order: list[int], times: BatchTimes) -> None:
        """What lies around the calls must take what it takes without a candidate. One odd batch convicts nobody, but
        what was found in the end is charged.
        """
        given, written = (sum(p.nbytes for p in parameters) for parameters in (content.inputs, content.outputs))
        expected = self.calibration.expected(given, written, self.empty)
        around = Around.of(times, expected)
        if around.wrong():
            again = BatchTimes()
            for _ in range(self.effort.batches):
                if not self._fresh(content, order, again, SAMPLED_CALLS):
                    return
            around = Around.of(again, expected)
            times.add(again)
        charge_us = max(around.charge(), Around.of(times, expected).charge())
        content.measurement.samples_us = [latency + charge_us for latency in times.latencies]
        wrong = around.wrong()
        content.measurement.findings.record(CheckName.STEADY_WORK, not wrong, "; ".join([*wrong, around.line()]))

    def _echo(self, content: BatchContent, order: list[int], fresh: float) -> None:
        """What a cache of results would answer from memory. A time that looks like one, against the ``fresh`` one with
        nothing charged (µs), is taken twice.
        """
        findings = content.measurement.findings
        for _ in range(2):
            repeated = self._repeated(content, order)
            if repeated is None:
                return
            if repeated >= REPEAT_SHARE * fresh - REPEAT_SLACK_US:
                findings.record(CheckName.FRESH_EVERY_CALL, True)
                return
        findings.fail(
            CheckName.FRESH_EVERY_CALL,
            f"inputs seen before are answered in {repeated:.2f} µs, new ones in {fresh:.2f} µs: results are kept",
        )

    def _repeated(self, content: BatchContent, order: list[int]) -> float | None:
        """The time of calls, µs, in the second of two batches on the same content; None where an output was wrong.

        In the second, every slot holds what it held before, half of them but for a few elements.
        """
        random.shuffle(order)
        base = content.draw_same(order)
        batch = Batch(self, content, order)
        batch.run()
        if not batch.verify(order[:1]):
            return None
        altered = {*order[1::4], *order[2::4]}
        content.alter(altered, base)
        batch = Batch(self, content, order)
        times = batch.run()
        same, near = [s for s in order if s not in altered], [s for s in order if s in altered]
        if not batch.verify(same[:ECHO_CALLS]) or not content.check_echo(near[:ECHO_CALLS], base):
            return None
        return interquartile_mean(times.latencies)

    def _compare_clocks(self, measurement: Measurement, slots: int) -> None:
        self.page.reset()
        calls = min(slots, CLAIMED_CALLS)
        slowest_us = max(measurement.samples_us, default=self.effort.call_timeout_s * 1e6)
        answer = self.session.request(
            {"op": "claim", "slots": list(range(calls)), "gated": measurement.method == "gated"}, "claim",
            timeout_s=CLAIM_S + CLAIM_SLOWER * calls * slowest_us / 1e6,
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
        agrees = CLAIM_SHARE * judged - CLAIM_BELOW_US <= claimed <= 1.35 * judged + CLAIM_ABOVE_US
        measurement.findings.record(
            CheckName.CLOCK_AGREES, agrees,
            "" if agrees else f"CUDA events in the runner say {claimed:.2f} µs, the judge's clock {judged:.2f} µs",
        )

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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from agentcore.judge.cuda_buffers import CudaBuffers
from agentcore.judge.device_page import DevicePage, proof_positions
from agentcore.judge.layout import Layout, as_bits, detects_poison, leftover
from agentcore.judge.measurement import Effort, Measurement, Verifier
from agentcore.judge.session import RunnerFailure
from agentcore.judge.statistics import estimate, interquartile_mean
from agentcore.problems.tensors import Value
from agentcore.vocabulary import CheckName, Language

random = pseudo_random.SystemRandom()

if TYPE_CHECKING:
    import numpy as np

    from agentcore.judge.cuda_target import Calibration, CudaTarget
    from agentcore.sandbox import Sandbox

MAX_SLOTS = 48
MIN_SLOTS = 6
SLOT_BUDGET_BYTES = 6 << 30
WATCHDOG_S = 3.0
MAX_BATCHES = 40
SAMPLED_CALLS = 3
HIDDEN_GAP_US, HIDDEN_GAP_RATIO = 1.0, 0.02
FLUSH_SHARE = 0.8
"""How much longer than calibrated the gap after an end mark may be before it counts as hidden work (a constant, and a
share of the call's own time), and how much of a flush must be seen between calls."""
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
        calls = _Verification(self, buffers, verifier, measurement)
        if not calls.warm():
            return measurement
        if not self.self_synchronising:
            try:
                self._gated(calls, buffers, verifier, measurement)
            except SelfSynchronising:
                self.self_synchronising = True
                measurement.samples_us.clear()
        if self.self_synchronising and not measurement.findings.failed:
            measurement.method = "slope"
            self._slope(calls, buffers, measurement)
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

    def wrote_input(self, verifier: Verifier) -> str:
        """After a crash: one call on writable copies. The name of an input it changed, or '' (it crashed otherwise)."""
        buffers = self._share(verifier, writable_inputs=True)
        inputs = verifier.inputs(verifier.draw_seed())
        buffers.write_inputs(0, inputs)
        buffers.poison(0)
        torch.cuda.synchronize()
        try:
            self.session.request({"op": "warm", "slots": [0]}, "warm", timeout_s=self.effort.first_call_timeout_s)
        except RunnerFailure:
            self.session.close()
        return buffers.inputs_equal(0, inputs)

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

    def _gated(
        self, calls: _Verification, buffers: CudaBuffers, verifier: Verifier, measurement: Measurement
    ) -> None:
        gaps: list[float] = []
        flushes: list[float] = []
        order = list(range(buffers.layout.slots))
        begun = time.monotonic()
        for number in range(MAX_BATCHES):
            if number >= self.effort.batches:
                reached = estimate(measurement.samples_us, resamples=60)
                narrow = reached.high - reached.low <= 2 * self.effort.precision * reached.value
                if narrow or time.monotonic() - begun > self.effort.budget_s + self.effort.batches * 0.1:
                    break
            random.shuffle(order)
            # Which calls are verified is drawn after the batch has run.
            sample = len(order) if number < self.effort.batches else SAMPLED_CALLS
            timing = _Batch(self, calls, order).run(sample)
            if timing is None:
                return
            measurement.samples_us += timing.latencies_us
            gaps += timing.gaps_us
            flushes += timing.flush_gaps_us
            if measurement.findings.failed:
                return
        flushed = interquartile_mean(flushes)
        if flushed < FLUSH_SHARE * self.calibration.flush_gap_us:
            measurement.findings.fail(
                CheckName.STEADY_WORK,
                f"clearing the cache between calls took {flushed:.1f} µs, without a candidate it takes"
                f" {self.calibration.flush_gap_us:.1f} µs: it was tampered with",
            )
        written = sum(p.nbytes for p in buffers.layout.outputs)
        typical = interquartile_mean(measurement.samples_us)
        hidden = interquartile_mean(gaps) - self.calibration.gap_after(written)
        steady = hidden <= HIDDEN_GAP_US + HIDDEN_GAP_RATIO * typical
        measurement.findings.record(
            CheckName.STEADY_WORK, steady,
            f"after a call's end mark the device was busy {hidden:+.2f} µs against the calibration"
            + ("" if steady else ": work is hidden behind the mark"),
        )

    def _slope(self, calls: _Verification, buffers: CudaBuffers, measurement: Measurement) -> None:
        """Wall time of bursts of two sizes; the slope is the time of one call, launch overhead and waiting included."""
        many = buffers.layout.slots
        few = max(1, many // 4)
        sizes = [few, many] * (self.effort.batches + 1)
        self.session.post({"op": "bursts", "first": self.sequence + 1, "count": len(sizes)})
        elapsed: list[float] = []
        for size in sizes:
            calls.prepare(range(size), list(range(many)))
            self.target.flush()
            self.sequence += 1
            begun = time.perf_counter_ns()
            self.page.post_burst(size, self.sequence)
            limit = begun + int(self.effort.call_timeout_s * size * 1e9)
            while not self.page.burst_done(self.sequence):
                if time.perf_counter_ns() > limit:
                    limit_s = self.effort.call_timeout_s
                    raise RunnerFailure("timeout", f"{size} calls did not return within {limit_s:g} s each")
                if self.session.pending():
                    self.session.answer("finished", timeout_s=1)
                    raise RunnerFailure("error", "the kernel failed in a burst of calls")
            elapsed.append((time.perf_counter_ns() - begun) / 1e3)
            if not calls.verify(range(size), list(range(many)), {}):
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


class _Batch:
    """One batch of gated calls, opened in two steps."""

    def __init__(self, runner: CudaRunner, calls: _Verification, order: list[int]) -> None:
        self.runner, self.calls, self.order = runner, calls, order

    def run(self, sample: int) -> BatchTimes | None:
        """Times of the calls that count and of what lies between; None if a finding ended the batch.

        ``sample`` calls, drawn after the fact, are verified, and always the one before the pause.
        """
        runner, order = self.runner, self.order
        size, token = len(order), secrets.randbits(62) | 1
        runner.page.reset()
        self.calls.poison_all()
        self._enqueue(token)
        pause = 1 + secrets.randbelow(size - 2)
        begins: list[int] = []
        ends: list[int] = []
        proofs: dict[int, tuple[int, bytes]] = {}
        for part in (range(pause), range(pause, size)):
            self.calls.prepare(part, order)
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
            begins += seen[0]
            ends += seen[1]
            proofs.update({call: (seeds[call], proof) for call, proof in zip(part, seen[2], strict=True)})
            if part.stop < size:
                self.calls.at_pause(order[pause - 1], order[pause])
        runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
        chosen = sorted({pause - 1, *random.sample(range(size), min(sample, size))})
        if not self.calls.verify(chosen, order, proofs):
            return None
        marks = runner.calibration.empty_us
        counting = [i for i in range(0, size - 1, 2) if i != pause - 1]
        return BatchTimes(
            latencies_us=[max(0.0, (ends[i] - begins[i]) / 1e3 - marks) for i in counting],
            gaps_us=[(begins[i + 1] - ends[i]) / 1e3 for i in counting],
            flush_gaps_us=[(begins[i + 1] - ends[i]) / 1e3 for i in range(1, size - 1, 2) if i != pause - 1],
        )

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


class _Verification:
    """Fresh inputs before calls, and everything that is checked after them."""

    def __init__(
        self, runner: CudaRunner, buffers: CudaBuffers, verifier: Verifier, measurement: Measurement
    ) -> None:
        self.runner, self.buffers, self.verifier, self.measurement = runner, buffers, verifier, measurement
        self.outputs = buffers.layout.outputs
        self.seeds: dict[int, int] = {}
        self.patterns: dict[int, dict[str, tuple[int, int]]] = {}
        self.snapshots: dict[int, dict[str, torch.Tensor]] = {}

    def warm(self) -> bool:
        """Two ungated calls: lazy loading and JIT happen here, and plain mistakes show early."""
        for number, slot in enumerate((0, 1)):
            self.poison(slot)
            self.prepare(range(1), [slot])
            timeout = self.runner.effort.first_call_timeout_s
            answer = self.runner.session.request({"op": "warm", "slots": [slot]}, "warm", timeout_s=timeout)
            status = answer.get("status")
            if not self.measurement.findings.record(
                CheckName.RUNS, status == 0, "" if status == 0 else f"kernel_launch returned {status}"[:200]
            ):
                return False
            if not self.verify(range(1), [slot], {}, what=f"warm-up call {number}"):
                return False
        return True

    def poison(self, slot: int) -> None:
        self.patterns[slot] = self.buffers.poison(slot)

    def poison_all(self) -> None:
        self.snapshots = {}
        for slot in range(self.buffers.layout.slots):
            self.poison(slot)
        torch.cuda.synchronize()

    def prepare(self, part: range, order: list[int]) -> None:
        """Write fresh inputs for the calls of ``part``; poison outputs that were not yet."""
        for call in part:
            slot = order[call]
            if slot not in self.patterns:
                self.poison(slot)
            self.seeds[slot] = self.verifier.draw_seed()
            self.buffers.write_inputs(slot, self.verifier.inputs(self.seeds[slot]))
        torch.cuda.synchronize()

    def at_pause(self, last: int, following: int) -> None:
        """Between the two steps: keep what the last call left, and see that the next has not begun."""
        self.snapshots[last] = {p.name: self.buffers.snapshot(p, last) for p in self.outputs}
        for p in self.outputs:
            if p.nbytes and detects_poison(p.dtype):
                bits = as_bits(self.buffers.view(p, following))
                if bool((bits != self.patterns[following][p.name][0]).any()):
                    self.measurement.findings.fail(
                        CheckName.FRESH_EVERY_CALL,
                        f"output {p.name!r} of a call was written before the call's inputs existed",
                    )
        torch.cuda.synchronize()

    def verify(
        self, part: Iterable[int], order: list[int], proofs: dict[int, tuple[int, bytes]], what: str = ""
    ) -> bool:
        """Check every call of ``part``: proofs, inputs, guards, written, reference. False after the first failure."""
        findings = self.measurement.findings
        for call in part:
            slot, label = order[call], what or f"call {call}"
            inputs = self.verifier.inputs(self.seeds[slot])
            outputs = {p.name: self.buffers.view(p, slot) for p in self.outputs}
            if call in proofs:
                self._check_proof(label, slot, *proofs[call])
            if (snapshot := self.snapshots.get(slot)) is not None:
                late = [n for n, t in snapshot.items() if not torch.equal(as_bits(t), as_bits(outputs[n]))]
                findings.record(
                    CheckName.COMPLETE_ON_TIME, not late,
                    f"{label}: output {late[0]!r} changed after the call's end mark" if late else "",
                )
            changed = self.buffers.inputs_equal(slot, inputs)
            findings.record(
                CheckName.INPUTS_INTACT, not changed, f"{label}: input {changed!r} changed" if changed else ""
            )
            broken = self.buffers.broken_guard(slot, self.patterns[slot])
            findings.record(CheckName.GUARDS_INTACT, not broken, f"{label}: {broken}" if broken else "")
            self._check_written(label, slot, inputs)
            self.verifier.check(self.measurement, inputs, outputs, label)
            if findings.failed:
                return False
        for call in part:
            self.patterns.pop(order[call], None)
        return True

    def _check_proof(self, label: str, slot: int, seed: int, proof: bytes) -> None:
        """The words the end mark carried must be the ones that stand in the outputs now."""
        import numpy as np

        candidates = self.outputs[:8]
        words = [p.nbytes // 4 for p in candidates]
        which, word = proof_positions(seed, words)
        carried: np.ndarray[tuple[int], np.dtype[np.int32]] = np.frombuffer(proof, dtype=np.int32)
        for index, p in enumerate(candidates):
            chosen = np.flatnonzero(which == index)
            if not words[index] or not len(chosen):
                continue
            raw = as_bits(self.buffers.view(p, slot)).flatten().view(torch.uint8)[: 4 * words[index]].view(torch.int32)
            now = raw[torch.from_numpy(word[chosen]).to(raw.device)].cpu().numpy()
            if not (now == carried[chosen]).all():
                self.measurement.findings.fail(
                    CheckName.COMPLETE_ON_TIME,
                    f"{label}: output {p.name!r} was not finished when its end mark appeared",
                )
                return
        self.measurement.findings.record(CheckName.COMPLETE_ON_TIME, True)

    def _check_written(self, label: str, slot: int, inputs: dict[str, Value]) -> None:
        for p in self.outputs:
            output, pattern = self.buffers.view(p, slot), self.patterns[slot][p.name][0]
            if p.nbytes and detects_poison(p.dtype) and leftover(output, pattern):
                # An integer result may be the poison's value by chance.
                reference = self.verifier.factory.reference(inputs, self.verifier.workload)[p.name]
                if left := leftover(output, pattern, reference):
                    total = output.numel()
                    message = f"{label}: {left} of {total} elements of output {p.name!r} never written"
                    self.measurement.findings.fail(CheckName.OUTPUTS_WRITTEN, message)
                    return
        self.measurement.findings.record(CheckName.OUTPUTS_WRITTEN, True)

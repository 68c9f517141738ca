"""Batches of gated calls on a GPU: inputs that do not exist until after the enqueue, and a clock only the judge holds.

The runner enqueues, for every call of a batch, [gate][L2 flush, every other call][begin mark][call][end mark]. Only
then does the judge write the inputs, poison the outputs and open the gates — in two steps, pausing at a call chosen at
random after the enqueue. Every call has its own inputs and outputs, so nothing can be reused, precomputed or merged:
at the pause the later inputs do not exist yet and the earlier outputs must be complete.

A call's latency is the time between its two marks on the judge's clock, less what empty marks cost. Only calls that
follow a flush and are not followed by one count: what such a call hides behind its end mark has nowhere to go but the
next call's begin mark, whose distance is checked against the calibration (gaps.py).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentcore.judge.cuda_content import BatchContent
from agentcore.judge.device_page import DevicePage
from agentcore.judge.session import RunnerFailure

if TYPE_CHECKING:
    from agentcore.judge.cuda_runner import CudaRunner
    from agentcore.judge.cuda_target import CudaTarget

WATCHDOG_S = 3.0
SETTLE_NS = (150_000, 350_000)
"""How long the judge leaves the GPU to the runner's gate before opening it, at random between: switching between the
two contexts must be over when the clock starts."""


class SelfSynchronising(Exception):
    """The candidate waits for the device inside its call, so its calls cannot be enqueued ahead."""


@dataclass(slots=True)
class BatchTimes:
    """µs, of one batch or several: latencies less the marks' own cost, and what lay between the calls.

    ``gaps``: end mark to next begin mark; ``flush_gaps``: the same with a flush between; ``openings`` and
    ``flush_openings``: from the opening of a gate that follows a pause, when nothing dirty is in the cache, to the
    begin mark; ``opened``: latencies of the calls after those.
    """

    latencies: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    flush_gaps: list[float] = field(default_factory=list)
    openings: list[float] = field(default_factory=list)
    flush_openings: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)

    def add(self, other: BatchTimes) -> None:
        self.latencies += other.latencies
        self.gaps += other.gaps
        self.flush_gaps += other.flush_gaps
        self.openings += other.openings
        self.flush_openings += other.flush_openings
        self.opened += other.opened

    @classmethod
    def of(
        cls, begins_ns: Sequence[int], ends_ns: Sequence[int], opened_ns: dict[int, int], marks_us: float
    ) -> BatchTimes:
        """From the marks of a batch and when the gates of its parts' first calls were opened."""
        size, starts = len(begins_ns), set(opened_ns)
        latency = [max(0.0, (end - begin) / 1e3 - marks_us) for begin, end in zip(begins_ns, ends_ns, strict=True)]
        between = {call: (begins_ns[call] - ends_ns[call - 1]) / 1e3 for call in range(1, size) if call not in starts}
        opening = {call: (begins_ns[call] - at) / 1e3 for call, at in opened_ns.items()}
        return cls(
            latencies=[latency[call] for call in range(0, size - 1, 2) if call + 1 not in starts],
            gaps=[us for call, us in between.items() if not is_flushed(call)],
            flush_gaps=[us for call, us in between.items() if is_flushed(call)],
            openings=[us for call, us in opening.items() if not is_flushed(call)],
            flush_openings=[us for call, us in opening.items() if is_flushed(call)],
            opened=[latency[call] for call in opened_ns],
        )


def is_flushed(call: int) -> bool:
    """Whether the runner flushes the cache between a call's gate and its begin mark."""
    return call % 2 == 0


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
        content.poison(order)
        self._enqueue(token)
        pause = 1 + secrets.randbelow(size - 2)
        begins: list[int] = []
        ends: list[int] = []
        opened: dict[int, int] = {}
        for part in (range(pause), range(pause, size)):
            content.publish([order[call] for call in part])
            seen = open_part(runner.target, runner.page, part, token, runner.effort.call_timeout_s)
            if seen is None:
                runner.page.open_all()
                self._surface_error()
                raise RunnerFailure("timeout", f"calls did not finish within {runner.effort.call_timeout_s:g} s")
            content.look(order[part.stop - 1])
            opened[part.start] = seen.opened_ns
            begins += seen.begins_ns
            ends += seen.ends_ns
            self.proofs.update({
                order[call]: (seed, proof) for call, seed, proof in zip(part, seen.seeds, seen.proofs, strict=True)
            })
            if part.stop < size:
                content.look_untouched(order[pause])
        runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
        return BatchTimes.of(begins, ends, opened, runner.empty_us)

    def verify(self, slots: list[int]) -> bool:
        """Every call's proof, look, inputs, guards and coverage; the outputs of ``slots`` against references."""
        content = self.content
        content.check_untouched()
        content.check_proofs(self.proofs)
        content.check_looks()
        content.check_all(self.order)
        number = {slot: call for call, slot in enumerate(self.order)}
        content.check_calls(slots, [f"call {number[slot]}" for slot in slots])
        return not content.measurement.findings.failed

    def _enqueue(self, token: int) -> None:
        runner = self.runner
        request = {
            "op": "enqueue", "slots": self.order, "kind": "call", "token": token,
            "flush": [is_flushed(call) for call in range(len(self.order))],
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


@dataclass(frozen=True, slots=True)
class Seen:
    """What the judge saw of one part of a batch: times on its own clock, and what each end mark carried."""

    opened_ns: int
    begins_ns: list[int]
    ends_ns: list[int]
    seeds: list[int]
    proofs: list[bytes]


def open_part(target: CudaTarget, page: DevicePage, part: range, token: int, timeout_s: float) -> Seen | None:
    """Let the calls of ``part`` run on what has been published, and watch; None if they do not all answer in time.

    Candidates and calibrations go through this same door, so that what it costs is in both.
    """
    seeds = [secrets.randbits(63) for _ in part]
    for call, seed in zip(part, seeds, strict=True):
        page.set_seed(call, seed)
    target.flush()  # and waits: inputs and poison are where they belong from here on
    _settle()
    opened = page.open_gates(part.stop)
    seen = page.watch(part, token, timeout_s)
    return Seen(opened, *seen[:2], seeds, seen[2]) if seen else None


def _settle() -> None:
    """Spin for a moment nobody can foresee."""
    low, high = SETTLE_NS
    until = time.perf_counter_ns() + low + secrets.randbelow(high - low)
    while time.perf_counter_ns() < until:
        pass

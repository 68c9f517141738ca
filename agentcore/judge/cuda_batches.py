"""Batches of gated calls on a GPU: inputs that do not exist until after the enqueue, and a clock only the judge holds.

The runner enqueues, for every call of a batch, [gate][L2 flush, every other call][begin mark][call][end mark]. Only
then does the judge write inputs and open gates, two calls at a time: the inputs of a pair come into being when
everything before it has answered and the cache is clear. Every call has its own inputs and outputs, so nothing can be
reused, precomputed or merged.

A call's latency is the time between its two marks on the judge's clock, less what empty marks cost. Only the first call
of a pair counts. What it hides before its begin mark makes the mark late after the opening of its gate; what it hides
behind its end mark has nowhere to go but the second call's begin mark. Both distances are checked (gaps.py).
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentcore.judge.cuda_content import BatchContent
from agentcore.judge.device_page import DevicePage
from agentcore.judge.session import RunnerFailure

if TYPE_CHECKING:
    from agentcore.judge.cuda_runner import CudaRunner
    from agentcore.judge.cuda_target import CudaTarget

random = secrets.SystemRandom()

WATCHDOG_S = 3.0
SETTLE_NS = (100_000, 200_000)
"""How long the judge leaves the GPU to the runner's gate before opening it, at random between: switching between the
two contexts must be over when the clock starts."""
LOOKS = 2
"""In how many pairs of a batch outputs are fetched at once, and the next pair's are looked at for early writes."""


class SelfSynchronising(Exception):
    """The candidate waits for the device inside its call, so its calls cannot be enqueued ahead."""


@dataclass(slots=True)
class BatchTimes:
    """µs, of one batch or several: the counted calls' latencies less the marks' own cost, and what lay around them.

    ``openings``: from the opening of a pair's gate to its first call's begin mark, a flush between; ``gaps``: from that
    call's end mark to the second call's begin mark.
    """

    latencies: list[float] = field(default_factory=list)
    openings: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def add(self, other: BatchTimes) -> None:
        self.latencies += other.latencies
        self.openings += other.openings
        self.gaps += other.gaps

    def add_pair(self, seen: Seen, marks_us: float) -> None:
        (begin, next_begin), end = seen.begins_ns, seen.ends_ns[0]
        self.latencies.append(max(0.0, (end - begin) / 1e3 - marks_us))
        self.openings.append((begin - seen.opened_ns) / 1e3)
        self.gaps.append((next_begin - end) / 1e3)


def is_flushed(call: int) -> bool:
    """Whether the runner flushes the cache between a call's gate and its begin mark."""
    return call % 2 == 0


def pairs(calls: int) -> list[range]:
    """The pairs a batch of an even number of calls is opened in."""
    return [range(first, first + 2) for first in range(0, calls, 2)]


def enqueue_request(slots: list[int], kind: str, token: int) -> dict[str, Any]:
    """What the runner is to enqueue. ``kind``: ``call``, or without a candidate ``none`` or ``touch``."""
    flush = [is_flushed(call) for call in range(len(slots))]
    return {"op": "enqueue", "slots": slots, "kind": kind, "token": token, "flush": flush}


class Batch:
    """One batch of gated calls, opened in pairs. ``order`` is the slot of each call."""

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
        times = BatchTimes()
        looked = set(random.sample(range(size // 2), min(LOOKS, size // 2)))
        for number, pair in enumerate(pairs(size)):
            content.publish([order[call] for call in pair])
            seen = open_pair(runner.target, runner.page, pair, token, runner.effort.call_timeout_s)
            if seen is None:
                runner.page.open_all()
                self._surface_error()
                raise RunnerFailure("timeout", f"calls did not finish within {runner.effort.call_timeout_s:g} s")
            if number in looked:
                content.look(order[random.choice(pair)])
                if pair.stop < size:
                    content.look_untouched(order[pair.stop])
            times.add_pair(seen, runner.empty_us)
            self.proofs.update({
                order[call]: (seed, proof) for call, seed, proof in zip(pair, seen.seeds, seen.proofs, strict=True)
            })
        runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
        return times

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
        runner.session.post(enqueue_request(self.order, "call", token))
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
    """What the judge saw of one pair of calls: times on its own clock, and what each end mark carried."""

    opened_ns: int
    begins_ns: list[int]
    ends_ns: list[int]
    seeds: list[int]
    proofs: list[bytes]


def open_pair(target: CudaTarget, page: DevicePage, pair: range, token: int, timeout_s: float) -> Seen | None:
    """Let the calls of ``pair`` run on what has been published, and watch; None if they do not all answer in time.

    Candidates and calibrations go through this same door, so that what it costs is in both.
    """
    seeds = [secrets.randbits(63) for _ in pair]
    for call, seed in zip(pair, seeds, strict=True):
        page.set_seed(call, seed)
    target.flush()  # and waits: inputs and poison are where they belong from here on
    _settle()
    opened = page.open_gates(pair.stop)
    seen = page.watch(pair, token, timeout_s)
    return Seen(opened, *seen[:2], seeds, seen[2]) if seen else None


def _settle() -> None:
    """Spin for a moment nobody can foresee."""
    low, high = SETTLE_NS
    until = time.perf_counter_ns() + low + secrets.randbelow(high - low)
    while time.perf_counter_ns() < until:
        pass

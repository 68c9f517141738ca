"""Batches of gated calls on a GPU: inputs that do not exist until after the enqueue, and a clock only the judge holds.

The runner enqueues a pair of calls, [clear][call][end mark][gate][begin mark][call][end mark][over mark][stay]. The
grid of ``clear`` fills every multiprocessor; when all of it has arrived, nothing else is running on the device and
nothing is dirty in the cache. Now the runner's processes are stopped, and the judge writes the pair's inputs, for which
it gets a turn on the device, clears the cache of them, and asks whether the grid is back. The grid reads twice the
cache, once to be rid of what there may be, and once more after the judge has opened the gate; then it writes the first
begin mark and leaves. So inputs cannot be looked at by anything but the calls, on the device or on the host, and every
call has its own, so that nothing can be reused or merged. The grid of ``stay`` fills the GPU again, until the judge has
looked at what the calls have written: nothing of their work has a place behind them.

Pairs are enqueued one by one, each when the one before is over. Behind others in the queue some of a pair's commands
would still be on their way when its calls run: on an H200 every fourth launch would wait 0.9 µs, and which ones would
depend on how many came before. The grid of ``clear`` is let on the device before all of its pair is enqueued behind it:
with it begins the runner's time slice, at whose end the judge gets its turn.

A call's latency is the time between its two marks on the judge's clock, less what empty marks cost. Only the first call
of a pair counts. What it hides before its begin mark or behind its end mark, or moves into the second call or behind
that, is looked for in what lies around it, and charged to it (gaps.py).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from agentcore.judge.cuda_content import EARLY_LOOKS, WHOLE_LOOKS, BatchContent
from agentcore.judge.device_page import DevicePage, Marks
from agentcore.judge.measurement import drawn
from agentcore.judge.runner.pages import CALLS_ENQUEUED
from agentcore.judge.session import RunnerFailure
from agentcore.vocabulary import CheckName

if TYPE_CHECKING:
    from agentcore.judge.cuda_runner import CudaRunner
    from agentcore.judge.cuda_target import CudaTarget
    from agentcore.judge.session import RunnerSession

random = secrets.SystemRandom()

WATCHDOG_S = 3.0
PATIENCE_S, PATIENCE = 0.05, 4.0
"""How long the runner is kept stopped for calls to end: this, and so many times what a warm call took."""
ARRIVAL_S = 2.0
"""How long the GPU may take to be free of everything before a pair, and behind it. What still runs then, a call left
running."""
CHECKED_PASSES = 6
"""Of how many passes over the flush region, drawn after a batch has run, the sums are verified."""


class NeedsHost(Exception):
    """The candidate waits for the device inside its call, or the device for the host: no call can be timed while the
    host's part in it is stopped.
    """


class WaitsInCall(NeedsHost):
    """The former, seen for seconds, which no stall of a device looks like."""


class StillRunning(Exception):
    """Something of the candidate does not leave the GPU between calls."""


@dataclass(slots=True)
class BatchTimes:
    """µs, of one batch or several: the counted calls' latencies less the marks' own cost, and what lay around them.

    ``seconds``: the latencies of the pairs' second calls; ``returns``: from the end of the judge's turn, in which it
    wrote a pair's inputs, to the word that the grid is back; ``clearings``: from the word that they are there to the
    end of the first pass, or, if that is longer, the same of the grid behind the pair;
    ``openings``: from the opening of its gate to its first begin mark, the second pass between;
    ``gaps``: from the first end mark to the second begin mark; ``tails``: from the second end mark to the mark behind
    it; ``drifts``: by how much longer the counted calls took by the stamps of their marks.
    """

    latencies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    clearings: list[float] = field(default_factory=list)
    openings: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)
    drifts: list[float] = field(default_factory=list)

    def add(self, other: BatchTimes) -> None:
        for each in fields(self):
            getattr(self, each.name).extend(getattr(other, each.name))

    def add_pair(self, seen: Seen, marks_us: float) -> None:
        (begin, next_begin), (end, next_end) = seen.marks.begins_ns, seen.marks.ends_ns
        self.latencies.append(max(0.0, (end - begin) / 1e3 - marks_us))
        self.seconds.append(max(0.0, (next_end - next_begin) / 1e3 - marks_us))
        self.returns.append((seen.back_ns - seen.written_ns) / 1e3)
        self.clearings.append(max(seen.cleared_ns - seen.published_ns, seen.left_ns - seen.looked_ns) / 1e3)
        self.openings.append((begin - seen.opened_ns) / 1e3)
        self.gaps.append((next_begin - end) / 1e3)
        self.tails.append((seen.marks.over_ns - next_end) / 1e3)

    def compare_stamps(self, page: DevicePage, seen: Sequence[Seen]) -> None:
        """Add the drifts of a batch's pairs, after the device became idle: the last to write a mark stamps it."""
        for first, pair in zip(range(0, 2 * len(seen), 2), seen, strict=True):
            took = pair.marks.ends_ns[0] - pair.marks.begins_ns[0]
            self.drifts.append((page.stamped_ns(first) - took) / 1e3)


def is_flushed(call: int) -> bool:
    """Whether the runner clears the cache before a call."""
    return call % 2 == 0


def pairs(calls: int) -> list[range]:
    """The pairs a batch of an even number of calls is opened in."""
    return [range(first, first + CALLS_ENQUEUED) for first in range(0, calls, CALLS_ENQUEUED)]


def new_token() -> int:
    """What the marks of a batch show. Never the same twice: grids that hold the GPU tell their launches apart by it."""
    return secrets.randbits(62) | 1


def enqueue_request(slots: Sequence[int], first: int, kind: str, token: int) -> dict[str, Any]:
    """What the runner is to enqueue: calls from number ``first`` on. ``kind``: ``call``; for calibration ``none`` or
    ``touch``.
    """
    flush = [is_flushed(call) for call in range(first, first + len(slots))]
    return {"op": "enqueue", "slots": [*slots], "first": first, "kind": kind, "token": token, "flush": flush}


class Batch:
    """One batch of gated calls, enqueued and opened in pairs. ``order`` is the slot of each call."""

    def __init__(self, runner: CudaRunner, content: BatchContent, order: list[int]) -> None:
        self.runner, self.content, self.order = runner, content, order
        self.proofs: dict[int, tuple[int, bytes]] = {}
        self.passes: list[tuple[int, int]] = []  # (key, sum) of each pass over the flush region

    def run(self) -> BatchTimes:
        """Enqueue, publish, open, watch, pair by pair. Raises RunnerFailure, and NeedsHost."""
        runner, content, order = self.runner, self.content, self.order
        size, token = len(order), new_token()
        runner.page.reset()
        content.poison(order)
        runner.target.flush()  # and waits: nothing of ours is left to do while the runner's grids hold the GPU
        times, all_seen = BatchTimes(), list[Seen]()
        early, whole = (drawn(looks, size // 2) for looks in (EARLY_LOOKS, WHOLE_LOOKS))
        for number, pair in enumerate(pairs(size)):
            slots = [order[call] for call in pair]
            runner.page.admit(pair.stop)
            self._enqueue(pair, token)
            seen = self._open(pair, token, self._steps(slots, early=number in early, whole=number in whole))
            if seen.ran_while_stopped:
                content.measurement.findings.fail(
                    CheckName.STEADY_WORK,
                    "the candidate's processes ran while they were stopped, and inputs were there before the call",
                )
            times.add_pair(seen, runner.empty_us)
            all_seen.append(seen)
            self.proofs.update({
                slot: (seed, proof) for slot, seed, proof in zip(slots, seen.seeds, seen.marks.proofs, strict=True)
            })
            self.passes += zip(seen.keys, seen.sums, strict=True)
        runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
        times.compare_stamps(runner.page, all_seen)
        for pair, seen in zip(pairs(size), all_seen, strict=True):
            self.passes += zip(seen.stay_keys, runner.page.sums(pair.stop - 1), strict=True)
        return times

    def verify(self, slots: list[int]) -> bool:
        """Every call's proof, look, inputs, guards and coverage; the outputs of ``slots`` against references."""
        content = self.content
        content.settle()
        content.check_untouched()
        self._check_passes()
        content.check_proofs(self.proofs)
        content.check_looks()
        content.check_all(self.order)
        number = {slot: call for call, slot in enumerate(self.order)}
        content.check_calls(slots, [f"call {number[slot]}" for slot in slots])
        return not content.measurement.findings.failed

    def _enqueue(self, pair: range, token: int) -> None:
        runner = self.runner
        runner.session.post(enqueue_request(self.order[pair.start : pair.stop], pair.start, "call", token))
        try:
            answer = runner.session.answer("enqueued", timeout_s=WATCHDOG_S)
        except RunnerFailure as failure:
            runner.page.open_all()  # only we can: what was enqueued waits behind a gate, and maybe a call for that
            if failure.kind != "timeout":
                raise
            runner.session.answer("enqueued", timeout_s=runner.effort.call_timeout_s * len(self.order))
            runner.session.request({"op": "idle"}, "idle", timeout_s=runner.effort.call_timeout_s)
            raise WaitsInCall("a call waits for the device before it has returned") from None
        if answer.get("status"):
            runner.page.open_all()
            raise RunnerFailure("error", f"kernel_launch returned {answer['status']}"[:200])

    def _steps(self, slots: list[int], *, early: bool, whole: bool) -> PairSteps:
        """``early``: whether to look before the calls begin; ``whole``: whether to keep all of what they wrote."""
        content = self.content

        def cleared() -> None:
            if early:
                for slot in slots:
                    content.look_untouched(slot)
                self.runner.target.copier.wait()

        def over() -> None:
            for slot in slots:
                content.look(slot)

        def held() -> bool:
            turn = whole and content.keep_outputs(slots)
            self.runner.target.copier.wait()
            return turn

        return PairSteps(partial(content.publish_held, slots), cleared, over, held)

    def _open(self, pair: range, token: int, steps: PairSteps) -> Seen:
        runner = self.runner
        timeout_s = len(pair) * runner.effort.call_timeout_s
        try:
            seen = open_pair(
                runner.target, runner.session, runner.page, pair, token, steps,
                patience_s=min(runner.patience_s, timeout_s), timeout_s=timeout_s,
            )
        except StillRunning:
            self._accuse_of_staying()
        except BaseException:
            runner.page.open_all()  # whatever keeps us from going on, nothing must keep the GPU
            raise
        if seen is None:
            came = runner.page.seen_of(pair, token)
            runner.page.open_all()
            self._surface_error()
            raise RunnerFailure("timeout", f"calls did not finish within {timeout_s:g} s ({came})")
        return seen

    def _accuse_of_staying(self) -> NoReturn:
        """Unless it is an error of the device that keeps the grid away."""
        self.runner.page.open_all()
        try:
            self._surface_error()
        except RunnerFailure as failure:
            if failure.kind != "timeout":
                raise
        raise RunnerFailure("stays", "the kernel leaves something running on the GPU when its call is over")

    def _check_passes(self) -> None:
        """What the grids said they read must be what is there: then they cleared the cache."""
        chosen = random.sample(self.passes, min(CHECKED_PASSES, len(self.passes)))
        expected = self.runner.target.region.sums([key for key, _ in chosen])
        if expected != [said for _, said in chosen]:
            self.content.measurement.findings.fail(
                CheckName.STEADY_WORK,
                "the memory that clears the cache was not read before a call: it was tampered with",
            )

    def _surface_error(self) -> None:
        """A device error shows at the next synchronise; a hang does not answer at all."""
        self.runner.session.request({"op": "idle"}, "idle", timeout_s=self.runner.effort.call_timeout_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the judge saw of one pair of calls: times on its own clock, and what grids and marks carried."""

    written_ns: int
    back_ns: int
    published_ns: int
    cleared_ns: int
    opened_ns: int
    marks: Marks
    seeds: list[int]
    keys: tuple[int, int]
    sums: tuple[int, int]
    looked_ns: int
    left_ns: int
    stay_keys: tuple[int, int]
    ran_while_stopped: bool


def _nothing() -> None:
    pass


def _no_turn() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class PairSteps:
    """What the judge does with a pair's memory: ``publish`` while the first grid holds the GPU, ``cleared`` right
    before the calls, ``over`` right behind the last mark, ``held`` while the second grid holds the GPU, which says
    whether it took a turn on the device.
    """

    publish: Callable[[], None]
    cleared: Callable[[], None] = _nothing
    over: Callable[[], None] = _nothing
    held: Callable[[], bool] = _no_turn


def open_pair(
    target: CudaTarget, session: RunnerSession, page: DevicePage, pair: range, token: int, steps: PairSteps,
    *, patience_s: float, timeout_s: float,
) -> Seen | None:
    """Let the calls of ``pair`` run on what is published, and watch; None if they do not all answer in time.

    From before inputs are written until the judge has looked at outputs nothing of the runner's runs on the host.
    Candidates and calibrations go through this same door, so that what it costs is in both. Raises StillRunning where
    the GPU does not become free, NeedsHost where calls end only after ``patience_s``, when the runner may run again,
    and RunnerFailure.
    """
    stay = pair.stop - 1
    if page.arrived(pair.start, token, ARRIVAL_S) is None:
        raise StillRunning(f"the GPU did not become free within {ARRIVAL_S:g} s")
    with stopped(session) as rest:
        steps.publish()
        target.clear_held()
        rest.begin()  # while the judge waits for its turn
        target.copier.wait()
        written = time.perf_counter_ns()
        back = page.recall(pair.start, token, min(ARRIVAL_S, timeout_s))
        if back is None:
            if page.has_cleared(pair.start, token):
                raise RunnerFailure("violation", "the runner's grid went on before the judge had let it")
            return None
        seeds = [secrets.randbits(63) for _ in pair]
        for call, seed in zip(pair, seeds, strict=True):
            page.set_seed(call, seed)
        keys, stay_keys = ((secrets.randbits(64), secrets.randbits(64)) for _ in range(2))
        published = page.publish(pair.start, pair.stop, keys)
        cleared = page.cleared(pair.start, token, timeout_s)
        if cleared is None:
            return None
        steps.cleared()
        opened = page.open_gates(pair.stop)
        marks = page.watch(pair, token, patience_s)
        if marks is not None:
            steps.over()
            if page.arrived(stay, token, ARRIVAL_S) is None:
                raise StillRunning(f"the GPU did not become free within {ARRIVAL_S:g} s behind the calls")
            turn = steps.held()
            looked = page.leave(stay, pair.stop, stay_keys)
            left = page.cleared(stay, token, timeout_s)
            if turn and left is not None:  # the grid was away, and how long it takes to come back says nothing
                looked = left
        ran = rest.is_broken()
    if marks is None:
        if page.watch(pair, token, timeout_s) is not None:
            raise NeedsHost("calls ended only when the runner's processes ran again")
        return None
    if left is None:
        return None
    sums = page.sums(pair.start)
    return Seen(written, back, published, cleared, opened, marks, seeds, keys, sums, looked, left, stay_keys, ran)


class Rest:
    """A stopped runner must not use the CPU: there are ways to have the kernel continue a process."""

    def __init__(self, session: RunnerSession) -> None:
        self._process = session.process

    def begin(self) -> None:
        self._used = self._process.cpu_times()

    def is_broken(self) -> bool:
        """Whether anything of the runner's has run since ``begin``."""
        return self._process.cpu_times() != self._used


@contextmanager
def stopped(session: RunnerSession) -> Iterator[Rest]:
    """Nothing of the runner's runs on the host meanwhile. Raises RunnerFailure where it cannot be stopped."""
    try:
        if not session.freeze():
            raise session.unstoppable()
        yield Rest(session)
    finally:
        session.thaw()

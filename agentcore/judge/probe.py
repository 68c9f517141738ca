"""``kernelyard devices --probe``: what the judge relies on to time a GPU, one named step after another.

For a new host or driver. Whatever does not work there would end an evaluation in an infrastructure error at best; here
every step says what it saw and how long it took, has a time limit of its own, and where one hangs, which is what a
device does when it does not like what it was given, the process says which, writes where its threads are, and ends: a
wait in a driver cannot be given up otherwise. No candidate takes part.
"""

from __future__ import annotations

import faulthandler
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from statistics import median
from typing import Any

import torch

from agentcore.judge.cuda_batches import PairSteps, Seen, enqueue_request, new_token, open_pair, pairs, stopped
from agentcore.judge.cuda_buffers import CudaBuffers
from agentcore.judge.cuda_copies import Copier, pinned
from agentcore.judge.cuda_target import CALIBRATION_CALLS, CudaTarget
from agentcore.judge.layout import Layout, Parameter
from agentcore.judge.session import RunnerSession
from agentcore.sandbox import Sandbox

ARRIVAL_S, LET_GO_S = 4.0, 5.0
"""How long the grid may take to fill the GPU, and after how long it is let go whatever happens."""
COPIED_BYTES = (1 << 16, 1 << 20)
COPIES = 5
STUCK_STATUS = 9

Say = Callable[[str], None]


@dataclass
class Step:
    """``facts`` are sentences; ``error`` is '' where the step was done."""

    name: str
    limit_s: float
    seconds: float = 0.0
    facts: list[str] = field(default_factory=list)
    error: str = ""


class StepFailed(Exception):
    """A step failed and was said; those behind it need it."""


class Steps:
    """Named steps, each said before it begins and watched while it lasts."""

    def __init__(self, say: Say, diagnose: Callable[[], list[str]] = list) -> None:
        self.say, self.diagnose = say, diagnose
        self.done: list[Step] = []

    @contextmanager
    def step(self, name: str, limit_s: float) -> Iterator[Callable[[str], None]]:
        """Yields what adds a fact. Raises StepFailed for whatever the step raises; ends the process if it hangs."""
        step = Step(name, limit_s)
        self.done.append(step)
        self.say(f"{name} ...")

        def fact(text: str) -> None:
            step.facts.append(text)
            self.say(f"    {text}")

        begun = time.monotonic()
        watchdog = threading.Timer(limit_s, self._give_up, (step,))
        watchdog.daemon = True
        watchdog.start()
        try:
            yield fact
        except Exception as error:
            step.error = f"{type(error).__name__}: {error}"
            for line in (f"FAILED: {step.error}", *self.diagnose()):
                fact(line)
            raise StepFailed(name) from error
        finally:
            watchdog.cancel()
            step.seconds = round(time.monotonic() - begun, 4)
        self.say(f"    done in {step.seconds * 1e3:.1f} ms")

    def _give_up(self, step: Step) -> None:
        self.say(f"STUCK in {step.name!r}: no end after {step.limit_s:g} s")
        for line in self.diagnose():
            self.say(f"    {line}")
        sys.stdout.flush()
        faulthandler.dump_traceback(sys.stderr)
        os._exit(STUCK_STATUS)

    def report(self) -> dict[str, Any]:
        return {"passed": not any(step.error for step in self.done), "steps": [asdict(step) for step in self.done]}


def probe(target: CudaTarget, sandbox: Sandbox, say: Say = print) -> dict[str, Any]:
    """Take every step; {passed, steps}. A step that hangs ends the process with STUCK_STATUS."""
    probing = _Probe(target, sandbox, say)
    try:
        probing.run()
    except StepFailed:
        pass
    finally:
        probing.close()
    return probing.steps.report()


class _Probe:
    def __init__(self, target: CudaTarget, sandbox: Sandbox, say: Say) -> None:
        self.target, self.sandbox = target, sandbox
        self.steps = Steps(say, self._diagnose)
        self.page = target.page()
        self.session: RunnerSession | None = None
        self.token = 0
        # Slots of 1 MiB, about as many as a small workload has.
        self.layout = Layout(
            [Parameter("x", "output", (max(COPIED_BYTES) // 4,), torch.float32, "float32")], CALIBRATION_CALLS
        )
        self.buffers = CudaBuffers(self.layout)

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
        self.buffers.close()

    def run(self) -> None:
        target, step = self.target, self.steps.step
        with step("the judge's kernels sum the flush region under a key", 20) as fact:
            first, other, again = target.region.sums([1, 2, 1])
            if first != again or first == other:
                raise RuntimeError(f"sums under keys 1, 2 and 1 again are {first}, {other} and {again}")
            fact(f"{target.region.nbytes >> 20} MiB, {target.region.grid} blocks hold the GPU")
        with step(f"a runner in its sandbox ({self.sandbox.kind}) loads them and maps the page", 70):
            self._start()
        with step("it maps buffers", 20):
            self._share()
        with step("its processes are stopped, and go on again", 20) as fact:
            fact(f"stopped after {_times([self._timed(self._stop) for _ in range(COPIES)])}")
        with self._held("nothing is done meanwhile"):
            time.sleep(0.01)
        for nbytes in COPIED_BYTES:
            self._try_copies(nbytes)
        with self._held(f"{COPIED_BYTES[0]} bytes are fetched to the host") as fact:
            host = pinned((COPIED_BYTES[0],))
            fact(_times([self._timed(partial(self._fetch, host)) for _ in range(COPIES)]))
        with step(f"a batch of {CALIBRATION_CALLS} calls without a kernel", 40) as fact:
            self._batch(fact)
        with step("calibration", 90) as fact:
            self.session_here.close()
            calibration = target.calibration(self.sandbox)
            fact(f"a small copy of the judge's takes {calibration.copy_us:.1f} µs")
            for nbytes, expected in calibration.after.items():
                fact(f"calls of {nbytes} bytes, µs: {_rounded(asdict(expected))}")

    # -- parts of it -------------------------------------------------------------------------------------------------

    @property
    def session_here(self) -> RunnerSession:
        assert self.session is not None
        return self.session

    def _start(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session = self.target.session(self.sandbox, self.page)

    def _stop(self) -> None:
        with stopped(self.session_here):
            pass

    def _share(self) -> None:
        self.session_here.share(self.buffers, writable_inputs=False, timeout_s=15)

    def _begin(self) -> None:
        self.token = new_token()
        self.page.reset()
        self.target.flush()

    def _enqueue(self, pair: range) -> None:
        """A pair of calls that do nothing, admitted."""
        self.page.admit(pair.stop)
        self.session_here.request(enqueue_request(pair, pair.start, "none", self.token), "enqueued", timeout_s=10)

    @contextmanager
    def _held(self, doing: str) -> Iterator[Callable[[str], None]]:
        """A step while a grid of the runner's fills the GPU. However it ends, the grid is let go."""
        with self.steps.step(f"while a grid fills the GPU: {doing}", 30) as fact:
            self._begin()
            self._enqueue(range(2))
            enqueued = time.perf_counter_ns()
            there = self.page.arrived(0, self.token, ARRIVAL_S)
            let_go = threading.Timer(LET_GO_S, self.page.open_all)
            let_go.start()
            try:
                if there is None:
                    raise RuntimeError(f"no grid fills the GPU within {ARRIVAL_S:g} s")
                fact(f"it was there {(there - enqueued) / 1e3:.1f} µs after all was enqueued")
                yield fact
            finally:
                late = not let_go.is_alive()
                let_go.cancel()
                self.page.open_all()
                self.session_here.request({"op": "idle"}, "idle", timeout_s=10)
            if late:
                raise RuntimeError(f"it had to be let go after {LET_GO_S:g} s")

    def _try_copies(self, nbytes: int) -> None:
        """The judge's turn on the device: with the GPU free, and while a grid holds it, which must come back."""
        copier, to = self.target.copier, self.buffers.data(self.layout.parameters[0], 0)[:nbytes]
        source = torch.randint(0, 255, (nbytes,), dtype=torch.uint8, device=self.target.torch_device)
        self.target.finish_writing()

        def copy() -> None:
            copier.copy([(to, source)])
            copier.wait()

        def back() -> None:
            if self.page.recall(0, self.token, ARRIVAL_S) is None:
                raise RuntimeError(f"the grid does not come back within {ARRIVAL_S:g} s")

        with self._held(f"persisting lines are reset and {nbytes} bytes are copied") as fact:
            fact(f"copied after {_times([self._timed(copy) for _ in range(COPIES)])}")
            fact(f"it was back {self._timed(back):.1f} µs later")
        with self.steps.step(f"with the GPU free: the same with {nbytes} bytes", 20) as fact:
            fact(f"copied after {_times([self._timed(copy) for _ in range(COPIES)])}")
            if not torch.equal(to.cpu(), source.cpu()):
                raise RuntimeError("other bytes arrived than were sent")

    def _fetch(self, host: torch.Tensor) -> None:
        copier: Copier = self.target.copier
        copier.fetch(host, self.buffers.data(self.layout.parameters[0], 0)[: host.nbytes])
        copier.wait()

    @staticmethod
    def _timed(doing: Callable[[], None]) -> float:
        begun = time.perf_counter_ns()
        doing()
        return (time.perf_counter_ns() - begun) / 1e3

    def _batch(self, fact: Callable[[str], None]) -> None:
        target, page = self.target, self.page
        source = torch.zeros(max(COPIED_BYTES), dtype=torch.uint8, device=target.torch_device)

        def publish(pair: range) -> None:
            target.copier.copy([(self.buffers.data(self.layout.parameters[0], slot), source) for slot in pair])

        self._begin()
        all_seen: list[Seen] = []
        try:
            for pair in pairs(CALIBRATION_CALLS):
                self._enqueue(pair)
                seen = open_pair(
                    target, self.session_here, page, pair, self.token, PairSteps(partial(publish, pair)),
                    patience_s=LET_GO_S, timeout_s=LET_GO_S,
                )
                if seen is None:
                    raise RuntimeError(page.seen_of(pair, self.token))
                fact(f"calls {pair.start} and {pair.stop - 1}, µs: {_rounded(_around(seen))}")
                all_seen.append(seen)
        finally:
            page.open_all()
            self.session_here.request({"op": "idle"}, "idle", timeout_s=10)
        sums: list[tuple[int, int]] = []
        for pair, seen in zip(pairs(CALIBRATION_CALLS), all_seen, strict=True):
            sums += zip(seen.keys, seen.sums, strict=True)
            sums += zip(seen.stay_keys, page.sums(pair.stop - 1), strict=True)
        if target.region.sums([key for key, _ in sums]) != [said for _, said in sums]:
            raise RuntimeError("the grids said other sums than the judge works out for the flush region")
        stamps = [page.stamped_ns(call) for call in range(0, CALIBRATION_CALLS, 2)]
        fact(f"by the device's clock calls took {stamps} ns: it ticks every {reduce(math.gcd, stamps)} ns or a part")

    def _diagnose(self) -> list[str]:
        """What can still be found out without the device."""
        lines = []
        if self.token:
            lines += [self.page.seen_of(pair, self.token) for pair in pairs(CALIBRATION_CALLS)[:2]]
        if self.session is not None:
            lines.append(f"the runner is {'alive' if self.session.alive() else 'gone'}, "
                         f"and printed {self.session.log()[-1500:]!r}")
        return lines


def _around(seen: Seen) -> dict[str, float]:
    (begin, next_begin), (end, next_end) = seen.marks.begins_ns, seen.marks.ends_ns
    return {
        "coming back": (seen.back_ns - seen.written_ns) / 1e3,
        "clearing": (seen.cleared_ns - seen.published_ns) / 1e3, "opening": (begin - seen.opened_ns) / 1e3,
        "call": (end - begin) / 1e3, "gap": (next_begin - end) / 1e3, "next call": (next_end - next_begin) / 1e3,
        "tail": (seen.marks.over_ns - next_end) / 1e3, "leaving": (seen.left_ns - seen.looked_ns) / 1e3,
    }


def _rounded(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in numbers.items())


def _times(took_us: list[float]) -> str:
    return f"{', '.join(f'{us:.1f}' for us in took_us)} µs, middle {median(took_us):.1f}"


"""A GPU's runner as the judge sees it, played by a thread that follows the page of flags. No GPU is needed."""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from agentcore.judge.cuda_batches import Batch
from agentcore.judge.cuda_content import BatchContent
from agentcore.judge.cuda_runner import CudaRunner
from agentcore.judge.device_page import DevicePage, proof_positions
from agentcore.judge.host_buffers import HostBuffers
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import Effort, Measurement, Verifier
from agentcore.judge.runner import pages
from agentcore.judge.session import RunnerFailure
from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import CheckName
from tests.judge.conftest import DOUBLE, workload, write_problem

SLOTS = 8


class Device(threading.Thread):
    """Plays the runner's stream for one request, honestly unless told otherwise."""

    def __init__(self, bench: BenchWithoutGpu, request: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.ended = False
        self.bench, self.request = bench, request

    def run(self) -> None:
        if self.request["op"] == "serve":
            return self._serve()
        for number, slot in enumerate(self.request["slots"], self.request["first"]):
            self._call(number, slot)
        return None

    def _call(self, number: int, slot: int) -> None:
        bench, mapping, words = self.bench, self.bench.page._mapping, self.bench.page._words
        if number % 2 == 0 and not self._clear(number, slot):
            self.ended = True
        if self.ended:
            return
        while words[pages.DEVICE_GATE] < number + 1:
            time.sleep(0)
        while bench.hosted and bench.is_stopped:
            time.sleep(0)
        if number % 2 == 0:
            self._pass(number, 1)
        (seed,) = struct.unpack_from("<Q", mapping, pages.SEED_OFFSET + 8 * number)
        self._mark(number, 0)
        time.sleep(bench.call_s)
        if not bench.late:
            bench.compute(slot, all_but_last=bool(bench.behind and number % 2))
        proof = bench.proof(slot, seed)
        at = pages.PROOF_OFFSET + 4 * pages.PROOF_WORDS * number
        mapping[at : at + len(proof)] = proof
        self._mark(number, 1)
        if bench.late:
            bench.compute(slot)
        if number % 2:
            words[pages.OVER_OFFSET // 8 + number] = self.request["token"]
            self._stay(number)
            if bench.behind:
                bench.compute(slot)

    def _clear(self, number: int, slot: int) -> bool:
        """The first half of ky_clear: there, told that inputs are, through with a pass. False if it stays away."""
        bench, words, held = self.bench, self.bench.page._words, pages.HELD_OFFSET // 8 + pages.HELD_WORDS * number
        while words[pages.DEVICE_ADMITTED] < number + 1:
            time.sleep(0)
        if number and bench.stays:
            return False
        if bench.early:
            bench.compute(slot)
        if bench.hasty:
            words[held + 1] = self.request["token"]
        words[held] = self.request["token"]
        if bench.hasty:
            return False
        while words[pages.DEVICE_ASKED] < number + 1:
            if words[pages.DEVICE_PUBLISHED] > number:
                break
            time.sleep(0)
        words[held] = self.request["token"]
        while words[pages.DEVICE_PUBLISHED] < number + 1:
            time.sleep(0)
        if bench.gone:
            return False
        self._pass(number, 0)
        words[held + 1] = self.request["token"]
        return True

    def _stay(self, number: int) -> None:
        """ky_stay: there, told that outputs were looked at, and through with its passes."""
        words, held = self.bench.page._words, pages.HELD_OFFSET // 8 + pages.HELD_WORDS * number
        if self.bench.sits:
            return
        words[held] = self.request["token"]
        while words[pages.DEVICE_LOOKED] < number + 1:
            time.sleep(0)
        for which in (0, 1):
            self._pass(number, which)
        words[held + 1] = self.request["token"]

    def _pass(self, number: int, which: int) -> None:
        words = self.bench.page._words
        key = words[pages.KEY_OFFSET // 8 + 2 * number + which]
        said = self.bench.sums([key])[0] ^ (self.bench.lazy and which)
        words[pages.HELD_OFFSET // 8 + pages.HELD_WORDS * number + 2 + which] = said

    def _mark(self, number: int, which: int) -> None:
        at = pages.MARK_OFFSET // 8 + 2 * number + which
        self.bench.page._words[at + pages.STAMP_BYTES // 8] = time.perf_counter_ns()
        self.bench.page._words[at] = self.request["token"]

    def _serve(self) -> None:
        words, first = self.bench.page._words, self.request["first"]
        for sequence in range(first, first + self.request["count"]):
            while words[pages.DEVICE_SEQUENCE] < sequence:
                if self.bench.gone:
                    return
                time.sleep(0)
            slot = words[pages.DEVICE_SLOT]
            if not self.bench.late:
                self.bench.compute(slot)
            words[pages.MARK_OFFSET // 8] = sequence


class BenchWithoutGpu:
    """A runner as Batch sees one. ``late`` computes behind the end mark, ``early`` before the inputs exist; ``lazy``
    does not read what it says it read before a begin mark; ``stays`` never leaves the GPU after its first pair;
    ``hasty`` goes on before inputs are there; ``hosted`` needs the host in its calls, which does not run while it is
    stopped; ``behind`` leaves the last element of a pair's second call to the time behind the pair; ``sits`` leaves
    something on the GPU behind a pair. A call takes ``call_s`` more than its work.
    """

    def __init__(self, root: Path) -> None:
        problem = load_problem(write_problem(root / "problem", DOUBLE, [workload(axes={"n": 500})]))
        verifier = Verifier(problem, InputFactory(problem, "cpu"), problem.workloads[0])
        self.buffers = HostBuffers(Layout.of(problem, problem.workloads[0], verifier.scalars(), SLOTS))
        self.content = BatchContent(self.buffers, verifier, Measurement())
        self.page = DevicePage()
        self.late = self.early = self.lazy = self.stays = self.gone = self.hasty = self.hosted = False
        self.behind = self.sits = False
        self.call_s = 0.0
        self.is_stopped, self.can_be_stopped = False, True
        self.unstoppable = RunnerFailure("violation", "could not be stopped")
        self.failure: RunnerFailure | None = None  # what every answer of it is
        self.cpu_ns: Iterator[int] = itertools.repeat(7)
        self.skipped: int | None = None
        self.device: Device | None = None
        self.sequence, self.empty_us, self.patience_s = 0, 0.0, 20.0
        self.effort = Effort(call_timeout_s=5)
        self.calibration = SimpleNamespace(copy_us=0.0)
        self.target = SimpleNamespace(
            flush=lambda: None, finish_writing=lambda: None, clear_held=lambda: None,
            copier=SimpleNamespace(wait=lambda: None),
            region=SimpleNamespace(sums=self.sums)
        )
        self.session = SimpleNamespace(
            post=self._post, answer=self._answer, request=self._request, pending=lambda: False,
            ended=lambda: False, freeze=self._freeze, thaw=self._thaw, unstoppable=lambda: self.unstoppable,
            process=SimpleNamespace(cpu_times=lambda: {(1, 1): next(self.cpu_ns)}),
        )

    def _freeze(self) -> bool:
        self.is_stopped = True
        return self.can_be_stopped

    def _thaw(self) -> None:
        self.is_stopped = False

    def _post(self, request: dict[str, Any]) -> None:
        assert not self.is_stopped
        self.device = Device(self, request)
        self.device.start()

    def _answer(self, *_a: object, **_k: object) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        return {"status": 0}

    def _request(self, request: dict[str, Any], *_a: object, **_k: object) -> dict[str, Any]:
        assert request["op"] == "idle" and self.device is not None and not self.is_stopped
        self.device.join(5)
        return {}

    @staticmethod
    def sums(keys: list[int]) -> list[int]:
        return [key % 1_000_003 for key in keys]

    def compute(self, slot: int, *, all_but_last: bool = False) -> None:
        if slot != self.skipped:
            x, y = (self.buffers.view(p, slot) for p in self.buffers.layout.parameters[:2])
            end = len(x) - all_but_last
            y[:end].copy_(x[:end] * 2)

    def proof(self, slot: int, seed: int) -> bytes:
        words = self.buffers.data(self.buffers.layout.outputs[0], slot).numpy().view(np.int32)
        _, (word,) = proof_positions(np.array([seed], dtype=np.uint64), [len(words)])
        return bytes(words[word].tobytes())

    def batch(self, order: list[int]) -> Batch:
        return Batch(cast(CudaRunner, self), self.content, order)

    def lets_everything_go(self) -> bool:
        """Nothing of the runner's is stopped, and nothing on the GPU waits for the judge."""
        words = (pages.DEVICE_ADMITTED, pages.DEVICE_PUBLISHED, pages.DEVICE_GATE, pages.DEVICE_LOOKED)
        return not self.is_stopped and all(self.page._words[word] >= pages.MAX_CALLS for word in words)

    def failing(self) -> set[CheckName]:
        return {c.name for c in self.content.measurement.findings.checks() if c.status == "fail"}

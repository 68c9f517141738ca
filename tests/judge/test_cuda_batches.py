"""How a batch is opened, watched and verified. The device is played by a thread: no GPU is needed for the judge's part.

What a real device does is in test_gpu.
"""

from __future__ import annotations

import itertools
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from agentcore.judge import cuda_batches
from agentcore.judge.cuda_batches import Batch, BatchTimes, NeedsHost, Seen
from agentcore.judge.cuda_content import EARLY_LOOKS, WHOLE_LOOKS, BatchContent
from agentcore.judge.cuda_runner import CudaRunner, take_turns
from agentcore.judge.device_page import DevicePage, proof_positions
from agentcore.judge.host_buffers import HostBuffers
from agentcore.judge.layout import Layout
from agentcore.judge.measurement import Effort, Measurement, Verifier
from agentcore.judge.one_by_one import time_one_by_one
from agentcore.judge.runner import pages
from agentcore.judge.session import RunnerFailure
from agentcore.problems import load_problem
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import CheckName, Verdict
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
        words[held] = self.request["token"]
        if bench.hasty:
            time.sleep(0.02)
            words[held + 1] = self.request["token"]
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
    stopped; ``behind`` leaves the last element of a pair's second call to the time behind the pair.
    """

    def __init__(self, root: Path) -> None:
        problem = load_problem(write_problem(root / "problem", DOUBLE, [workload(axes={"n": 500})]))
        verifier = Verifier(problem, InputFactory(problem, "cpu"), problem.workloads[0])
        self.buffers = HostBuffers(Layout.of(problem, problem.workloads[0], verifier.scalars(), SLOTS))
        self.content = BatchContent(self.buffers, verifier, Measurement())
        self.page = DevicePage()
        self.late = self.early = self.lazy = self.stays = self.gone = self.hasty = self.hosted = False
        self.behind = False
        self.is_stopped, self.can_be_stopped = False, True
        self.cpu_ns: Iterator[int] = itertools.repeat(7)
        self.skipped: int | None = None
        self.device: Device | None = None
        self.sequence, self.empty_us, self.patience_s = 0, 0.0, 2.0
        self.effort = Effort(call_timeout_s=5)
        self.calibration = SimpleNamespace(copy_us=0.0)
        self.target = SimpleNamespace(
            flush=lambda: None, finish_writing=lambda: None, clear_held=lambda: None,
            copier=SimpleNamespace(wait=lambda: None),
            region=SimpleNamespace(sums=self.sums)
        )
        self.session = SimpleNamespace(
            post=self._post, answer=lambda *_a, **_k: {"status": 0}, request=self._request, pending=lambda: False,
            ended=lambda: False, freeze=self._freeze, thaw=self._thaw,
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

    def failing(self) -> set[CheckName]:
        return {c.name for c in self.content.measurement.findings.checks() if c.status == "fail"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[BenchWithoutGpu]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # judge and device share one interpreter here
    made = BenchWithoutGpu(tmp_path)
    yield made
    made.gone = True
    sys.setswitchinterval(interval)
    made.buffers.close()


def run(bench: BenchWithoutGpu, order: list[int]) -> tuple[BatchTimes, bool]:
    bench.content.draw(order)
    batch = bench.batch(order)
    times = batch.run()
    return times, batch.verify(order)


def test_an_honest_batch_is_opened_pair_by_pair_verified_and_timed(bench: BenchWithoutGpu) -> None:
    order = [5, 2, 7, 0, 1, 3, 6, 4]
    times, verified = run(bench, order)
    assert verified and bench.content.measurement.findings.verdict() is Verdict.PASSED
    assert bench.content.measurement.verified_calls == SLOTS
    around = [times.latencies, times.seconds, times.clearings, times.openings, times.gaps, times.tails, times.drifts]
    assert [len(samples) for samples in around] == [SLOTS // 2] * 7
    assert all(us > 0 for us in times.clearings + times.openings + times.gaps + times.tails)


def test_inputs_of_a_pair_do_not_exist_before_the_pair_ahead_has_answered(bench: BenchWithoutGpu) -> None:
    seen: list[tuple[int, ...]] = []
    publish: Callable[..., None] = bench.content.publish_held

    def watched(slots: list[int]) -> None:
        ends = [bench.page._words[pages.MARK_OFFSET // 8 + 2 * n + 1] for n in range(SLOTS)]
        seen.append((len(slots), sum(end != 0 for end in ends)))
        publish(slots)

    bench.content.publish_held = watched  # type: ignore[method-assign]
    run(bench, list(range(SLOTS)))
    assert seen == [(2, 0), (2, 2), (2, 4), (2, 6)]


def test_the_runner_is_stopped_from_before_inputs_are_written_until_the_last_mark_and_the_look_behind_it(
    bench: BenchWithoutGpu
) -> None:
    seen: list[tuple[str, bool, bool]] = []
    publish, look = bench.content.publish_held, bench.content.look
    held, over = pages.HELD_OFFSET // 8, pages.OVER_OFFSET // 8 + 1

    def publishing(slots: list[int]) -> None:
        seen.append(("publish", bench.is_stopped, bool(bench.page._words[held])))
        publish(slots)

    def looking(slot: int) -> None:
        seen.append(("look", bench.is_stopped, bool(bench.page._words[over])))
        look(slot)

    bench.content.publish_held, bench.content.look = publishing, looking  # type: ignore[method-assign,assignment]
    run(bench, list(range(SLOTS)))
    assert sorted(seen) == [("look", True, True)] * SLOTS + [("publish", True, True)] * (SLOTS // 2)
    assert not bench.is_stopped


def test_outputs_are_looked_at_before_the_calls_and_kept_while_the_grid_behind_them_holds_the_gpu(
    bench: BenchWithoutGpu
) -> None:
    seen: list[tuple[str, bool, bool]] = []
    early, keep = bench.content.look_untouched, bench.content.keep_outputs
    words = bench.page._words

    def looking(slot: int) -> None:
        call = words[pages.DEVICE_GATE]  # as many are over
        cleared = words[pages.HELD_OFFSET // 8 + pages.HELD_WORDS * call + 1] != 0
        seen.append(("early", cleared, words[pages.MARK_OFFSET // 8 + 2 * call] == 0))
        early(slot)

    def keeping(slots: list[int]) -> bool:
        last = words[pages.DEVICE_GATE] - 1
        there = words[pages.HELD_OFFSET // 8 + pages.HELD_WORDS * last] != 0
        seen.append(("keep", there, words[pages.DEVICE_LOOKED] < last + 1))
        return keep(slots)

    bench.content.look_untouched, bench.content.keep_outputs = looking, keeping  # type: ignore[method-assign,assignment]
    _, verified = run(bench, list(range(SLOTS)))
    assert verified and bench.page._words[pages.DEVICE_LOOKED] == SLOTS
    assert sorted(seen) == [("early", True, True)] * 2 * EARLY_LOOKS + [("keep", True, True)] * WHOLE_LOOKS


def test_how_long_a_grid_takes_to_come_back_from_a_turn_is_not_the_candidates(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    add = BatchTimes.add_pair

    def adding(self: BatchTimes, seen: Seen, marks_us: float) -> None:
        left.append(seen.left_ns - seen.looked_ns)
        add(self, seen, marks_us)

    monkeypatch.setattr(BatchTimes, "add_pair", adding)
    monkeypatch.setattr(bench.content, "keep_outputs", lambda _slots: True)
    run(bench, list(range(SLOTS)))
    assert sorted(ns == 0 for ns in left) == [False] * (SLOTS // 2 - WHOLE_LOOKS) + [True] * WHOLE_LOOKS


def test_work_left_to_the_time_behind_a_pair_is_found_by_a_look_whatever_the_proof_says(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.content, "check_proofs", lambda _proofs: None)
    bench.behind = True
    _, verified = run(bench, list(range(SLOTS)))
    assert not verified and bench.failing() == {CheckName.COMPLETE_ON_TIME}


def test_a_runner_that_runs_while_it_is_stopped_is_found(bench: BenchWithoutGpu) -> None:
    bench.cpu_ns = itertools.chain([7] * 5, itertools.repeat(8))  # in the third pair's middle
    _, verified = run(bench, list(range(SLOTS)))
    assert not verified and bench.failing() == {CheckName.STEADY_WORK}
    assert "ran while they were stopped" in bench.content.measurement.findings.message()


def test_a_runner_that_cannot_be_stopped_is_no_runner_to_time(bench: BenchWithoutGpu) -> None:
    bench.can_be_stopped = False
    bench.content.draw(range(SLOTS))
    written: list[Any] = []
    bench.content.publish_held = written.append  # type: ignore[method-assign]
    with pytest.raises(RunnerFailure, match="could not be stopped") as raised:
        bench.batch(list(range(SLOTS))).run()
    assert raised.value.kind == "violation" and not written and not bench.is_stopped
    assert bench.page._words[pages.DEVICE_GATE] >= pages.MAX_CALLS  # nothing keeps the GPU


def test_a_call_that_needs_the_host_ends_when_that_runs_again_and_is_no_call_for_a_batch(
    bench: BenchWithoutGpu
) -> None:
    bench.hosted, bench.patience_s = True, 0.05
    bench.content.draw(range(SLOTS))
    with pytest.raises(NeedsHost):
        bench.batch(list(range(SLOTS))).run()
    assert not bench.is_stopped and not bench.failing()


def test_over_two_batches_every_slot_counts_once() -> None:
    order = list(range(SLOTS))
    counted: list[int] = []
    for _ in range(4):
        order = take_turns(order)
        assert sorted(order) == list(range(SLOTS))
        counted += order[::2]
        assert len(set(counted[-SLOTS:])) == len(counted[-SLOTS:])
    assert len({tuple(take_turns(order)) for _ in range(20)}) > 1


def test_a_call_that_never_runs_is_found(bench: BenchWithoutGpu) -> None:
    bench.skipped = 3
    _, verified = run(bench, list(range(SLOTS)))
    assert not verified and CheckName.OUTPUTS_WRITTEN in bench.failing()


def test_work_behind_the_end_mark_is_found_by_its_proof(bench: BenchWithoutGpu) -> None:
    bench.late = True
    _, verified = run(bench, list(range(SLOTS)))
    assert not verified and CheckName.COMPLETE_ON_TIME in bench.failing()


def test_writing_before_the_inputs_exist_is_found(bench: BenchWithoutGpu) -> None:
    bench.early = True
    _, verified = run(bench, list(range(SLOTS)))
    assert not verified and CheckName.FRESH_EVERY_CALL in bench.failing()


def test_inputs_are_written_only_when_the_whole_gpu_is_held_and_no_gate_opens_before_the_cache_is_clear(
    bench: BenchWithoutGpu
) -> None:
    seen: list[tuple[bool, int]] = []
    publish, opened = bench.content.publish_held, bench.page.open_gates

    def held(call: int, which: int) -> bool:
        return bench.page._words[pages.HELD_OFFSET // 8 + pages.HELD_WORDS * call + which] != 0

    def publishing(slots: list[int]) -> None:
        call = 2 * len(seen)
        seen.append((held(call, 0) and not held(call, 1), bench.page._words[pages.DEVICE_PUBLISHED]))
        publish(slots)

    def opening(through: int) -> int:
        assert held(through - 2, 1)
        return opened(through)

    bench.content.publish_held, bench.page.open_gates = publishing, opening  # type: ignore[method-assign,assignment]
    run(bench, list(range(SLOTS)))
    assert seen == [(True, 0), (True, 2), (True, 4), (True, 6)]


def test_a_pass_over_the_flush_region_that_was_not_made_is_found(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_batches, "CHECKED_PASSES", SLOTS)
    bench.lazy = True
    _, verified = run(bench, list(range(SLOTS)))
    assert not verified and bench.failing() == {CheckName.STEADY_WORK}


def test_what_stays_on_the_gpu_between_calls_is_found(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_batches, "ARRIVAL_S", 0.1)
    bench.stays = True
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure, match="leaves something running") as raised:
        bench.batch(list(range(SLOTS))).run()
    assert raised.value.kind == "stays"


def test_a_grid_that_goes_on_by_itself_is_said_to(bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_batches, "ARRIVAL_S", 0.5)
    bench.hasty = True
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure, match="before the judge had let it") as raised:
        bench.batch(list(range(SLOTS))).run()
    assert raised.value.kind == "violation"


def test_a_device_error_that_keeps_the_grid_away_is_no_cheat(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_a: object, **_k: object) -> dict[str, Any]:
        raise RunnerFailure("error", "CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr(cuda_batches, "ARRIVAL_S", 0.1)
    bench.stays, bench.session.request = True, failing
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure, match="ILLEGAL_ADDRESS"):
        bench.batch(list(range(SLOTS))).run()


def test_a_device_that_does_not_answer_is_a_timeout(bench: BenchWithoutGpu) -> None:
    bench.effort = Effort(call_timeout_s=0.2)
    bench.gone = True
    bench.session.request = lambda *_a, **_k: {}
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure, match=r"did not finish within 0\.2 s"):
        bench.batch(list(range(SLOTS))).run()


def test_calls_one_by_one_are_each_verified_and_the_first_round_does_not_count(bench: BenchWithoutGpu) -> None:
    time_one_by_one(cast(CudaRunner, bench), bench.content)
    measurement = bench.content.measurement
    assert measurement.findings.verdict() is Verdict.PASSED
    rounds = bench.effort.batches + 1
    assert measurement.verified_calls == rounds * SLOTS and len(measurement.samples_us) == (rounds - 1) * SLOTS
    assert all(us > 0 for us in measurement.samples_us) and bench.sequence == rounds * SLOTS


def test_a_last_answer_with_the_word_that_all_is_finished_right_behind_it_is_no_failure(
    bench: BenchWithoutGpu
) -> None:
    last = (bench.effort.batches + 1) * SLOTS

    def pending() -> bool:
        """Between the judge's two looks the runner answers and says so."""
        if bench.sequence == last:
            while not bench.page.answered(last):
                time.sleep(0)
            return True
        return False

    answered, asked = bench.page.answered, 0

    def late(sequence: int) -> bool:
        nonlocal asked
        asked += sequence == last
        return asked != 1 and answered(sequence)

    bench.page.answered, bench.session.pending = late, pending  # type: ignore[method-assign]
    time_one_by_one(cast(CudaRunner, bench), bench.content)
    assert asked > 1 and bench.content.measurement.findings.verdict() is Verdict.PASSED


def test_the_clock_of_a_call_by_itself_starts_before_its_inputs_exist(bench: BenchWithoutGpu) -> None:
    publish: Callable[..., None] = bench.content.publish

    def slow(slots: list[int]) -> None:
        time.sleep(0.004)
        publish(slots)

    bench.content.publish = slow  # type: ignore[method-assign]
    time_one_by_one(cast(CudaRunner, bench), bench.content)
    assert all(us > 4000 for us in bench.content.measurement.samples_us)


def test_an_answer_without_the_work_is_found_one_by_one(bench: BenchWithoutGpu) -> None:
    bench.late = True
    time_one_by_one(cast(CudaRunner, bench), bench.content)
    assert CheckName.OUTPUTS_WRITTEN in bench.failing() and bench.content.measurement.samples_us == []

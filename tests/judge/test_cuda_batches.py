"""How a batch is opened, watched and verified. The device is played by a thread: no GPU is needed for the judge's part.

What a real device does is in test_gpu.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentcore.judge import cuda_batches
from agentcore.judge.cuda_batches import BatchTimes, NeedsHost, Seen, stopped
from agentcore.judge.cuda_content import EARLY_LOOKS, WHOLE_LOOKS
from agentcore.judge.cuda_copies import StillCopying
from agentcore.judge.cuda_runner import CudaRunner, take_turns
from agentcore.judge.measurement import Effort
from agentcore.judge.one_by_one import time_one_by_one
from agentcore.judge.runner import pages
from agentcore.judge.session import RunnerFailure, RunnerSession
from agentcore.sandbox import Limits, Sandbox, tree
from agentcore.vocabulary import CheckName, Verdict
from tests.judge.bench_without_gpu import SLOTS, BenchWithoutGpu


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
    held, over = pages.HELD_OFFSET // 8, pages.OVER_OFFSET // 8

    def publishing(slots: list[int]) -> None:  # a slot's number is its call's
        seen.append(("publish", bench.is_stopped, bool(bench.page._words[held + pages.HELD_WORDS * slots[0]])))
        publish(slots)

    def looking(slot: int) -> None:
        seen.append(("look", bench.is_stopped, bool(bench.page._words[over + (slot | 1)])))
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


def test_a_pair_is_admitted_before_it_is_enqueued(bench: BenchWithoutGpu) -> None:
    """With its grid begins the runner's time slice, at whose end the judge has its turn: that much sooner."""
    admitted: list[int] = []
    post = bench.session.post

    def posted(request: dict[str, Any]) -> None:
        admitted.append(bench.page._words[pages.DEVICE_ADMITTED])
        post(request)

    bench.session.post = posted
    run(bench, list(range(SLOTS)))
    assert admitted == [2, 4, 6, 8]


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


@pytest.mark.parametrize("kind", ["violation", "host"])
def test_a_runner_that_cannot_be_stopped_is_no_runner_to_time(bench: BenchWithoutGpu, kind: str) -> None:
    bench.can_be_stopped, bench.unstoppable = False, RunnerFailure(kind, "could not be stopped")
    bench.content.draw(range(SLOTS))
    written: list[Any] = []
    bench.content.publish_held = written.append  # type: ignore[method-assign]
    with pytest.raises(RunnerFailure, match="could not be stopped") as raised:
        bench.batch(list(range(SLOTS))).run()
    assert raised.value is bench.unstoppable and not written and bench.lets_everything_go()


def test_what_is_left_on_the_gpu_behind_a_pair_is_found_there(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.sits = True
    look, seen = bench.content.look, list[bool]()

    def looking(slot: int) -> None:
        """The calls are over: what is waited for from here on is the grid behind them."""
        monkeypatch.setattr(cuda_batches, "ARRIVAL_S", 0.1)
        seen.append(bench.is_stopped)
        look(slot)

    bench.content.look = looking  # type: ignore[method-assign]
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure, match="leaves something running") as raised:
        bench.batch(list(range(SLOTS))).run()
    assert raised.value.kind == "stays" and seen == [True, True] and bench.lets_everything_go()


@pytest.mark.parametrize("step", ["publish_held", "look_untouched", "look", "keep_outputs"])
def test_whatever_goes_wrong_in_the_judges_steps_the_runner_goes_on_and_nothing_keeps_the_gpu(
    bench: BenchWithoutGpu, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    stopped: list[bool] = []

    def failing(_slots: object) -> None:
        stopped.append(bench.is_stopped)
        raise StillCopying("a copy waits")

    monkeypatch.setattr(bench.content, step, failing)
    bench.content.draw(range(SLOTS))
    with pytest.raises(StillCopying):
        bench.batch(list(range(SLOTS))).run()
    assert stopped == [True] and bench.lets_everything_go()


@pytest.mark.parametrize("kind", ["error", "died", "violation"])
def test_a_runner_that_fails_while_it_enqueues_leaves_no_closed_gate_behind(
    bench: BenchWithoutGpu, kind: str
) -> None:
    bench.failure = RunnerFailure(kind, "raised in its first call")
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure) as raised:
        bench.batch(list(range(SLOTS))).run()
    assert raised.value is bench.failure and bench.lets_everything_go()


def test_a_runner_that_dies_while_it_is_stopped_is_said_to_have(bench: BenchWithoutGpu) -> None:
    def died(*_a: object, **_k: object) -> dict[str, Any]:
        raise RunnerFailure("died", "the runner was killed by signal 9")

    bench.gone, bench.effort, bench.session.request = True, Effort(call_timeout_s=0.1), died
    bench.content.draw(range(SLOTS))
    with pytest.raises(RunnerFailure, match="signal 9"):
        bench.batch(list(range(SLOTS))).run()
    assert bench.lets_everything_go()


def test_processes_that_are_stopped_are_seen_to_rest_and_one_that_is_continued_is_not(sandbox: Sandbox) -> None:
    program = "import os\nos.fork()\nprint(flush=True)\nwhile True: pass"
    with sandbox.popen([sys.executable, "-I", "-S", "-c", program], limits=Limits(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(2)
        session = cast(RunnerSession, SimpleNamespace(
            process=process, freeze=lambda: process.freeze(60), thaw=process.thaw
        ))
        with stopped(session) as rest:
            rest.begin()
            time.sleep(0.05)
            assert not rest.is_broken()
            os.kill(process.host_pids()[-1], signal.SIGCONT)
            while not rest.is_broken():  # a busy machine may let it wait
                pass
        assert not any(map(tree.is_stopped, process.host_pids()))


def test_a_call_that_needs_the_host_ends_when_that_runs_again_and_is_no_call_for_a_batch(
    bench: BenchWithoutGpu
) -> None:
    bench.hosted, bench.patience_s = True, 0.05
    bench.content.draw(range(SLOTS))
    with pytest.raises(NeedsHost):
        bench.batch(list(range(SLOTS))).run()
    assert bench.lets_everything_go() and not bench.failing()


def test_a_pair_may_take_as_long_as_two_calls_and_no_longer(bench: BenchWithoutGpu) -> None:
    bench.call_s, bench.effort = 0.7, Effort(call_timeout_s=1.0)
    times, verified = run(bench, [0, 1])
    assert verified and all(us >= 700_000 for us in times.latencies + times.seconds)
    bench.effort = Effort(call_timeout_s=0.1)
    with pytest.raises(RunnerFailure, match=r"did not finish within 0\.2 s"):
        run(bench, [0, 1])


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


def test_a_grid_that_goes_on_by_itself_is_said_to(bench: BenchWithoutGpu) -> None:
    bench.hasty, bench.effort = True, Effort(call_timeout_s=0.1)
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
    with pytest.raises(RunnerFailure, match=r"did not finish within 0\.4 s"):
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


@pytest.mark.parametrize(
    ("status", "kind", "said"), [(7, "error", "kernel_launch returned 7"), (0, "violation", "it had finished while")]
)
def test_a_runner_that_ends_before_its_last_call_says_why_or_breaks_the_protocol(
    bench: BenchWithoutGpu, status: int, kind: str, said: str
) -> None:
    bench.gone, bench.session.pending = True, lambda: True
    bench.session.answer = lambda *_a, **_k: {"op": "finished", "status": status}
    with pytest.raises(RunnerFailure, match=said) as raised:
        time_one_by_one(cast(CudaRunner, bench), bench.content)
    assert raised.value.kind == kind


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

"""Timing a GPU kernel that waits for the device inside its call, or has the device wait for the host.

Such a call cannot be enqueued behind a gate, or does not end while the runner's processes are stopped.

One call at a time on the judge's wall clock, launching and waiting included, after the judge has cleared the cache. The
clock starts before the call's inputs come into being, so that whatever is done with them is inside; only what copying
next to nothing takes without a candidate is taken off. Large inputs therefore cost the kernel the time of their copy,
which leaves them in the cache.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from agentcore.judge.cuda_content import BatchContent
from agentcore.judge.session import RunnerFailure
from agentcore.vocabulary import CheckName

if TYPE_CHECKING:
    from agentcore.judge.cuda_runner import CudaRunner

random = secrets.SystemRandom()


def time_one_by_one(runner: CudaRunner, content: BatchContent) -> None:
    """Fill the measurement's samples, every call verified. Raises RunnerFailure."""
    measurement = content.measurement
    slots = list(range(content.buffers.layout.slots))
    rounds = runner.effort.batches + 1
    runner.session.post({"op": "serve", "first": runner.sequence + 1, "count": rounds * len(slots)})
    for number in range(rounds):
        random.shuffle(slots)
        content.poison(slots)
        content.draw(slots)
        runner.target.finish_writing()
        elapsed = [_call(runner, content, slot) for slot in slots]
        content.settle()
        content.check_untouched()
        content.check_looks()
        content.check_all(slots)
        if not content.check_calls(slots, [f"call {call} of round {number}" for call in range(len(slots))]):
            return
        if number:  # the first round warms up
            measurement.samples_us += elapsed
    runner.session.answer("finished", timeout_s=30)
    measurement.findings.skip(
        CheckName.STEADY_WORK,
        "the kernel waits for the device inside its call, or the device for the host: timed one call at a time,"
        " launching and waiting included",
    )


def _call(runner: CudaRunner, content: BatchContent, slot: int) -> float:
    content.look_untouched(slot)
    runner.target.flush()
    runner.sequence += 1
    timeout_s = runner.effort.call_timeout_s
    begun = time.perf_counter_ns()
    content.publish([slot])
    runner.target.finish_writing()
    runner.page.post_call(slot, runner.sequence)
    limit = begun + int(timeout_s * 1e9)
    while not runner.page.answered(runner.sequence):
        if time.perf_counter_ns() > limit:
            raise RunnerFailure("timeout", f"a call did not return within {timeout_s:g} s")
        if runner.session.pending() or runner.session.ended():
            if runner.page.answered(runner.sequence):  # the last call, and its "finished" right behind
                break
            if status := runner.session.answer("finished", timeout_s=1).get("status"):
                raise RunnerFailure("error", f"kernel_launch returned {status}"[:200])
            raise RunnerFailure("violation", "the runner said that it had finished while a call was waited for")
    elapsed_us = (time.perf_counter_ns() - begun) / 1e3
    content.look(slot)
    return max(0.0, elapsed_us - runner.calibration.copy_us)

"""Timing a GPU kernel that waits for the device inside its call, and so cannot be enqueued behind a gate.

Wall time of bursts of two sizes; the slope is the time of one call, launch overhead and waiting included.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agentcore.judge.cuda_content import BatchContent
from agentcore.judge.session import RunnerFailure
from agentcore.vocabulary import CheckName

if TYPE_CHECKING:
    from agentcore.judge.cuda_runner import CudaRunner


def slope(runner: CudaRunner, content: BatchContent) -> None:
    """Fill the measurement's samples from bursts, every call of which is verified. Raises RunnerFailure."""
    measurement, effort, page = content.measurement, runner.effort, runner.page
    many = content.buffers.layout.slots
    few = max(1, many // 4)
    sizes = [few, many] * (effort.batches + 1)
    runner.session.post({"op": "bursts", "first": runner.sequence + 1, "count": len(sizes)})
    elapsed: list[float] = []
    for size in sizes:
        slots = list(range(size))
        content.poison(slots)
        content.draw(slots)
        content.publish(slots)
        runner.target.flush()
        runner.sequence += 1
        begun = time.perf_counter_ns()
        page.post_burst(size, runner.sequence)
        limit = begun + int(effort.call_timeout_s * size * 1e9)
        while not page.burst_done(runner.sequence):
            if time.perf_counter_ns() > limit:
                raise RunnerFailure("timeout", f"{size} calls did not return within {effort.call_timeout_s:g} s each")
            if runner.session.pending() or runner.session.ended():
                runner.session.answer("finished", timeout_s=1)
                raise RunnerFailure("error", "the kernel failed in a burst of calls")
        elapsed.append((time.perf_counter_ns() - begun) / 1e3)
        content.check_all(slots)
        if not content.check_calls(slots, [f"call {slot} of a burst" for slot in slots]):
            break
    else:
        runner.session.answer("finished", timeout_s=30)
    # The first pair of bursts warms up.
    pairs = list(zip(elapsed[2::2], elapsed[3::2], strict=False))
    measurement.samples_us += [max(0.0, (long - short) / (many - few)) for short, long in pairs]
    measurement.findings.skip(
        CheckName.STEADY_WORK, "the kernel waits for the device inside its call: timed by slope"
    )

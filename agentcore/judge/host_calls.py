"""One call after another on the CPU target: what is prepared before, looked at after, and concluded from all of them.

The clock and the process are host_target's; here are the content, the snapshot and the checks.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy
import numpy.typing
import torch

from agentcore.judge.host_buffers import HostBuffers
from agentcore.judge.layout import as_bits, detects_poison, leftover
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.judge.result import HostLoad
from agentcore.judge.runner import pages
from agentcore.problems.tensors import Value
from agentcore.vocabulary import CheckName

if TYPE_CHECKING:
    from agentcore.judge.host_target import HostRunner

SLOTS = 4
SAMPLED_WORDS = 96
LATE_WORK_WAIT_S = 0.05
DISTURBED_RATIO = 2.0
CLAIM_SLACK_US = 20.0
TELLING_CALLS = 3
"""So many undisturbed calls tell whether the runner's clock is right, however busy the machine was in the others."""
HIDDEN_WAKE_US, HIDDEN_WAKE_SHARE = 10.0, 0.04
"""How much longer than the companion's waking up may take (median, beyond its noise) before it is hidden work: a
constant, and a share of the call's own time, since a larger working set is colder when it wakes."""
PROMPT_WAKE_US = 50.0
"""No more than this is taken off a disturbed call for waking up: where nothing disturbs it takes less."""
ECHO_ROUNDS = 6
BUSY_SHARE = 0.3
"""Others that used so much of the host's cores are why a large working set is cold when it wakes."""
QUIET_SHARE = 0.05
"""Others and the hypervisor together used no more of the host's cores: then they do not often disturb a call."""
UNEVEN_WAKE_SHARE = 2.0
"""A companion whose upper quartile is beyond this many times its lower one says that the machine is busy."""
REPEAT_SHARE, REPEAT_SLACK_US = 0.6, 5.0
"""A repeated call faster than this share of the fastest fresh one, less so much, is answered from memory."""

IntArray = numpy.typing.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CallTime:
    """One call on the judge's clock, µs: from waking the runner to its echo, and from there to its return."""

    wake_us: float
    elapsed_us: float
    claimed_us: float
    quiet: bool
    frozen: bool
    companion_us: float = 0.0
    """How long waking up took the companion, which has no candidate, just before."""
    ran_while_stopped: bool = False

    @property
    def charged_us(self) -> float:
        """The call's time, and what waking up took longer than the companion's: hiding work there gains nothing."""
        return self.charged_against(self.companion_us)

    def charged_against(self, companion_us: float) -> float:
        """The same for another time of the companion's. Its best makes a disturbed call no faster than it was."""
        return self.elapsed_us + max(0.0, self.wake_us - companion_us)


class Calls:
    """The calls of one workload: fresh content, the clock, the freeze, the snapshot and its checks.

    The runner's whole tree is stopped from one call's snapshot to the next call's start, so that nothing can work on
    inputs that are already there while nobody looks at the clock.
    """

    def __init__(self, runner: HostRunner, buffers: HostBuffers, verifier: Verifier, measurement: Measurement) -> None:
        self.runner, self.buffers, self.verifier, self.measurement = runner, buffers, verifier, measurement
        self.outputs = [p for p in buffers.layout.outputs if p.nbytes]
        self.status = 0
        """What kernel_launch returned, of the first call that returned anything but 0."""
        self.best_companion_us = PROMPT_WAKE_US
        self.snapshot: dict[str, torch.Tensor] = {}

    @property
    def ended(self) -> bool:
        """Whether a finding or a status says all there is to say: no further call would mean anything."""
        return self.status != 0 or self.measurement.findings.failed

    def fresh(self, number: int, timeout_s: float) -> CallTime:
        """A call with inputs that never were before, verified. Raises RunnerFailure if the runner is lost."""
        inputs = self.verifier.inputs(self.verifier.draw_seed())
        # The first calls go round the slots, so that no timed call is the first to touch one.
        slot = number if number < SLOTS else self.verifier.draw_seed() % SLOTS
        took = self.one(f"call {number}", slot, inputs, timeout_s)
        if self.status == 0:
            self.verifier.check(self.measurement, inputs, self.snapshot, f"call {number}")
        return took

    def one(self, what: str, slot: int, inputs: Mapping[str, Value], timeout_s: float) -> CallTime:
        """One call; its outputs are left in ``snapshot``. Findings but the comparison go to the measurement."""
        runner, buffers, findings = self.runner, self.buffers, self.measurement.findings
        buffers.write_inputs(slot, inputs)
        patterns = buffers.poison(slot)
        # Prepared so that looking at the outputs takes a microsecond once the call is seen to have returned.
        live = [as_bits(buffers.view(p, slot)).flatten().numpy() for p in self.outputs]
        where = [numpy.random.default_rng().integers(len(bits), size=SAMPLED_WORDS) for bits in live]
        seen = [numpy.empty(SAMPLED_WORDS, dtype=bits.dtype) for bits in live]
        looks = list(zip(live, where, seen, strict=True))
        companion = runner.target.companion(runner.sandbox, runner.native)
        self.measurement.canary_us.append(runner.target.evict_caches())
        # The first wakes the code both share, and that which looks at outputs.
        companion.timed(0, [(numpy.arange(len(w)), w * 0, s.astype(w.dtype)) for _, w, s in looks], timeout_s)
        usual = companion.timed(0, [], timeout_s)
        took = replace(runner.timed(slot, looks, timeout_s), companion_us=usual.wake_us)
        self.best_companion_us = min(self.best_companion_us, usual.wake_us)
        self.status = self.status or runner.reply[pages.REPLY_STATUS]
        self.snapshot = {p.name: buffers.snapshot(p, slot) for p in buffers.layout.outputs}
        broken = buffers.broken_guard(slot, patterns)
        changed = buffers.inputs_equal(slot, inputs)
        still = took.frozen and runner.session.process.is_frozen()
        findings.record(CheckName.GUARDS_INTACT, not broken, f"{what}: {broken}" if broken else "")
        findings.record(
            CheckName.INPUTS_INTACT, not changed,
            f"{what}: input {changed!r} changed during the call" if changed else "",
        )
        moved = [
            p.name for p, bits, index, before in zip(self.outputs, live, where, seen, strict=True)
            if not numpy.array_equal(bits[index], before)
        ]
        findings.record(
            CheckName.COMPLETE_ON_TIME, not moved,
            f"{what}: output {moved[0]!r} was still being written after the call had returned" if moved else "",
        )
        findings.record(
            CheckName.STEADY_WORK, not took.ran_while_stopped,
            f"{what}: the candidate's processes ran while they were stopped between calls"
            if took.ran_while_stopped else "",
        )
        findings.record(
            CheckName.COMPLETE_ON_TIME, still,
            "" if still else f"{what}: the candidate's processes could not be stopped after the call had returned",
        )
        if self.status == 0:
            self._check_written(what, slot, patterns, inputs)
        return took

    def _check_written(
        self, what: str, slot: int, patterns: dict[str, tuple[int, int]], inputs: Mapping[str, Value]
    ) -> None:
        for p in self.outputs:
            pattern = patterns[p.name][0]
            if not detects_poison(p.dtype) or not leftover(self.snapshot[p.name], pattern):
                continue
            # An integer result may be the poison's value by chance.
            reference = self.verifier.factory.reference(inputs, self.verifier.workload)[p.name]
            left = leftover(self.snapshot[p.name], pattern, reference)
            if not left:
                continue
            self.runner.session.thaw()
            time.sleep(LATE_WORK_WAIT_S)
            self.runner.session.freeze()
            self.runner.rest()
            later = leftover(self.buffers.view(p, slot), pattern, reference)
            total = self.snapshot[p.name].numel()
            if later < left:
                self.measurement.findings.fail(
                    CheckName.COMPLETE_ON_TIME,
                    f"{what}: {left - later} of {total} elements of output {p.name!r} were written only after the"
                    " call had returned",
                )
            else:
                self.measurement.findings.fail(
                    CheckName.OUTPUTS_WRITTEN, f"{what}: {left} of {total} elements of output {p.name!r} never written"
                )
            return
        self.measurement.findings.record(CheckName.OUTPUTS_WRITTEN, True)

    def echoes(self, timeout_s: float) -> None:
        """Calls whose content has been seen before, or almost: what a cache of results would answer from memory."""
        inputs = self.verifier.inputs(self.verifier.draw_seed())
        altered = self.verifier.altered(inputs)
        earlier = self.verifier.factory.reference(inputs, self.verifier.workload)
        self.one("a call before its near-duplicate", 0, inputs, timeout_s)
        repeats: list[CallTime] = []
        for slot in (0, 1, 2):
            if self.ended:
                return
            took = self.one("a near-duplicate call", slot, altered, timeout_s)
            if self.ended:
                return
            if slot:  # the first of the three is new content
                repeats.append(took)
            if not self.verifier.check_altered(self.measurement, earlier, altered, self.snapshot):
                return
        # Against the best, and before anybody is accused a few more of both, side by side: on a busy machine a typical
        # call says more about the machine, and a single one nothing. Nor does a repeat seem fast because the companion
        # was slow just then.
        news = list(self.measurement.samples_us)
        for _ in range(ECHO_ROUNDS):
            typical_us = statistics.median(t.charged_against(self.best_companion_us) for t in repeats)
            if typical_us >= REPEAT_SHARE * min(news) - REPEAT_SLACK_US:
                break
            unseen = self.verifier.inputs(self.verifier.draw_seed())
            news.append(self.one("a call with new inputs", 0, unseen, timeout_s).charged_us)
            if not self.ended:
                repeats.append(self.one("a call with inputs seen before", 1, altered, timeout_s))
            if self.ended:
                return
        else:
            self.measurement.findings.fail(
                CheckName.FRESH_EVERY_CALL,
                f"inputs seen before are answered in {typical_us:.1f} µs, new ones in {min(news):.1f} µs at best:"
                " results are kept",
            )


def counted_though_disturbed(
    disturbed: list[CallTime], companion_us: float, missing: int, load: HostLoad | None
) -> list[CallTime]:
    """Which of the calls that lost the CPU, or woke up late, are counted: those that came off best, as many as are
    ``missing``, but all of them on a host that ``load`` says was quiet.

    A candidate can bring that about by itself (another thread, a yield, a wait before the echo): whoever saw that a
    call was slow could have it left out. The middle half of all calls bears a few that others disturbed.
    """
    best_first = sorted(disturbed, key=lambda t: t.charged_against(companion_us))
    if load is not None and load.taken_share <= QUIET_SHARE:
        return best_first
    return best_first[: max(0, missing)]


def hidden_before(times: list[CallTime]) -> str:
    """What looks like work before the clock, '' where nothing does: waking up must cost what it costs the companion.

    Hidden work raises every call it is hidden in; a busy machine raises some.
    """
    if not times:
        return ""
    excess = sorted(t.wake_us - t.companion_us for t in times)
    count = len(excess)
    lower, typical, upper = excess[count // 4], statistics.median(excess), excess[3 * count // 4]
    allowed = HIDDEN_WAKE_US + HIDDEN_WAKE_SHARE * statistics.median(t.elapsed_us for t in times)
    noise = 3 * (upper - lower) / count**0.5
    if lower <= allowed and typical - noise <= allowed:
        return ""
    return f"from being woken to beginning a call it took {typical:.0f} µs longer than a runner without a candidate"


def judge_wakes(measurement: Measurement, times: list[CallTime], load: HostLoad | None = None) -> None:
    """Records ``steady-work``. Where the companion itself woke up unevenly, or others had much of the host (``load``;
    what the candidate started is not among them), nobody can be accused: asked for again.
    """
    message = hidden_before(times)
    if message and (_busy(times) or (load is not None and load.others_share > BUSY_SHARE)):
        measurement.findings.fail(CheckName.QUIET_DEVICE, f"{message}, on a machine too busy to tell why")
    else:
        measurement.findings.record(
            CheckName.STEADY_WORK, not message, f"{message}: work is hidden before the clock" if message else ""
        )


def judge_clock(measurement: Measurement, times: list[CallTime]) -> None:
    """The runner's own clock must agree with ours, call by call, in those that neither was taken the CPU from.

    Who loses it between reading the clock and saying so sees another call than the other. Where that was so in nearly
    all of them nobody can be accused: asked for again.
    """
    undisturbed = [t for t in times if t.quiet]
    seen = undisturbed or times
    judged = statistics.median(t.elapsed_us for t in seen)
    missing = statistics.median(t.elapsed_us - t.claimed_us for t in seen)
    agrees = -0.05 * judged - CLAIM_SLACK_US <= missing <= 0.3 * judged + CLAIM_SLACK_US
    message = "" if agrees else (
        f"the runner's clock says {judged - missing:.1f} µs a call, the judge's {judged:.1f} µs"
    )
    if message and len(undisturbed) < TELLING_CALLS:
        measurement.findings.fail(CheckName.QUIET_DEVICE, f"{message}, on a machine too busy to tell why")
    else:
        measurement.findings.record(CheckName.CLOCK_AGREES, agrees, message)


def _busy(times: list[CallTime]) -> bool:
    """Whether others took the CPU in most calls, or the companion, which has nothing to hide, woke up unevenly."""
    companion = sorted(t.companion_us for t in times)
    count = len(companion)
    uneven = companion[3 * count // 4] > UNEVEN_WAKE_SHARE * companion[count // 4]
    return uneven or sum(t.quiet for t in times) < count / 2


def judge_canary(measurement: Measurement) -> None:
    """The device must have run evenly: reading the same memory took the same time at the beginning and at the end."""
    # Lower quartiles: a preempted eviction says nothing about the device, a slow device slows all of them.
    half = len(measurement.canary_us) // 2
    canary = measurement.canary_us
    first, last = (sorted(part)[len(part) // 4] for part in (canary[:half], canary[half:]))
    ratio = max(first, last) / min(first, last)
    measurement.findings.record(
        CheckName.QUIET_DEVICE, ratio <= DISTURBED_RATIO,
        "" if ratio <= DISTURBED_RATIO else f"the canary took {first:.0f} µs before and {last:.0f} µs after: disturbed",
    )

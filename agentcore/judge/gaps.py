"""What lies around the counted calls of a GPU batch: as much as without a candidate, or work is hidden there.

A candidate may write its own marks where and when it likes, but everything from the opening of a pair's gate to the
mark behind its second call is watched, and only the judge's own kernels should fill what is not the calls. What takes
longer than without a candidate is charged to the counted call, beyond what is free; what takes much longer is held
against the kernel. Before a pair everything else has finished and nothing is dirty in the cache, so that no write-back
excuses a late begin.

What is hidden before the first begin mark, or behind the first end mark, is work of the counted call. What was moved
into the second call makes that longer by as much as it makes the first shorter, so that half the difference is charged;
and half of what comes behind the second, where the second's own work may have been moved to make room. A first clearing
that takes longer may fetch what the call will need. A grid that comes back late after the judge has written the inputs
may have let another context of the candidate's have a turn, which finds them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentcore.judge.cuda_batches import BatchTimes
from agentcore.judge.statistics import interquartile_mean

FREE_US, FREE_SHARE = 1.5, 0.01
"""How much later everything together may come before it is charged: µs, and a share of the call's own time. On an H200
honest begin marks came -0.8 to 1.2 µs late, the next behind end marks -0.7 to 0.7 µs (tests/data/h200)."""
LATE_OPENING_US, LATE_GAP_US, LATE_TAIL_US, LATE_SHARE = 4.0, 1.5, 2.0, 0.02
"""How late the first begin mark after the opening, the second after the first end mark, and the mark behind the second
end mark may be; µs, and a share of the call's own time on top."""
LONGER_US, LONGER_SHARE = 3.0, 0.05
"""How much longer than the first a second call may take, beyond what a call of plain writes does: it finds the cache
full of what the first has written, which has to be written back."""
DRIFT_US, DRIFT_SHARE = 1.0, 0.01
"""How much longer a counted call may take by the stamps of its marks than by when they appeared: µs, and a share of
it."""
CLEARING_US, CLEARING_SHARE = 10.0, 0.15
CLEARING_FREE_US, CLEARING_FREE_SHARE = 2.0, 0.03
"""How much longer than without a candidate the first clearing may take, and how much before it is charged. On an H200
honest kernels differed by up to 0.8 µs."""
RETURN_US, RETURN_FREE_US = 40.0, 15.0
"""The same of the grid's coming back, which on an H200 takes 175 to 195 µs, and with honest kernels -5 to 6 µs more."""
FLUSH_SHARE, MARK_SHARE, TAIL_SHARE = 0.9, 0.7, 0.45
"""How much must be seen of what a gate's opening and a flush take without a candidate, of what lies between two marks
with no call between them, and of the time to the mark behind a pair: no launch is quicker than that, but a forged mark
is. The last is the shortest and the least steady: on an H200 1.7 µs, or, in other runners or batches, 2.7."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Without a candidate, around calls that were given and wrote as many bytes; µs, named as in BatchTimes.

    ``longer``: by how much the second call took longer; ``longest``: the same where calls write more than the cache
    holds. ``least_gap`` and ``least_tail``: gap and tail of calls that do nothing. ``drift`` is NaN, with which no
    comparison finds anything wrong, where the device's clock is of no use.
    """

    opening: float
    gap: float
    tail: float
    clearing: float
    longer: float = 0.0
    longest: float = 0.0
    least_gap: float = 0.0
    least_tail: float = 0.0
    drift: float = 0.0
    returning: float = 0.0

    @classmethod
    def of(cls, times: BatchTimes) -> Expected:
        longer = max(0.0, _longer(times))
        return cls(
            interquartile_mean(times.openings), interquartile_mean(times.gaps), interquartile_mean(times.tails),
            interquartile_mean(times.clearings), longer, longer, drift=interquartile_mean(times.drifts),
            returning=interquartile_mean(times.returns),
        )


@dataclass(frozen=True, slots=True)
class Around:
    """How much later than expected what lies around the counted calls came, µs; ``first`` is their own time."""

    expected: Expected
    first: float
    returning: float
    clearing: float
    opening: float
    gap: float
    longer: float
    tail: float
    drift: float

    @classmethod
    def of(cls, times: BatchTimes, expected: Expected) -> Around:
        """Middles over the pairs, deaf to the few that were disturbed. ``times`` must hold at least one pair."""

        def late(values: Sequence[float], usual: float) -> float:
            return interquartile_mean(values) - usual

        return cls(
            expected=expected, first=interquartile_mean(times.latencies),
            returning=late(times.returns, expected.returning),
            clearing=late(times.clearings, expected.clearing), opening=late(times.openings, expected.opening),
            gap=late(times.gaps, expected.gap), longer=_longer(times), tail=late(times.tails, expected.tail),
            drift=late(times.drifts, expected.drift),
        )

    def charge(self) -> float:
        """What is to be added to every counted call, µs: 0 for an honest kernel."""
        moved = max(0.0, self.longer - self.expected.longer) + max(0.0, self.tail)
        found = max(0.0, self.opening) + max(0.0, self.gap) + moved / 2
        fetched = self.clearing - CLEARING_FREE_US - CLEARING_FREE_SHARE * self.expected.clearing
        return (
            max(0.0, found - FREE_US - FREE_SHARE * self.first) + max(0.0, fetched)
            + max(0.0, self.returning - RETURN_FREE_US)
        )

    def wrong(self) -> list[str]:
        """What no honest kernel does, a sentence each."""
        share, usual = LATE_SHARE * self.first, self.expected
        # A call cannot leave more dirty than it had time to write.
        longer = LONGER_US + LONGER_SHARE * self.first + min(self.first, max(usual.longer, usual.longest))
        found = [
            (self.gap > LATE_GAP_US + share,
             f"the next begin mark comes {self.gap:.2f} µs late after an end mark: work is hidden behind it"),
            (self.opening > LATE_OPENING_US + share,
             f"begin marks come {self.opening:.2f} µs late after a gate opens: work is hidden before them"),
            (self.longer > longer,
             f"the second call of a pair takes {self.longer:.2f} µs longer than the first: work is moved there"),
            (self.tail > LATE_TAIL_US + share,
             f"what follows a pair comes {self.tail:.2f} µs late: work is hidden behind its end"),
            (self.returning > RETURN_US,
             f"the grid that holds the GPU came back {self.returning:.1f} µs later than without a candidate: something"
             " else ran on inputs that were there"),
            (self.clearing > CLEARING_US + CLEARING_SHARE * usual.clearing,
             f"clearing the cache of new inputs took {self.clearing:.1f} µs longer than without a candidate: work is"
             " hidden there"),
            (self.opening < (FLUSH_SHARE - 1) * usual.opening,
             f"clearing the cache before a call took {-self.opening:.1f} µs less than without a candidate: it was"
             " tampered with"),
            (self.gap + usual.gap < MARK_SHARE * usual.least_gap,
             f"a begin mark follows an end mark {-self.gap:.2f} µs sooner than it can: one of them is forged"),
            (abs(self.drift) > DRIFT_US + DRIFT_SHARE * self.first,
             f"by their stamps calls take {self.drift:+.2f} µs longer than from mark to mark: marks are forged"),
            (self.tail + usual.tail < TAIL_SHARE * usual.least_tail,
             f"the mark behind a pair follows its end mark {-self.tail:.2f} µs sooner than it can: it is forged"),
        ]
        return [sentence for fails, sentence in found if fails]

    def line(self) -> str:
        """Everything in one line, for the check's message."""
        charge = self.charge()
        return (
            f"against the calibration: gate to begin mark {self.opening:+.2f} µs, end mark to next begin mark"
            f" {self.gap:+.2f} µs, second call {self.longer - self.expected.longer:+.2f} µs, behind it"
            f" {self.tail:+.2f} µs, coming back {self.returning:+.1f} µs, clearing {self.clearing:+.1f} µs,"
            f" stamps {self.drift:+.2f} µs"
            + (f"; {charge:.2f} µs are charged to every call" if charge else "")
        )


def _longer(times: BatchTimes) -> float:
    return interquartile_mean([second - first for first, second in zip(times.latencies, times.seconds, strict=True)])

"""Where the time around a GPU call may go, and where not. Figures like those measured on an H200."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agentcore.judge.cuda_batches import BatchTimes, Seen, is_flushed, pairs
from agentcore.judge.device_page import Marks
from agentcore.judge.gaps import FREE_US, Around, Expected

CLEAN = Expected(opening=38.0, gap=6.0, tail=3.0, clearing=45.0, least_gap=5.5, least_tail=2.8, drift=0.02,
                 returning=90.0)
MARKS_US = 4.0


def times(
    calls: int = 32, latency: float = 60.0, *, late: float = 0.0, hidden: float = 0.0, moved: float = 0.0,
    behind: float = 0.0, clearing: float = 0.0, drift: float = 0.0, returning: float = 0.0,
) -> BatchTimes:
    """One batch. Of every counted call ``late`` µs are done before its begin mark, ``hidden`` behind its end mark and
    ``moved`` in the second call; of the second ``behind`` come after its end; the grid is back ``returning`` µs late
    and clears the cache of inputs ``clearing`` µs late.
    """
    measured, now = BatchTimes(), 0.0
    for pair in pairs(calls):
        cleared = now + CLEAN.clearing + clearing
        begin = cleared + 2.0 + CLEAN.opening + late
        end = begin + latency + MARKS_US - late - hidden - moved
        following = end + CLEAN.gap + hidden
        second_end = following + latency + MARKS_US + moved - behind
        over = second_end + CLEAN.tail + behind
        marks = Marks(
            [round(begin * 1e3), round(following * 1e3)], [round(end * 1e3), round(second_end * 1e3)],
            round(over * 1e3), [b""] * len(pair),
        )
        measured.add_pair(
            Seen(
                round(now * 1e3) - round((CLEAN.returning + returning) * 1e3), round(now * 1e3), round(now * 1e3),
                round(cleared * 1e3), round((cleared + 2.0) * 1e3), marks, [1, 1], (1, 1), (1, 1),
                looked_ns=round(over * 1e3), left_ns=round((over + CLEAN.clearing) * 1e3), stay_keys=(1, 1),
                ran_while_stopped=False,
            ),
            MARKS_US,
        )
        measured.drifts.append(drift + 0.02)
        now = over + 500.0
    return measured


def judged(**where: float) -> tuple[list[str], float]:
    """(what is wrong, what the judge makes of the latency) of a batch of calls that take 60 µs in truth."""
    measured = times(**where)  # type: ignore[arg-type]
    around = Around.of(measured, CLEAN)
    return around.wrong(), around.first + around.charge()


def test_an_honest_batch_hides_nothing() -> None:
    around = Around.of(times(), CLEAN)
    assert around.wrong() == [] and around.charge() == 0 and "gate to begin mark +0.00 µs" in around.line()


def test_the_first_call_of_every_pair_counts_and_follows_a_flush() -> None:
    measured = times(calls=16)
    assert len(measured.latencies) == len(measured.openings) == len(measured.gaps) == 8
    assert all(us == pytest.approx(60.0, abs=0.01) for us in measured.latencies + measured.seconds)
    assert all(is_flushed(pair.start) and not is_flushed(pair.start + 1) and len(pair) == 2 for pair in pairs(16))
    assert [call for pair in pairs(16) for call in pair] == list(range(16))


@pytest.mark.parametrize(
    ("where", "words"),
    [({"late": 8.0}, "after a gate opens"), ({"hidden": 3.5}, "late after an end mark"),
     ({"late": -20.0}, "tampered"), ({"moved": 3.0}, "moved there"), ({"behind": 4.0}, "hidden behind its end"),
     ({"clearing": 40.0}, "clearing the cache of new inputs"), ({"returning": 90.0}, "came back"),
     ({"hidden": -4.0}, "forged"), ({"behind": -1.8}, "forged"), ({"drift": 2.0}, "forged")],
    ids=["late", "hidden", "shrunken", "moved", "behind", "clearing", "back", "marks inside", "marks behind", "stamps"],
)
def test_time_put_around_the_calls_is_found(where: dict[str, float], words: str) -> None:
    wrong, _ = judged(**where)
    assert any(words in one for one in wrong), wrong


@pytest.mark.parametrize(
    "where",
    [{"late": 3.9}, {"hidden": 2.0}, {"moved": 2.4}, {"late": 3.0, "hidden": 1.5}, {"moved": 4.0, "behind": 3.0},
     {"late": 3.0, "moved": 2.0, "hidden": 1.0}],
    ids=["late", "hidden", "moved", "late and hidden", "moved and behind", "everywhere"],
)
def test_what_stays_below_the_limits_gains_no_more_than_what_is_free(where: dict[str, float]) -> None:
    _, latency = judged(**where)
    assert latency >= 60.0 - FREE_US - 0.7


def test_what_is_late_by_what_was_seen_of_honest_kernels_costs_them_nothing() -> None:
    """The middle of what H200 records say: 1.1 µs after the opening, 0.25 µs behind the end mark."""
    measured = times(latency=3.0)
    measured.openings = [us + 1.1 for us in measured.openings]
    measured.gaps = [us + 0.25 for us in measured.gaps]
    around = Around.of(measured, CLEAN)
    assert around.wrong() == [] and around.charge() == 0


def test_a_mark_behind_a_pair_may_come_as_soon_as_it_does_in_other_runners() -> None:
    """On an H200 after 1.75 µs or after 2.7, a runner or batch long; an honest kernel was accused of forging it."""
    around = Around.of(times(behind=-1.25), CLEAN)
    assert around.tail + CLEAN.tail == pytest.approx(1.75, abs=0.01) and around.wrong() == []


def test_a_clock_that_is_of_no_use_accuses_nobody() -> None:
    around = Around.of(times(drift=500.0), replace(CLEAN, drift=math.nan))
    assert around.wrong() == [] and "stamps +nan" in around.line()


def test_hiding_now_and_then_shows_in_the_average() -> None:
    measured = times(late=20.0)
    measured.add(times())
    wrong = Around.of(measured, CLEAN).wrong()
    assert any("after a gate opens" in one for one in wrong), wrong


def test_one_batch_on_time_in_four_excuses_nothing() -> None:
    measured = times(late=8.0)
    for late in (8.0, 8.0, 0.0):
        measured.add(times(late=late))
    assert any("after a gate opens" in one for one in Around.of(measured, CLEAN).wrong())


def test_gates_that_were_slow_to_open_now_and_then_accuse_nobody() -> None:
    measured = times()
    measured.openings[1] += 16.0
    measured.openings[4] += 300.0
    assert Expected.of(measured).opening == pytest.approx(CLEAN.opening, abs=0.01)
    assert Around.of(measured, CLEAN).wrong() == []


def test_a_second_call_that_has_to_write_back_what_the_first_left_is_no_hiding_place() -> None:
    """A call of 70 µs that writes more than the cache holds leaves up to 15 µs of writing to the next."""
    measured = times(latency=70.0)
    measured.seconds = [us + 12.0 for us in measured.seconds]
    written = Expected(opening=38.0, gap=6.0, tail=3.0, clearing=45.0, longer=13.0, longest=13.0, returning=90.0)
    around = Around.of(measured, written)
    assert around.wrong() == [] and around.charge() == 0
    # One that writes as much, but not to its outputs, is charged for what it leaves, and accused of nothing.
    small = Expected(opening=38.0, gap=6.0, tail=3.0, clearing=45.0, longer=0.2, longest=13.0, returning=90.0)
    around = Around.of(measured, small)
    assert around.wrong() == [] and 3.0 < around.charge() < 6.0

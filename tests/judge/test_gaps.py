"""Where the time around a GPU call may go, and where not. Figures like those measured on an H200."""

from __future__ import annotations

import pytest

from agentcore.judge.cuda_batches import BatchTimes, Seen, is_flushed, pairs
from agentcore.judge.gaps import Expected, hidden_work

CLEAN = Expected(opening=38.0, gap=6.0)


def times(calls: int = 32, latency: float = 60.0, late: float = 0.0, hidden: float = 0.0) -> BatchTimes:
    """One batch; ``late`` µs of every counted call are done before its begin mark, ``hidden`` behind its end mark."""
    measured, now = BatchTimes(), 0.0
    for pair in pairs(calls):
        opened = now
        begin = opened + CLEAN.opening + late
        end = begin + latency + 4.0 - late - hidden
        following = end + CLEAN.gap + hidden
        now = following + latency + 500.0
        measured.add_pair(
            Seen(
                round(opened * 1e3), [round(begin * 1e3), round(following * 1e3)],
                [round(end * 1e3), round((following + latency + 4.0) * 1e3)], [1] * len(pair), [b""] * len(pair),
            ),
            marks_us=4.0,
        )
    return measured


def test_an_honest_batch_hides_nothing() -> None:
    wrong, line = hidden_work(times(), CLEAN)
    assert wrong == [] and "gate to begin mark +0.00 µs" in line


def test_the_first_call_of_every_pair_counts_and_follows_a_flush() -> None:
    measured = times(calls=16)
    assert len(measured.latencies) == len(measured.openings) == len(measured.gaps) == 8
    assert all(us == pytest.approx(60.0, abs=0.01) for us in measured.latencies)
    assert all(is_flushed(pair.start) and not is_flushed(pair.start + 1) and len(pair) == 2 for pair in pairs(16))
    assert [call for pair in pairs(16) for call in pair] == list(range(16))


@pytest.mark.parametrize(
    ("late", "hidden", "words"),
    [(8.0, 0.0, "after a gate opens"), (3.5, 0.0, "after a gate opens"), (0.0, 3.5, "late after an end mark"),
     (-20.0, 0.0, "tampered")],
)
def test_time_put_around_the_calls_is_found(late: float, hidden: float, words: str) -> None:
    wrong, _ = hidden_work(times(late=late, hidden=hidden), CLEAN)
    assert any(words in one for one in wrong), wrong


def test_hiding_now_and_then_shows_in_the_average() -> None:
    measured = times(late=20.0)
    measured.add(times())
    wrong, _ = hidden_work(measured, CLEAN)
    assert any("after a gate opens" in one for one in wrong), wrong


def test_gates_that_were_slow_to_open_now_and_then_accuse_nobody() -> None:
    measured = times()
    measured.openings[1] += 16.0
    measured.openings[4] += 300.0
    assert Expected.of(measured).opening == pytest.approx(CLEAN.opening, abs=0.01)
    assert hidden_work(measured, CLEAN)[0] == []

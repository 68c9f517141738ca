"""Where the time between GPU calls may go, and where not. Figures like those measured on an H200."""

from __future__ import annotations

import pytest

from agentcore.judge.cuda_batches import BatchTimes, is_flushed
from agentcore.judge.gaps import Expected, hidden_work

L2 = 50 << 20
CLEAN = Expected(gap=2.5, flush_gap=60.0, opening=55.0)
FILLS = {"gap": CLEAN.gap, "flush_gap": CLEAN.flush_gap, "opening": 4.0, "flush_opening": CLEAN.opening}


def times(size: int = 48, pause: int = 17, latency: float = 60.0, late: dict[str, float] | None = None) -> BatchTimes:
    """The times of one batch from its marks; ``late`` adds µs to a kind of gap, and takes them off the call."""
    late = late or {}
    begins, ends, opened, now = [], [], {}, 0.0
    for call in range(size):
        kind = ("flush_" if is_flushed(call) else "") + ("opening" if call in (0, pause) else "gap")
        if call in (0, pause):
            now += 500.0
            opened[call] = round(now * 1e3)
        now += FILLS[kind] + late.get(kind, 0.0)
        begins.append(round(now * 1e3))
        now += latency + 1.0 - late.get(kind, 0.0)
        ends.append(round(now * 1e3))
    return BatchTimes.of(begins, ends, opened, 1.0)


def test_an_honest_batch_hides_nothing() -> None:
    wrong, line = hidden_work(times(), CLEAN, L2)
    assert wrong == [] and "+0.00 µs" in line


@pytest.mark.parametrize("pause", [1, 2, 16, 17, 46])
def test_counted_calls_follow_a_flush_and_are_followed_by_a_checked_gap(pause: int) -> None:
    measured = times(pause=pause)
    assert len(measured.latencies) == 23 + (pause % 2 == 0)
    assert all(us == pytest.approx(60.0, abs=0.01) for us in measured.latencies)
    assert len(measured.gaps) + len(measured.flush_gaps) == 46 and len(measured.opened) == 2
    assert len(measured.openings) + len(measured.flush_openings) == 2


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ({"gap": 3.5}, "late after an end mark"),
        ({"flush_gap": 30.0}, "late after a flush"),
        ({"flush_gap": -20.0}, "tampered"),
        ({"flush_gap": 8.0, "flush_opening": 8.0}, "after a gate opens"),
    ],
)
def test_time_put_between_the_calls_is_found(late: dict[str, float], words: str) -> None:
    wrong, _ = hidden_work(times(late=late), CLEAN, L2)
    assert any(words in one for one in wrong), wrong


def test_hiding_only_where_no_pause_was_noticed_makes_the_other_calls_longer() -> None:
    # Allowed for by the write-back of a dirty cache, were it not for the calls after a pause.
    wrong, _ = hidden_work(times(late={"flush_gap": 8.0}), CLEAN, L2)
    assert any("calls after a pause" in one for one in wrong), wrong


def test_gates_that_were_slow_to_open_now_and_then_accuse_nobody() -> None:
    measured = times()
    for pause in range(1, 7):
        measured.add(times(pause=pause))
    measured.flush_openings[1] += 16.0
    measured.flush_openings[4] += 300.0
    assert Expected.of(measured).opening == pytest.approx(CLEAN.opening, abs=0.01)
    assert hidden_work(measured, CLEAN, L2)[0] == []

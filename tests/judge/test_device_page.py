"""The page of flags and proofs a GPU batch runs by; no GPU is needed to look at it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from agentcore.judge.device_page import DevicePage, proof_positions
from agentcore.judge.runner import pages


@pytest.fixture
def page() -> Iterator[DevicePage]:
    made = DevicePage()
    yield made
    made.close()


def mark(page: DevicePage, call: int, which: int, token: int) -> None:
    """What ky_begin (0) and ky_end (1) do."""
    page._words[pages.MARK_OFFSET // 8 + 2 * call + which] = token


@pytest.mark.parametrize("seed", [0, 1, 2**62 + 12345, 2**63 - 1])
@pytest.mark.parametrize("words", [[1000], [3, 0, 70_000_000], [1, 1, 1, 1, 1, 1, 1, 1]])
def test_proof_positions_are_those_the_device_draws(seed: int, words: list[int]) -> None:
    (which,), (word,) = proof_positions(np.array([seed], dtype=np.uint64), words)
    for thread in range(pages.PROOF_WORDS):
        draw = pages.splitmix64((seed + thread) % 2**64)
        output = (draw >> 56) % len(words)
        assert which[thread] == output
        assert word[thread] == (draw & 0x00FFFFFFFFFFFFFF) % max(1, words[output])


def test_how_far_a_pair_came_is_said_to_the_last_word_of_the_grid_behind_it(page: DevicePage) -> None:
    token, held = 77, pages.HELD_OFFSET // 8
    missing = [
        "grid there", "cache cleared", "begin 2", "end 2", "begin 3", "end 3", "behind the pair",
        "grid behind it there", "cache cleared behind it",
    ]
    assert page.seen_of(range(2, 4), token).endswith(f"seen: nothing; missing: {', '.join(missing)}")
    page._words[held + 2 * pages.HELD_WORDS] = page._words[held + 2 * pages.HELD_WORDS + 1] = token
    for call in (2, 3):
        for which in (0, 1):
            mark(page, call, which, token)
    page._words[pages.OVER_OFFSET // 8 + 3] = page._words[held + 3 * pages.HELD_WORDS] = token
    assert page.seen_of(range(2, 4), token).endswith("; missing: cache cleared behind it")
    page._words[held + 3 * pages.HELD_WORDS + 1] = token
    assert page.seen_of(range(2, 4), token).endswith("; missing: nothing")


def test_splitmix64_gives_the_published_sequence() -> None:
    """The first three outputs for seed 1234567, from the generator's reference implementation."""
    gamma = 0x9E3779B97F4A7C15
    states = [(1234567 + i * gamma) % 2**64 for i in range(3)]
    assert [pages.splitmix64(s) for s in states] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423
    ]


def test_positions_of_one_seed_tell_nothing_about_the_next() -> None:
    positions = set(map(tuple, proof_positions(np.arange(200, dtype=np.uint64), [1 << 20])[1]))
    assert len(positions) == 200


def test_gates_open_up_to_a_call_and_reset_closes_them(page: DevicePage) -> None:
    page.admit(2)
    page.publish(4, 6, (11, 22))
    keys = pages.KEY_OFFSET // 8 + 8
    assert page._words[pages.DEVICE_ADMITTED] == 2 and page._words[pages.DEVICE_PUBLISHED] == 6
    assert page._words[pages.DEVICE_GATE] == 0 and page._words[keys] == 11 and page._words[keys + 1] == 0
    page.open_gates(7)
    assert page._words[pages.DEVICE_GATE] == 7 and page._words[keys + 1] == 22
    page.leave(5, 6, (33, 44))
    assert page._words[pages.DEVICE_LOOKED] == 6 and [*page._words[keys + 2 : keys + 4]] == [33, 44]
    page.open_all()
    for word in (pages.DEVICE_GATE, pages.DEVICE_ADMITTED, pages.DEVICE_PUBLISHED, pages.DEVICE_LOOKED):
        assert page._words[word] >= pages.MAX_CALLS
    page.set_seed(3, 2**63 - 1)
    page.reset()
    assert not any(page._words)


def test_nothing_in_the_page_overlaps() -> None:
    words = [pages.DEVICE_GATE, pages.DEVICE_SLOT, pages.DEVICE_SEQUENCE, pages.DEVICE_ADMITTED, pages.DEVICE_PUBLISHED,
             pages.DEVICE_ASKED, pages.DEVICE_LOOKED, pages.DEVICE_LOOKED + 1]
    areas = [(8 * word, 8) for word in words] + [
        (offset, size * pages.MAX_CALLS) for offset, size in (
            (pages.SEED_OFFSET, 8), (pages.OVER_OFFSET, 8), (pages.MARK_OFFSET, 16),
            (pages.HELD_OFFSET, 8 * pages.HELD_WORDS), (pages.KEY_OFFSET, 16),
            (pages.PROOF_OFFSET, 4 * pages.PROOF_WORDS), (pages.OVER_OFFSET + pages.STAMP_BYTES, 8),
            (pages.MARK_OFFSET + pages.STAMP_BYTES, 16),
        )
    ]
    areas.sort()
    assert all(begin + size <= after for (begin, size), (after, _) in itertools.pairwise(areas))
    assert pages.DEVICE_ASKED == pages.DEVICE_PUBLISHED + 1  # gate.cu looks behind the one for the other
    assert areas[-1][0] + areas[-1][1] <= pages.DEVICE_PAGE_BYTES and pages.DEVICE_PAGE_BYTES % 4096 == 0


def test_what_a_grid_says_is_read_where_the_device_writes_it(page: DevicePage) -> None:
    held = pages.HELD_OFFSET // 8 + 4 * pages.HELD_WORDS
    assert page.arrived(4, 9, 0.01) is None and page.cleared(4, 9, 0.01) is None
    page._words[held], page._words[held + 2], page._words[held + 3] = 9, 5, 6
    assert page.arrived(4, 9, 0.01) is not None and page.cleared(4, 9, 0.01) is None
    page._words[held + 1] = 9
    assert page.cleared(4, 9, 0.01) is not None and page.sums(4) == (5, 6)


def test_a_grid_that_is_asked_must_answer_anew(page: DevicePage) -> None:
    held = pages.HELD_OFFSET // 8 + 4 * pages.HELD_WORDS
    page._words[held] = 9
    assert page.recall(4, 9, 0.01) is None and page._words[pages.DEVICE_ASKED] == 5

    def device() -> None:
        while page._words[pages.DEVICE_ASKED] < 7:
            time.sleep(0)
        page._words[held + 2 * pages.HELD_WORDS] = 9

    worker = threading.Thread(target=device)
    worker.start()
    assert page.recall(6, 9, 5.0) is not None
    worker.join()


def test_watching_ends_when_every_mark_shows_the_token_and_keeps_each_proof_as_it_was(page: DevicePage) -> None:
    token = 0xABCDEF

    def device() -> None:
        for call in range(3):
            mark(page, call, 0, token)
            at = pages.PROOF_OFFSET + 4 * pages.PROOF_WORDS * call
            page._mapping[at : at + 4 * pages.PROOF_WORDS] = np.full(pages.PROOF_WORDS, call, np.uint32).tobytes()
            mark(page, call, 1, token)
        page._words[pages.OVER_OFFSET // 8 + 2] = token

    worker = threading.Thread(target=device)
    worker.start()
    seen = page.watch(range(3), token, timeout_s=5)
    worker.join()
    assert seen is not None
    begins, ends, proofs = seen.begins_ns, seen.ends_ns, seen.proofs
    assert seen.over_ns >= ends[-1]
    assert all(b <= e for b, e in zip(begins, ends, strict=True)) and ends == sorted(ends)
    assert [set(np.frombuffer(p, np.uint32).tolist()) for p in proofs] == [{0}, {1}, {2}]


def test_marks_of_another_token_do_not_count(page: DevicePage) -> None:
    for which in (0, 1):
        mark(page, 0, which, 41)
    assert page.watch(range(1), 42, timeout_s=0.05) is None
    assert page.watch(range(1), 41, timeout_s=0.05) is None  # the mark behind it is missing

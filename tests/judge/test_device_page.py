"""The page of flags and proofs a GPU batch runs by; no GPU is needed to look at it."""

from __future__ import annotations

import threading
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
    page.open_gates(7)
    assert page._words[0] == 7
    page.open_all()
    assert page._words[0] >= pages.MAX_CALLS
    page.set_seed(3, 2**63 - 1)
    page.reset()
    assert not any(page._words)


def test_seeds_marks_and_proofs_do_not_overlap(page: DevicePage) -> None:
    for call in range(pages.MAX_CALLS):
        page.set_seed(call, 2**63 - 1)
    assert page._words[0] == 0
    assert not any(page._words[pages.MARK_OFFSET // 8 :])
    assert 16 * pages.MAX_CALLS <= pages.PROOF_OFFSET - pages.MARK_OFFSET
    assert 8 * pages.MAX_CALLS <= pages.MARK_OFFSET - pages.SEED_OFFSET


def test_watching_ends_when_every_mark_shows_the_token_and_keeps_each_proof_as_it_was(page: DevicePage) -> None:
    token = 0xABCDEF

    def device() -> None:
        for call in range(3):
            mark(page, call, 0, token)
            at = pages.PROOF_OFFSET + 4 * pages.PROOF_WORDS * call
            page._mapping[at : at + 4 * pages.PROOF_WORDS] = np.full(pages.PROOF_WORDS, call, np.uint32).tobytes()
            mark(page, call, 1, token)

    worker = threading.Thread(target=device)
    worker.start()
    seen = page.watch(range(3), token, timeout_s=5)
    worker.join()
    assert seen is not None
    begins, ends, proofs = seen
    assert all(b <= e for b, e in zip(begins, ends, strict=True)) and ends == sorted(ends)
    assert [set(np.frombuffer(p, np.uint32).tolist()) for p in proofs] == [{0}, {1}, {2}]


def test_marks_of_another_token_do_not_count(page: DevicePage) -> None:
    for which in (0, 1):
        mark(page, 0, which, 41)
    assert page.watch(range(1), 42, timeout_s=0.05) is None

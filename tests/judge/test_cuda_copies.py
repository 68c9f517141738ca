"""Which way the judge copies while a grid holds the GPU: found out by trying, here against the fake libcuda."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agentcore.judge import cuda_copies
from agentcore.judge.cuda_copies import PROBE_BYTES, Copier, StillCopying, Way
from tests.judge.fake_libcuda import driver_of

SLOW_US = "20000"


@pytest.fixture
def copier(fake_libcuda: Path) -> Copier:
    return Copier(driver_of(fake_libcuda))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded host takes long to wake a thread."""
    monkeypatch.setattr(cuda_copies, "HELD_US", 10_000.0)


def held(doing: Callable[[], None]) -> None:
    doing()


def chosen(copier: Copier) -> Way:
    copier.choose_way(torch.zeros(PROBE_BYTES, dtype=torch.uint8), held)
    return copier.way


@pytest.mark.parametrize("way", list(Way))
def test_whatever_the_way_bytes_arrive(copier: Copier, way: Way) -> None:
    copier.way = way
    sources = [torch.randint(0, 256, (n,), dtype=torch.uint8) for n in (1, 4096, 70_001)]
    to = [torch.zeros_like(source) for source in sources]
    room = copier.room((5,))
    assert (room is not None) == (way is Way.HOST)
    copier.copy(list(zip(to, sources, strict=True)))
    copier.wait()
    assert all(torch.equal(a, b) for a, b in zip(to, sources, strict=True))
    back = torch.zeros_like(sources[2])
    copier.fetch(back, to[2])
    copier.wait()
    assert torch.equal(back, sources[2])
    copier.copy([])
    copier.wait()


@pytest.mark.parametrize(
    ("slow", "way"),
    [
        ([], Way.ENGINE), (["FAKE_ENGINE_US"], Way.PLAIN), (["FAKE_ENGINE_REFUSES"], Way.PLAIN),
        (["FAKE_ENGINE_US", "FAKE_PLAIN_US"], Way.HOST),
    ],
)
def test_the_first_way_that_is_quick_is_taken(
    copier: Copier, patient: None, monkeypatch: pytest.MonkeyPatch, slow: list[str], way: Way
) -> None:
    for name in slow:
        monkeypatch.setenv(name, SLOW_US)
    assert chosen(copier) is way
    assert copier.resets_held and f"copied {way}" in copier.line()


def test_where_none_is_quick_the_quickest_is_taken(
    copier: Copier, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, us in (("FAKE_ENGINE_US", "40000"), ("FAKE_PLAIN_US", "20000"), ("FAKE_HOST_US", "60000")):
        monkeypatch.setenv(name, us)
    assert chosen(copier) is Way.PLAIN and copier.held_us[Way.HOST] > 50_000


def test_what_does_not_finish_while_the_gpu_is_held_is_given_up(
    copier: Copier, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_copies, "WAIT_S", 0.05)
    calls = 0

    def holding(doing: Callable[[], None]) -> None:
        nonlocal calls
        calls += 1
        with monkeypatch.context() as patch:
            if calls == 1:  # the copy engine
                patch.setenv("FAKE_ENGINE_US", "300000")
            doing()

    copier.choose_way(torch.zeros(PROBE_BYTES, dtype=torch.uint8), holding)
    assert copier.way is Way.PLAIN and copier.held_us[Way.ENGINE] == float("inf")


def test_a_wait_says_what_it_waited_for(copier: Copier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_copies, "WAIT_S", 0.02)
    monkeypatch.setenv("FAKE_ENGINE_US", "200000")
    to, source = torch.zeros(64, dtype=torch.uint8), torch.ones(64, dtype=torch.uint8)
    copier.copy([(to, source)])
    begun = time.monotonic()
    with pytest.raises(StillCopying, match=r"64 bytes \(copy engine\) did not finish within 0\.02 s"):
        copier.wait()
    assert time.monotonic() - begun < 0.19
    time.sleep(0.25)
    copier.wait()


def test_a_reset_that_waits_for_the_grid_is_left_out_while_it_is_there(
    copier: Copier, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RESET_US", SLOW_US)
    assert chosen(copier) is Way.ENGINE and not copier.resets_held
    assert "are not reset" in copier.line()

"""How the judge copies on the device, against the fake libcuda. What a device makes of it is for test_gpu."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agentcore.judge import cuda_copies
from agentcore.judge.cuda_copies import Copier, StillCopying
from tests.judge.fake_libcuda import copier_of


@pytest.fixture
def copier(fake_libcuda: Path) -> Copier:
    return copier_of(fake_libcuda)


def test_bytes_arrive_there_and_back(copier: Copier) -> None:
    sources = [torch.randint(0, 256, (n,), dtype=torch.uint8) for n in (1, 4096, 70_001)]
    sources.append(sources[2][1:70_000])  # aligned to nothing
    to = [torch.zeros_like(source) for source in sources]
    copier.copy(list(zip(to, sources, strict=True)))
    copier.wait()
    assert all(torch.equal(a, b) for a, b in zip(to, sources, strict=True))
    back = torch.zeros_like(sources[2])
    copier.fetch(back, to[2])
    copier.wait()
    assert torch.equal(back, sources[2])
    copier.copy([])
    copier.wait()


def test_what_runners_asked_the_cache_to_keep_is_let_go_before_anything_is_written(
    copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, source = torch.zeros(64, dtype=torch.uint8), torch.ones(64, dtype=torch.uint8)
    seen: list[int] = []
    monkeypatch.setattr(copier, "reset", lambda: seen.append(int(to.sum())))
    copier.copy([(to, source)])
    copier.wait()
    assert seen == [0] and int(to.sum()) == 64


def test_a_device_that_keeps_no_lines_is_none_the_worse(copier: Copier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NO_RESETS", "1")
    copier.reset()


def test_a_wait_says_what_it_waited_for(copier: Copier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_copies, "WAIT_S", 0.02)
    monkeypatch.setenv("FAKE_HOST_US", "400000")
    to, source = torch.zeros(64, dtype=torch.uint8), torch.ones(64, dtype=torch.uint8)
    copier.fetch(to, source)
    with pytest.raises(StillCopying, match=r"copies of 64 bytes did not finish within 0\.02 s"):
        copier.wait()
    monkeypatch.setattr(cuda_copies, "WAIT_S", 20.0)
    copier.wait()

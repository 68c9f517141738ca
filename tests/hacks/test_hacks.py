"""The corpus against the real judge: a cheat is refused by the check that names it, honest work passes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentcore.vocabulary import HardwareName
from tests.hacks.corpus import Case, discover
from tests.hacks.outcome import run_case

CASES = discover()


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hacks-cache")


@pytest.mark.parametrize("case", [c for c in CASES if not c.on_gpu], ids=lambda c: c.name)
def test_the_judge_treats_a_cpu_case_as_it_deserves(case: Case, cache_dir: Path) -> None:
    outcome = run_case(case, HardwareName.CPU, cache_dir)
    if not outcome.ok:  # another program on this machine can spoil one evaluation; a hole or a false alarm stays
        outcome = run_case(case, HardwareName.CPU, cache_dir)
    assert outcome.ok, f"{case.path}: {outcome.why}"


@pytest.mark.gpu
@pytest.mark.parametrize("case", [c for c in CASES if c.on_gpu], ids=lambda c: c.name)
def test_the_judge_treats_a_gpu_case_as_it_deserves(case: Case, cache_dir: Path) -> None:
    hardware = _gpu()
    if hardware is None:
        pytest.skip("no NVIDIA GPU of a known class on this machine")
    outcome = run_case(case, hardware, cache_dir)
    assert outcome.ok, f"{case.path}: {outcome.why}"


def _gpu() -> HardwareName | None:
    if shutil.which("nvidia-smi") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name(0).lower()
    return next((h for h in HardwareName if h.is_gpu and h.value in name), None)

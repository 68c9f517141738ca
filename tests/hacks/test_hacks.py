"""The corpus against the real judge: a cheat is refused by the check that names it, honest work passes.

Those of the CPU's cheats that are refused for what they answer, however busy the machine, are in test_by_answer.
"""

from __future__ import annotations

import shutil

import pytest

from agentcore.judge.evaluate import Judge
from agentcore.selftest.canary import Canary
from agentcore.selftest.corpus import Case, default_root, discover
from agentcore.selftest.outcome import run_case
from agentcore.vocabulary import HardwareName
from tests.hacks.test_by_answer import is_refused_by_answer, skip_what_is_missing

CASES = discover(default_root())
TIMED = [case for case in CASES if case.runs_on(HardwareName.CPU) and not is_refused_by_answer(case)]


@pytest.mark.parametrize("case", TIMED, ids=lambda c: c.name)
def test_the_judge_treats_a_cpu_case_as_it_deserves(case: Case, host_judge: Judge, canary: Canary) -> None:
    skip_what_is_missing(case)
    outcome = run_case(case, host_judge, canary)
    assert outcome.ok, f"{case.path}: {outcome.why}"


@pytest.fixture(scope="module")
def device_judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    hardware = _gpu()
    if hardware is None:
        pytest.skip("no NVIDIA GPU of a known class on this machine")
    return Judge(hardware, tmp_path_factory.mktemp("hacks-cache"))


@pytest.mark.gpu
@pytest.mark.parametrize("case", [c for c in CASES if True in c.on_gpu], ids=lambda c: c.name)
def test_the_judge_treats_a_gpu_case_as_it_deserves(case: Case, device_judge: Judge, canary: Canary) -> None:
    skip_what_is_missing(case)
    outcome = run_case(case, device_judge, canary)
    assert outcome.ok, f"{case.path}: {outcome.why}"


def _gpu() -> HardwareName | None:
    if shutil.which("nvidia-smi") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name(0).lower()
    return next((h for h in HardwareName if h.is_gpu and h.value in name), None)

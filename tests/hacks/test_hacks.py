"""The corpus against the real judge: a cheat is refused by the check that names it, honest work passes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcore.judge.evaluate import Judge
from agentcore.selftest.canary import Canary, planted
from agentcore.selftest.corpus import Case, default_root, discover
from agentcore.selftest.outcome import run_case
from agentcore.selftest.run import prebuild
from agentcore.vocabulary import HardwareName

CASES = discover(default_root())


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    with planted() as bait:
        yield bait


@pytest.fixture(scope="module")
def host_judge(
    tmp_path_factory: pytest.TempPathFactory, lay_cpu_rates: Callable[[Path], Path], canary: Canary,
    request: pytest.FixtureRequest,
) -> Judge:
    """One judge for all cases, as between the evaluations of a worker: it also shows what one case does to the next.

    What this run has selected is built beforehand, as many at a time as there are cores.
    """
    judge = Judge(HardwareName.CPU, lay_cpu_rates(tmp_path_factory.mktemp("hacks-cache")))
    selected = {id(item.callspec.params.get("case")) for item in request.session.items if hasattr(item, "callspec")}
    prebuild([case for case in CASES if id(case) in selected and case.runs_on(judge.hardware)], judge, canary)
    return judge


@pytest.mark.parametrize("case", [c for c in CASES if c.runs_on(HardwareName.CPU)], ids=lambda c: c.name)
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


def skip_what_is_missing(case: Case) -> None:
    if module := case.missing():
        pytest.skip(f"the Python module {module} is not installed")


def _gpu() -> HardwareName | None:
    if shutil.which("nvidia-smi") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name(0).lower()
    return next((h for h in HardwareName if h.is_gpu and h.value in name), None)

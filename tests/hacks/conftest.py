"""One judge of this host's CPU for a file of cases, with what they build made beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcore.judge.evaluate import Judge
from agentcore.selftest.canary import Canary, planted
from agentcore.selftest.run import prebuild
from agentcore.vocabulary import HardwareName


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

    What this run has selected of a file is built beforehand, as many at a time as there are cores.
    """
    judge = Judge(HardwareName.CPU, lay_cpu_rates(tmp_path_factory.mktemp("hacks-cache")))
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    cases = {case.name: case for item in items if (case := item.callspec.params.get("case"))}
    prebuild([case for case in cases.values() if case.runs_on(judge.hardware)], judge, canary)
    return judge

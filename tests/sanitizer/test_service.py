"""A sanitizer run through the judge's own process, as a worker asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.judge.service import JudgeService
from agentcore.sandbox import SandboxUnavailable, find_sandbox
from agentcore.sanitizer.tools import HOST_TOOLS
from agentcore.vocabulary import HardwareName, Language, Verdict
from tests.sanitizer.conftest import HERE, KERNELS


def test_a_worker_asks_the_judge_and_gets_findings(tmp_path: Path, build_cache: Path) -> None:
    try:
        find_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    tmp_path.chmod(0o755)
    (tmp_path / "kernel.cpp").write_text((KERNELS / "cpp" / "oob_write.cpp").read_text())
    with JudgeService(HardwareName.CPU, build_cache) as judge:
        result = judge.evaluate(HERE / "problem", tmp_path, Language.CPP, deadline_s=120, sanitize=True)
    assert result.verdict is Verdict.FINDINGS
    assert result.sanitizer is not None
    assert result.sanitizer.errors()[0].file == "kernel.cpp"
    # The stamp says which tools the host has: what a portal demands a run by.
    assert result.stamp.sanitizers == [tool.value for tool in HOST_TOOLS]

"""Every sandbox test runs against each kind that this host can make."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.sandbox import Completed, Limits, Sandbox, SandboxUnavailable, find_sandbox

LIMITS = Limits(wall_s=30)


def wait_until(condition: Callable[[], object], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture(params=["bubblewrap", "unshare"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return find_sandbox(request.param)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def python(sandbox: Sandbox) -> Callable[..., Completed]:
    """Runs a Python program in the sandbox."""

    def run(program: str, *, limits: Limits = LIMITS, **options: object) -> Completed:
        return sandbox.run([sys.executable, "-I", "-S", "-c", program], limits=limits, **options)

    return run

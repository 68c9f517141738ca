"""Every sandbox test runs against each kind that this host can make."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from agentcore.sandbox import Completed, Limits, Sandbox, SandboxUnavailable, find_sandbox

LIMITS = Limits(wall_s=30)


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

"""Just-in-time compilation: what a first call takes is never timed, and has a limit of its own."""

from __future__ import annotations

import pytest

from agentcore.judge.measurement import Effort
from agentcore.vocabulary import CheckName, Language, Verdict
from tests.judge.conftest import Bench, failing

TIMED_US = 500_000.0


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls may take one second, first calls and loading three."""
    quick = Effort(
        min_calls=6, max_calls=8, budget_s=0.1, device_budget_s=0.1, precision=1.0, call_timeout_s=1.0,
        first_call_timeout_s=3.0,
    )
    monkeypatch.setattr(Effort, "quick", classmethod(lambda _: quick))


def kernel(first: float = 0.0, later: float = 0.0, loading: float = 0.0) -> str:
    """y = 2x in torch, that takes so many seconds more: to load, to be called first, to be called again."""
    return f"""
import time, torch
time.sleep({loading})
calls = 0
def run(x, y):
    global calls
    calls += 1
    time.sleep({first} if calls == 1 else {later})
    torch.mul(x, 2, out=y)
"""


@pytest.mark.usefixtures("limits")
def test_a_first_call_may_take_longer_than_a_call_and_is_not_in_the_latency(bench: Bench) -> None:
    result = bench.judge_kernel(kernel(first=1.8), language=Language.TORCH)
    assert result.passed, result.message
    assert all(w.latency_us is not None and w.latency_us < TIMED_US for w in result.workloads)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("slow", "said"),
    [
        ({"first": 6.0}, "did not return within 3 s"),
        ({"later": 2.5}, "did not return within 1 s"),
        ({"loading": 6.0}, "no answer within 3 s while waiting for 'loaded'"),
    ],
    ids=["first call", "later call", "loading"],
)
def test_every_limit_is_a_timeout_that_names_it(bench: Bench, slow: dict[str, float], said: str) -> None:
    result = bench.judge_kernel(kernel(**slow), language=Language.TORCH)
    assert result.verdict is Verdict.TIMEOUT and failing(result) == {CheckName.IN_TIME}
    assert said in result.message


def test_the_limits_are_those_that_are_documented() -> None:
    assert (Effort().first_call_timeout_s, Effort().call_timeout_s) == (60.0, 10.0)

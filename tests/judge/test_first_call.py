"""Just-in-time compilation: what a first call takes is never timed, and has a limit of its own."""

from __future__ import annotations

import time

import pytest

from agentcore.judge.measurement import Effort
from agentcore.problems import Problem
from agentcore.vocabulary import CheckName, Verdict
from tests.judge.conftest import DOUBLE_KERNEL, Bench, failing, whole_kernel

TIMED_US = 500_000.0


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls may take one second, first calls and loading three."""
    quick = Effort(
        min_calls=6, max_calls=8, budget_s=0.1, device_budget_s=0.1, precision=1.0, call_timeout_s=1.0,
        first_call_timeout_s=3.0,
    )
    monkeypatch.setattr(Effort, "quick", classmethod(lambda _: quick))


def kernel(problem: Problem, first: float = 0.0, later: float = 0.0, loading: float = 0.0) -> str:
    """y = 2x in C++, that takes so many seconds more: to load, to be called first, to be called again.

    In Python, importing torch would be part of loading, and that takes what it takes on a busy machine.
    """
    waits = f"static int calls = 0; usleep(1e6 * (calls++ == 0 ? {first} : {later}));"
    slow = f"__attribute__((constructor)) static void slow() {{ usleep(1e6 * {loading}); }}\n"
    return whole_kernel(waits + DOUBLE_KERNEL, problem) + slow


@pytest.mark.usefixtures("limits")
def test_a_first_call_may_take_longer_than_a_call_and_is_not_in_the_latency(bench: Bench) -> None:
    problem = bench.problem()
    result = bench.judge_kernel(kernel(problem, first=1.8), problem)
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
def test_every_limit_is_a_timeout_that_names_it_and_waiting_for_it_burns_no_core(
    bench: Bench, slow: dict[str, float], said: str
) -> None:
    problem = bench.problem()
    begun_s = time.process_time()
    result = bench.judge_kernel(kernel(problem, **slow), problem)
    assert time.process_time() - begun_s < 2  # of which all but the waiting takes a few tenths
    assert result.verdict is Verdict.TIMEOUT and failing(result) == {CheckName.IN_TIME}
    assert said in result.message


def test_the_limits_are_those_that_are_documented() -> None:
    assert (Effort().first_call_timeout_s, Effort().call_timeout_s) == (60.0, 10.0)

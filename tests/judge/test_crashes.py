"""What is asked after a crash: a second runner, when nothing of the first is left but what it told. On the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentcore.judge.host_target import HostRunner, HostTarget
from agentcore.judge.measurement import Measurement, Verifier
from agentcore.judge.session import RunnerFailure, RunnerSession
from agentcore.vocabulary import CheckName, Language, Verdict
from tests.judge.conftest import Bench, failing

HONEST = "import torch\n\ndef run(x, y):\n    print('was here', flush=True)\n    torch.mul(x, 2, out=y)\n"


@pytest.fixture
def alive_at_start(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """For each runner of an evaluation: which of those before it were alive when it was started."""
    seen: list[list[bool]] = []
    sessions: list[RunnerSession] = []
    assert isinstance(bench.judge.target, HostTarget)
    start: Callable[..., HostRunner] = bench.judge.target.start

    def starting(*args: object) -> HostRunner:
        seen.append([session.alive() for session in sessions])
        runner = start(*args)
        sessions.append(runner.session)
        return runner

    monkeypatch.setattr(bench.judge.target, "start", starting)
    return seen


def test_a_runner_that_reported_an_error_is_gone_before_another_is_asked_and_what_it_told_is_not_lost(
    bench: Bench, alive_at_start: list[list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does whose device reports an error: it lives on, unlike one that crashes."""
    measure = HostRunner.measure

    def failing_measure(runner: HostRunner, verifier: Verifier) -> Measurement:
        measure(runner, verifier)
        raise RunnerFailure("error", "an error of the device")

    monkeypatch.setattr(HostRunner, "measure", failing_measure)
    result = bench.judge_kernel(HONEST, language=Language.TORCH)
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.RUNS}
    assert alive_at_start == [[], [False], [False, False]]
    assert result.runner_log.startswith("was here")


def test_a_runner_that_left_by_itself_is_still_known_to_have_when_it_is_gone(
    bench: Bench, alive_at_start: list[list[bool]]
) -> None:
    result = bench.judge_kernel("_exit(0);")
    assert result.verdict is Verdict.REWARD_HACK and CheckName.CHANNEL_INTACT in failing(result)
    assert alive_at_start == [[], [False]]


def test_a_second_runner_that_cannot_be_killed_is_the_hosts_trouble_too(
    bench: Bench, alive_at_start: list[list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    close = RunnerSession.close

    def closing(session: RunnerSession) -> bool:
        close(session)
        session.left_behind = len(alive_at_start) == 2
        return not session.left_behind

    monkeypatch.setattr(RunnerSession, "close", closing)
    result = bench.judge_kernel("raise(SIGSEGV);")
    assert result.verdict is Verdict.INFRA_ERROR and "could not be killed" in result.message

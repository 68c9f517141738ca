"""Which check decides the verdict."""

from __future__ import annotations

import json

import pytest

from agentcore.judge.findings import MAX_MESSAGE, Findings
from agentcore.judge.result import Check
from agentcore.vocabulary import CheckName, CheckStatus, Verdict


def test_without_a_failure_the_verdict_is_passed() -> None:
    findings = Findings()
    findings.record(CheckName.RUNS, True)
    findings.skip(CheckName.SANDBOXED, "by explicit setting")
    assert findings.verdict() is Verdict.PASSED and not findings.failed and findings.message() == ""


def test_what_never_ran_is_compiled_at_best() -> None:
    findings = Findings()
    findings.record(CheckName.COMPILES, True)
    assert findings.verdict(measured=False) is Verdict.COMPILED
    findings.fail(CheckName.COMPILES, "x")
    assert findings.verdict(measured=False) is Verdict.COMPILE_ERROR


def test_a_failure_is_not_overwritten_by_what_comes_later() -> None:
    findings = Findings()
    findings.fail(CheckName.MATCHES_REFERENCE, "call 3")
    findings.record(CheckName.MATCHES_REFERENCE, True)
    findings.fail(CheckName.MATCHES_REFERENCE, "call 9")
    findings.skip(CheckName.MATCHES_REFERENCE, "no")
    assert findings.message() == "call 3"


@pytest.mark.parametrize(
    ("failed", "verdict"),
    [
        ({CheckName.INFRASTRUCTURE, CheckName.INPUTS_INTACT}, Verdict.INFRA_ERROR),
        ({CheckName.COMPILES}, Verdict.COMPILE_ERROR),
        ({CheckName.INPUTS_INTACT, CheckName.MATCHES_REFERENCE, CheckName.RUNS}, Verdict.REWARD_HACK),
        ({CheckName.GUARDS_INTACT, CheckName.OUTPUTS_WRITTEN}, Verdict.REWARD_HACK),
        ({CheckName.COMPLETE_ON_TIME, CheckName.MATCHES_REFERENCE}, Verdict.REWARD_HACK),
        ({CheckName.FRESH_EVERY_CALL, CheckName.MATCHES_REFERENCE}, Verdict.REWARD_HACK),
        ({CheckName.CHANNEL_INTACT, CheckName.IN_TIME}, Verdict.REWARD_HACK),
        ({CheckName.IN_TIME, CheckName.RUNS}, Verdict.TIMEOUT),
        ({CheckName.LOADS}, Verdict.RUNTIME_ERROR),
        ({CheckName.RUNS, CheckName.MATCHES_REFERENCE}, Verdict.RUNTIME_ERROR),
        ({CheckName.MATCHES_REFERENCE, CheckName.BELOW_LIGHT_SPEED}, Verdict.INCORRECT),
        ({CheckName.OUTPUTS_WRITTEN, CheckName.QUIET_DEVICE}, Verdict.INCORRECT),
        ({CheckName.QUIET_DEVICE, CheckName.CLOCK_AGREES}, Verdict.INFRA_ERROR),
        ({CheckName.CLOCK_AGREES, CheckName.BELOW_LIGHT_SPEED}, Verdict.CLOCK_MISMATCH),
        ({CheckName.BELOW_LIGHT_SPEED}, Verdict.FASTER_THAN_LIGHT),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_the_gravest_failure_decides_verdict_and_message(failed: set[CheckName], verdict: Verdict) -> None:
    findings = Findings()
    for name in sorted(failed, reverse=True):
        findings.fail(name, f"because of {name}")
    assert findings.verdict() is verdict
    assert findings.message().removeprefix("because of ") in failed


@pytest.mark.parametrize("name", list(CheckName))
def test_every_check_that_fails_means_some_verdict_other_than_passed(name: CheckName) -> None:
    findings = Findings()
    findings.fail(name, "x")
    assert findings.verdict() is not Verdict.PASSED and findings.message() == "x"


def test_checks_come_in_the_vocabularys_order() -> None:
    findings = Findings()
    for name in reversed(CheckName):
        findings.record(name, True)
    assert [check.name for check in findings.checks()] == list(CheckName)


def test_a_hostile_message_is_bounded_and_fit_for_every_store() -> None:
    findings = Findings()
    findings.fail(CheckName.RUNS, "\x00\ud800 " + "x" * 100_000)
    message = findings.message()
    assert len(message) <= MAX_MESSAGE and "\x00" not in message
    stored = Check(name=CheckName.RUNS, status=CheckStatus.FAIL, message=message).model_dump_json()
    assert json.loads(stored.encode())["message"] == message


def test_what_a_kernel_says_commands_no_terminal() -> None:
    findings = Findings()
    findings.fail(CheckName.RUNS, "a\x1b[2J\x1b]0;title\x07b\rc\x9b31m\u202ed\n\te")
    assert findings.message() == "ab\nc31md\n\te"

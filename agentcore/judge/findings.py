"""Collects checks and decides the verdict from them. The only place that maps a finding to a verdict."""

from __future__ import annotations

from agentcore.build.log import clean_text
from agentcore.judge.result import Check
from agentcore.vocabulary import CheckName, CheckStatus, Verdict

# In order of precedence: the first failed check that stands here decides.
_VERDICTS: tuple[tuple[CheckName, Verdict], ...] = (
    (CheckName.INFRASTRUCTURE, Verdict.INFRA_ERROR),
    (CheckName.COMPILES, Verdict.COMPILE_ERROR),
    (CheckName.INPUTS_INTACT, Verdict.REWARD_HACK),
    (CheckName.GUARDS_INTACT, Verdict.REWARD_HACK),
    (CheckName.CHANNEL_INTACT, Verdict.REWARD_HACK),
    (CheckName.COMPLETE_ON_TIME, Verdict.REWARD_HACK),
    (CheckName.FRESH_EVERY_CALL, Verdict.REWARD_HACK),
    (CheckName.STEADY_WORK, Verdict.REWARD_HACK),
    (CheckName.LANGUAGE_RULES, Verdict.REWARD_HACK),
    (CheckName.SANDBOXED, Verdict.REWARD_HACK),
    (CheckName.SANITIZERS_CLEAN, Verdict.FINDINGS),
    (CheckName.IN_TIME, Verdict.TIMEOUT),
    (CheckName.LOADS, Verdict.RUNTIME_ERROR),
    (CheckName.RUNS, Verdict.RUNTIME_ERROR),
    (CheckName.OUTPUTS_WRITTEN, Verdict.INCORRECT),
    (CheckName.MATCHES_REFERENCE, Verdict.INCORRECT),
    (CheckName.QUIET_DEVICE, Verdict.INFRA_ERROR),
    (CheckName.CLOCK_AGREES, Verdict.CLOCK_MISMATCH),
    (CheckName.BELOW_LIGHT_SPEED, Verdict.FASTER_THAN_LIGHT),
)


MAX_MESSAGE = 4000


def plain(text: str) -> str:
    """Text that any store, JSON reader and terminal takes, whoever wrote it: bounded, no NUL, no half surrogates, no
    escape sequences or other controls but newline and tab.
    """
    return clean_text(text[:MAX_MESSAGE].encode("utf-8", "replace").decode().replace("\x00", "\ufffd"))


class Findings:
    """The checks of one scope (an evaluation or a workload): a failure is never overwritten by a later pass."""

    def __init__(self) -> None:
        self._checks: dict[CheckName, Check] = {}

    def record(self, name: CheckName, ok: bool, message: str = "") -> bool:
        """Note a pass or a failure; returns ``ok``."""
        status = CheckStatus.PASS if ok else CheckStatus.FAIL
        return self._set(Check(name=name, status=status, message=plain(message)))

    def fail(self, name: CheckName, message: str) -> None:
        self.record(name, False, message)

    def skip(self, name: CheckName, why: str) -> None:
        self._set(Check(name=name, status=CheckStatus.SKIP, message=plain(why)))

    def record_sandbox(self, kind: str, consequence: str = "") -> None:
        """Note ``sandboxed``: passed, or skipped where there was none, with what follows from that."""
        if kind == "none":
            self.skip(CheckName.SANDBOXED, f"no sandbox, by explicit setting{consequence}")
        else:
            self.record(CheckName.SANDBOXED, True)

    def _set(self, check: Check) -> bool:
        before = self._checks.get(check.name)
        if before is None or before.status is not CheckStatus.FAIL:
            self._checks[check.name] = check
        return check.status is not CheckStatus.FAIL

    @property
    def failed(self) -> bool:
        return any(c.status is CheckStatus.FAIL for c in self._checks.values())

    def checks(self) -> list[Check]:
        """In the vocabulary's order."""
        return [self._checks[name] for name in CheckName if name in self._checks]

    def verdict(self, *, measured: bool = True) -> Verdict:
        """What the checks lead to. Without a failure: passed, or compiled where nothing ran (not ``measured``)."""
        return verdict_of(self.checks(), measured=measured)

    def message(self) -> str:
        """The message of the check that decided the verdict."""
        deciding = deciding_check(self.checks())
        return self._checks[deciding].message if deciding else ""


def deciding_check(checks: list[Check]) -> CheckName | None:
    """The failed check that the verdict follows from; None where none failed."""
    failed = {check.name for check in checks if check.status is CheckStatus.FAIL}
    return next((name for name, _ in _VERDICTS if name in failed), None)


def verdict_of(checks: list[Check], *, measured: bool = True) -> Verdict:
    """See :meth:`Findings.verdict`."""
    deciding = deciding_check(checks)
    if deciding:
        return dict(_VERDICTS)[deciding]
    return Verdict.PASSED if measured else Verdict.COMPILED

"""The corpus's cheats and faults that a CPU judge refuses for what they answer or do, not for the time they take.

Other work on the machine can spoil such an evaluation, which is then made again, but never lets one pass: these need
no machine to themselves, as those of test_hacks do.
"""

from __future__ import annotations

import pytest

from agentcore.judge.evaluate import Judge
from agentcore.selftest.canary import Canary
from agentcore.selftest.corpus import Case, Kind, default_root, discover
from agentcore.selftest.outcome import run_case
from agentcore.vocabulary import CheckName, HardwareName

BY_ANSWER = frozenset({
    CheckName.COMPILES, CheckName.LOADS, CheckName.RUNS, CheckName.IN_TIME, CheckName.OUTPUTS_WRITTEN,
    CheckName.MATCHES_REFERENCE, CheckName.INPUTS_INTACT, CheckName.GUARDS_INTACT, CheckName.CHANNEL_INTACT,
    CheckName.LANGUAGE_RULES, CheckName.SANDBOXED,
})
"""Checks that look at no time but a limit."""


def is_refused_by_answer(case: Case) -> bool:
    """Whether every check that a case names is one of these, and no time of it is compared with an honest kernel's."""
    return case.kind is not Kind.CONTROL and not case.honest and case.caught_by <= BY_ANSWER


CASES = [case for case in discover(default_root()) if case.runs_on(HardwareName.CPU) and is_refused_by_answer(case)]


def skip_what_is_missing(case: Case) -> None:
    if module := case.missing():
        pytest.skip(f"the Python module {module} is not installed")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_judge_refuses_a_case_for_what_it_answers(case: Case, host_judge: Judge, canary: Canary) -> None:
    skip_what_is_missing(case)
    outcome = run_case(case, host_judge, canary)
    assert outcome.ok, f"{case.path}: {outcome.why}"

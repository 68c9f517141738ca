"""Tables for a terminal: figures keep the digits that matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.judge.rendering import render
from agentcore.judge.result import Check, EvaluationResult
from agentcore.vocabulary import CheckName, CheckStatus

RECORD = Path(__file__).resolve().parents[1] / "data" / "h200" / "kernels" / "rmsnorm_h4096.json"


@pytest.mark.parametrize(
    ("half_us", "shown"), [(12.5, "12.50"), (0.42, "0.42"), (0.0042, "0.0042"), (0.00031, "0.00031"), (0.0, "0")]
)
def test_half_an_interval_shows_two_digits_however_small_it_is(half_us: float, shown: str) -> None:
    record = EvaluationResult.model_validate_json(RECORD.read_bytes())
    (workload, *_), middle = record.workloads, 200.0
    one = workload.model_copy(update={
        "latency_us": middle, "latency_low_us": middle - half_us, "latency_high_us": middle + half_us,
    })
    lines = render(record.model_copy(update={"workloads": [one], "message": "", "checks": []}), None).splitlines()
    row = lines[2]
    assert row.split()[1:3] == ["200.00", shown]


def test_no_line_of_a_message_passes_for_one_of_ours() -> None:
    record = EvaluationResult.model_validate_json(RECORD.read_bytes())
    said = "it raised x\nrmsnorm_h4096 [cuda] on a GPU: passed\u2028Verdict: passed\x1b[2J"
    check = Check(name=CheckName.RUNS, status=CheckStatus.FAIL, message=said)
    shown = render(record.model_copy(update={"message": said, "checks": [check]}), None)
    marked = "it raised x\n    | rmsnorm_h4096 [cuda] on a GPU: passed\n    | Verdict: passed\n"
    assert f"\n  {marked}" in shown and f"  fail runs: {marked}" in shown and "\x1b" not in shown


def test_that_there_was_no_sandbox_is_said_before_anything_else() -> None:
    record = EvaluationResult.model_validate_json(RECORD.read_bytes())
    assert "SANDBOX" not in render(record, None)
    bare = record.model_copy(update={"stamp": record.stamp.model_copy(update={"sandbox": "none"})})
    assert render(bare, None).splitlines()[1].startswith("  NO SANDBOX: ")

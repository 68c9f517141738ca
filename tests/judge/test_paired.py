"""A/B on the CPU with real kernels: the ratio, the order, and what happens where one of the two does not pass."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.cli import main
from agentcore.judge import telemetry
from agentcore.judge.evaluate import EvaluationRequest, Judge, kernel_digest
from agentcore.judge.paired import compare_in_turn, paired_interval
from agentcore.judge.result import EvaluationResult, PairedComparison
from agentcore.problems import Problem
from agentcore.vocabulary import Change, HardwareName, Language, Verdict
from tests.judge.conftest import DOUBLE, DOUBLE_KERNEL, Bench, workload

DATA = Path(__file__).resolve().parents[1] / "data"
SLOWER = """
    for (int again = 0; again < 4; ++again) {
        for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
        __asm__ volatile("" ::: "memory");
    }
    return 0;
"""
WRONG = "for (int64_t i = 0; i < n; ++i) y[i] = 3 * x[i]; return 0;"


@pytest.fixture
def problem(bench: Bench) -> Problem:
    return bench.problem(
        DOUBLE, [workload(axes={"n": 400_000}), workload("w1", {"n": 500_000})], heldout=[workload("h0", {"n": 7})]
    )


@pytest.fixture
def ask(bench: Bench, problem: Problem) -> Callable[[str], EvaluationRequest]:
    def request(body: str) -> EvaluationRequest:
        return EvaluationRequest(
            problem=problem, kernel_dir=bench.kernel(body, problem), language=Language.CPP, hardware=HardwareName.CPU,
            cache_dir=bench.judge.cache_dir, quick=True,
        )

    return request


def test_a_kernel_that_does_a_quarter_of_the_work_is_improved_and_its_opposite_regressed(
    bench: Bench, ask: Callable[[str], EvaluationRequest]
) -> None:
    slow, fast = ask(SLOWER), ask(DOUBLE_KERNEL)
    for rounds in (4, 8, 16):  # on a busy machine few rounds prove nothing
        result = compare_in_turn(bench.judge, slow, fast, rounds=rounds)
        if (found := result.comparison) and found.change is Change.IMPROVED and min(_ratios(found)) > 1.5:
            break
    assert found is not None and result.verdict is Verdict.PASSED, result.message
    assert found.change is Change.IMPROVED and found.ratio and found.ratio > 1.5
    assert found.low and found.high and found.low < found.ratio < found.high
    assert [w.uuid for w in found.workloads] == ["w0", "w1"] and all(w.ratio > 1.5 for w in found.workloads)
    assert sorted(r.first for r in found.rounds) == ["new"] * (rounds // 2) + ["old"] * (rounds // 2)
    assert all(r.old_us.keys() == r.new_us.keys() == {"w0", "w1"} for r in found.rounds)
    assert result.kernel_digest == kernel_digest(fast.kernel_dir)
    assert found.old_kernel_digest == kernel_digest(slow.kernel_dir) and found.old_verdict is Verdict.PASSED
    assert any(w.heldout for w in result.workloads)  # judged once, in the first round
    again = EvaluationResult.model_validate_json(result.model_dump_json())
    assert again.comparison == found
    for rounds in (4, 8, 16):
        back = compare_in_turn(bench.judge, fast, slow, rounds=rounds).comparison
        if back is not None and back.change is Change.REGRESSED:
            break
    assert back is not None and back.change is Change.REGRESSED


def _ratios(found: PairedComparison) -> list[float]:
    return [found.ratio or 0.0, *(w.ratio for w in found.workloads)]


def test_who_goes_first_is_drawn(bench: Bench, ask: Callable[[str], EvaluationRequest]) -> None:
    """Ten rounds have 252 balanced orders; three draws that agree are no accident."""
    judge = Scripted([])
    orders = set()
    for _ in range(3):
        found = compare_in_turn(judge, ask(SLOWER), ask(DOUBLE_KERNEL), rounds=10).comparison
        assert found is not None
        orders.add(tuple(r.first for r in found.rounds))
        assert sum(r.first == "old" for r in found.rounds) == 5
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (DOUBLE_KERNEL, WRONG, Verdict.INCORRECT, "the new kernel did not pass (incorrect)"),
        (WRONG, DOUBLE_KERNEL, Verdict.PASSED, "the old kernel did not pass (incorrect)"),
        ("return 7;", "not C++", Verdict.COMPILE_ERROR, "did not pass"),
    ],
)
def test_both_must_pass_and_the_verdict_is_the_new_ones(
    bench: Bench, ask: Callable[[str], EvaluationRequest], old: str, new: str, verdict: Verdict, reason: str
) -> None:
    result = compare_in_turn(bench.judge, ask(old), ask(new), rounds=2)
    found = result.comparison
    assert found is not None and found.change is Change.INCOMPARABLE and found.ratio is None
    assert result.verdict is verdict and any(reason in text for text in found.reasons)
    assert found.rounds == [] and result.passed == (verdict is Verdict.PASSED)


class Scripted:
    """A judge whose device is disturbed whenever the script says so; its results are one real kind of record."""

    def __init__(self, disturbed: list[bool], broken: bool = False) -> None:
        self.disturbed, self.broken, self.calls = disturbed, broken, 0

    def evaluate(self, request: EvaluationRequest) -> EvaluationResult:
        from datetime import UTC, datetime

        from agentcore.judge.result import Check, EnvironmentStamp, WorkloadResult
        from agentcore.vocabulary import CheckName, CheckStatus

        self.calls += 1
        bad = self.disturbed.pop(0) if self.disturbed else False
        name = CheckName.INFRASTRUCTURE if self.broken else CheckName.QUIET_DEVICE
        check = Check(name=name, status=CheckStatus.FAIL if bad else CheckStatus.PASS, message="a neighbour")
        verdict = Verdict.INFRA_ERROR if bad else Verdict.PASSED
        return EvaluationResult(
            problem=request.problem.name, language=request.language, hardware=request.hardware, verdict=verdict,
            message="a neighbour" if bad else "", checks=[check], started_at=datetime.now(UTC),
            stamp=EnvironmentStamp(hardware=request.hardware), seconds={"total": 0.5},
            workloads=[WorkloadResult(uuid="w0", index=0, axes={"n": 1}, verdict=verdict, latency_us=10.0)],
        )


def test_a_disturbed_round_is_measured_again_and_too_many_judge_nobody(ask: Callable[[str], EvaluationRequest]) -> None:
    # The first round: undisturbed, then disturbed; again: at once disturbed; the third time both are well.
    judge = Scripted([False, True, True])
    result = compare_in_turn(judge, ask(SLOWER), ask(DOUBLE_KERNEL), rounds=2)
    assert result.passed and result.comparison is not None
    assert result.comparison.repeated == 2 and len(result.comparison.rounds) == 2 and judge.calls == 7
    assert result.seconds == {"total": 3.5}
    result = compare_in_turn(Scripted([True] * 99), ask(SLOWER), ask(DOUBLE_KERNEL), rounds=4)
    assert result.verdict is Verdict.INFRA_ERROR and "5 rounds could not be measured" in result.message
    assert result.comparison is not None and result.comparison.change is Change.INCOMPARABLE
    broken = Scripted([True] * 99, broken=True)
    assert compare_in_turn(broken, ask(SLOWER), ask(DOUBLE_KERNEL)).verdict is Verdict.INFRA_ERROR
    assert broken.calls == 1  # nothing that another round would mend


def test_a_disturbance_that_the_judge_sees_is_one(
    bench: Bench, ask: Callable[[str], EvaluationRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = bench.judge.target.stamp
    monkeypatch.setattr(bench.judge.target, "stamp", lambda *a: honest(*a).model_copy(
        update={"disturbances": telemetry.disturbances({"hardware thermal": 3}, {})}
    ))
    result = compare_in_turn(bench.judge, ask(DOUBLE_KERNEL), ask(SLOWER), rounds=2)
    assert result.verdict is Verdict.INFRA_ERROR and "hardware thermal" in result.message


def test_rounds_that_would_take_too_long_are_left_out_but_for_two(ask: Callable[[str], EvaluationRequest]) -> None:
    found = compare_in_turn(Scripted([]), ask(SLOWER), ask(DOUBLE_KERNEL), rounds=8, budget_s=0.0).comparison
    assert found is not None and len(found.rounds) == 2


@pytest.mark.parametrize("rounds", [0, 1, 65])
def test_a_number_of_rounds_that_cannot_be_is_refused(ask: Callable[[str], EvaluationRequest], rounds: int) -> None:
    with pytest.raises(ValueError, match="give 2 to 64"):
        compare_in_turn(Scripted([]), ask(SLOWER), ask(DOUBLE_KERNEL), rounds=rounds)


def test_two_problems_are_refused(bench: Bench, ask: Callable[[str], EvaluationRequest]) -> None:
    other = bench.problem({**DOUBLE, "name": "other"})
    request = EvaluationRequest(
        problem=other, kernel_dir=bench.kernel(DOUBLE_KERNEL, other), language=Language.CPP,
        hardware=HardwareName.CPU, cache_dir=bench.judge.cache_dir,
    )
    with pytest.raises(ValueError, match="one problem on one hardware"):
        compare_in_turn(Scripted([]), request, ask(DOUBLE_KERNEL))


def test_what_a_round_has_in_common_widens_the_interval_of_the_problem_however_many_workloads() -> None:
    """Ratio 1.05, 1 % noise of each workload, 1 % common to a round: the mean over 20 workloads keeps the latter."""
    draw = random.Random(7)
    rounds = []
    for _ in range(8):
        common = draw.gauss(0, 0.01)
        rounds.append({f"w{i}": math.exp(math.log(1.05) + common + draw.gauss(0, 0.01)) for i in range(20)})
    ratio, low, high = paired_interval(rounds)
    assert low < 1.05 < high and ratio == pytest.approx(1.05, abs=0.02)
    assert 0.008 < high - low < 0.06
    with pytest.raises(ValueError, match="no workload"):
        paired_interval([{}])


@pytest.mark.parametrize("name", ["ab_same", "ab_slower"])
def test_the_record_of_an_h200_follows_from_its_rounds(name: str) -> None:
    """Four rounds of ten workloads, recorded there: the stored ratios and intervals are those of the formula."""
    record = EvaluationResult.model_validate_json((DATA / "h200" / f"{name}.json").read_bytes())
    found = record.comparison
    assert found is not None and record.stamp.device_uuid.startswith("GPU-") and not record.stamp.disturbances
    ratios = [{uuid: us / one.new_us[uuid] for uuid, us in one.old_us.items()} for one in found.rounds]
    assert paired_interval(ratios) == pytest.approx((found.ratio, found.low, found.high))
    for w in found.workloads:
        assert paired_interval([{w.uuid: r[w.uuid]} for r in ratios]) == pytest.approx((w.ratio, w.low, w.high))


def ab(cpu_judge: Judge, old: Path, new: Path, problem: Problem, *more: str) -> int:
    return main([
        "ab", str(problem.root), str(old), str(new), "--language", "cpp", "--cache-dir", str(cpu_judge.cache_dir),
        "--quick", "--rounds", "2", *more,
    ])


def test_the_command_prints_the_paired_ratio_and_writes_the_record(
    cpu_judge: Judge, bench: Bench, problem: Problem, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, fast, out = bench.kernel(SLOWER, problem), bench.kernel(DOUBLE_KERNEL, problem), tmp_path / "ab.json"
    status = ab(cpu_judge, slow, fast, problem, "--json", str(out))
    said = capsys.readouterr()
    stored = EvaluationResult.model_validate(json.loads(out.read_text()))
    assert stored.comparison is not None and stored.comparison.ratio and stored.comparison.ratio > 1
    assert status == (0 if stored.comparison.change is Change.IMPROVED else 1)
    assert "n=500000" in said.out and "2 rounds" in said.out and "round 2 of 2" in said.err
    wrong = bench.kernel(WRONG, problem)
    assert ab(cpu_judge, fast, wrong, problem) == 1
    assert "incomparable: the new kernel did not pass (incorrect)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--rounds", "1"], "--rounds 1: give 2 to 64"),
        (["--hardware", "h200"], "cpp kernels do not run on h200"),
        (["--language-a", "cuda"], "cuda kernels do not run on cpu"),
    ],
)
def test_what_cannot_be_done_is_said_with_status_two(
    cpu_judge: Judge, bench: Bench, problem: Problem, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    kernel = bench.kernel(DOUBLE_KERNEL, problem)
    assert ab(cpu_judge, kernel, kernel, problem, *more) == 2
    assert said in capsys.readouterr().err

"""``kernelyard judge``, ``verify`` and ``devices`` as a person or a script meets them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentcore.baselines import judged as judged_baselines
from agentcore.baselines.judged import _kept
from agentcore.build.frameworks import FrameworkMissing, framework_version
from agentcore.cli import main
from agentcore.judge.cli import _claimed_figures, compare_with_claim
from agentcore.judge.command import CannotRun, check_pair
from agentcore.judge.evaluate import kernel_digest
from agentcore.judge.rendering import render
from agentcore.judge.result import BoundRecord, Check, EnvironmentStamp, EvaluationResult, WorkloadResult
from agentcore.problems import ProblemError, load_problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import CheckName, CheckStatus, HardwareName, Language, Verdict
from tests.judge.conftest import DOUBLE, DOUBLE_KERNEL, whole_kernel, workload, write_kernel, write_problem


def result(
    latencies: dict[str, float], *, device: str = "the device", spread: float = 0.0, digest: str = "",
    verdict: Verdict = Verdict.PASSED,
) -> EvaluationResult:
    """A record of the given latencies, µs, by workload name."""
    return EvaluationResult(
        problem="double_it", language=Language.CPP, hardware=HardwareName.CPU, verdict=verdict, kernel_digest=digest,
        stamp=EnvironmentStamp(hardware=HardwareName.CPU, device_name=device), started_at=datetime.now(UTC),
        workloads=[
            WorkloadResult(
                uuid=uuid, index=i, axes={"n": i}, verdict=verdict, latency_us=value,
                latency_low_us=value * (1 - spread), latency_high_us=value * (1 + spread),
                bound=BoundRecord(t_sol_us=value / 4, limiter="memory", hardware=HardwareName.CPU),
            )
            for i, (uuid, value) in enumerate(latencies.items())
        ],
    )


@pytest.fixture
def yard(tmp_path: Path, sandbox: Sandbox) -> Path:
    """A directory with problems/double_it (and a baseline) and a kernel in kernel/."""
    tmp_path.chmod(0o755)
    problem = write_problem(tmp_path / "problems" / "double_it", DOUBLE, [workload(), workload("w1", {"n": 50_000})])
    (problem / "baseline.py").write_text("import torch\n\ndef run(x, y):\n    torch.mul(x, 2, out=y)\n")
    write_kernel(tmp_path / "kernel", whole_kernel(DOUBLE_KERNEL, problem))
    return tmp_path


@pytest.fixture
def judge_command(yard: Path, cache_dir: Path) -> Callable[..., int]:
    def run(*more: str, kernel: Path = yard / "kernel", **changed: str) -> int:
        options = {"--language": "cpp", "--hardware": "cpu", "--cache-dir": str(cache_dir), "--baseline": "none"}
        options |= {f"--{name}": value for name, value in changed.items()}
        words = [word for pair in options.items() for word in pair]
        return main(["judge", str(yard / "problems" / "double_it"), str(kernel), *words, "--quick", *more])

    return run


def retried(run: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status and stdout, once more where the machine was too busy to measure; stderr of every try, since what one
    did for good, the next need not do again.
    """
    progress = ""
    for _ in range(4):
        code = run()
        said = capsys.readouterr()
        progress += said.err
        if "disturbed" not in said.out:
            break
    return code, said.out, progress


def test_a_passing_kernel_gives_a_table_a_file_and_status_zero(
    judge_command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made" / "on" / "demand" / "result.json"
    code, said, progress = retried(lambda: judge_command("--json", str(out)), capsys)
    assert code == 0 and "double_it [cpp]" in said and ": passed" in said
    lines = said.splitlines()
    assert any(line.split()[0] == "n=1000" for line in lines) and any(line.split()[0] == "n=50000" for line in lines)
    assert "building" in progress and "measuring workload 1" in progress
    stored = EvaluationResult.model_validate_json(out.read_text())
    assert stored.passed and len(stored.workloads) == 2 and list(out.parent.iterdir()) == [out]


def test_a_failing_kernel_gives_its_checks_and_status_one(
    judge_command: Callable[..., int], yard: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write_kernel(yard / "bad", whole_kernel("return 9;", yard / "problems" / "double_it"))
    assert judge_command(kernel=bad) == 1
    said = capsys.readouterr().out
    assert "runtime_error" in said and "returned 9" in said and "fail runs" in said


def test_the_problems_own_baseline_is_judged_once_and_scores_are_shown(
    judge_command: Callable[..., int], yard: Path, tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = cache_dir / "baselines"
    shutil.rmtree(kept, ignore_errors=True)
    for _ in range(4):
        code, said, progress = retried(lambda: judge_command(baseline="auto"), capsys)
        if kept.is_dir():
            break  # else the baseline met a busy machine
    assert code == 0 and "baseline: measuring" in progress
    row = next(line for line in said.splitlines() if line.split()[0] == "n=50000").split()
    assert len(row) == 8 and 0 < float(row[-2]) <= 1 and float(row[3]) > 0 and row[-1] == "hand"
    code, again, progress = retried(lambda: judge_command(baseline="auto"), capsys)
    assert code == 0 and "baseline:" not in progress
    (file,) = kept.iterdir()
    code, given, _ = retried(lambda: judge_command(baseline=str(file)), capsys)
    assert code == 0 and row[3] in given and row[3] in again
    slow, problem = json.loads(file.read_text()), load_problem(yard / "problems" / "double_it")
    device = slow["stamp"]["device_uuid"]
    assert _kept(file, problem, device) is not None and _kept(file, problem, "another") is None
    for planted in ("", "[" * 100_000, json.dumps({**slow, "problem_digest": "0" * 64}),
                    json.dumps({**slow, "language": "cpp"}), json.dumps({**slow, "verdict": "incorrect"})):
        file.write_text(planted)  # damaged, or another kernel's: counts as absent
        assert _kept(file, problem, device) is None
    _, _, progress = retried(lambda: judge_command(baseline="auto"), capsys)
    assert "baseline: measuring" in progress
    (yard / "problems" / "double_it" / "baseline.py").write_text("def run(x, y):\n    y.copy_(x + x)\n")
    retried(lambda: judge_command(baseline="auto"), capsys)
    assert file.is_file() and len(list(kept.iterdir())) <= 2  # another baseline, another file


def test_a_problem_without_a_baseline_of_its_own_is_compared_with_its_reference(
    judge_command: Callable[..., int], yard: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (yard / "problems" / "double_it" / "baseline.py").unlink()
    for _ in range(3):
        code, said, _ = retried(lambda: judge_command(baseline="auto"), capsys)
        if "times as fast" in said:
            break  # else the baseline met a busy machine
    row = next(line for line in said.splitlines() if line.split()[0] == "n=50000").split()
    assert code == 0 and row[-1] == "eager" and 0 < float(row[-2]) <= 1 and "SOL score" in said


def test_the_fastest_kept_baseline_of_any_kind_counts(
    judge_command: Callable[..., int], yard: Path, tmp_path: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, out = yard / "problems" / "double_it", tmp_path / "baselines.json"
    (problem / "baseline.py").write_text(
        "import torch\n\ndef run(x, y):\n    for _ in range(50):\n        torch.mul(x, 2, out=y)\n"
    )
    judged = ["baseline", str(problem), "--kind", "hand", "eager", "--hardware", "cpu", "--cache-dir", str(cache_dir)]
    code, _, _ = retried(lambda: main([*judged, "--json", str(out)]), capsys)
    kept = json.loads(out.read_text())
    assert code == 0 and all(result["verdict"] == "passed" for result in kept.values())
    code, said, progress = retried(lambda: judge_command(baseline="auto"), capsys)
    assert code == 0 and "baseline:" not in progress
    for i, workload_result in enumerate(kept["eager"]["workloads"]):
        axes = f"n={workload_result['axes']['n']}"
        row = next(line for line in said.splitlines() if line.split()[0] == axes).split()
        times = {kind: result["workloads"][i]["latency_us"] for kind, result in kept.items()}
        assert row[-1] == min(times, key=times.__getitem__) == "eager" and row[3] == f"{min(times.values()):.2f}"


def test_a_kernel_named_by_its_source_is_asked_for_by_directory(
    judge_command: Callable[..., int], yard: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge_command(kernel=yard / "problems" / "double_it" / "baseline.py") == 2
    said = capsys.readouterr().err
    assert "a kernel is the directory that holds its source, or a solution.json" in said and "JSON:" not in said


def test_a_framework_that_is_missing_is_said_in_a_line_with_what_to_install(
    yard: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        framework_version(Language.CUTE)
    except FrameworkMissing:
        pass
    else:
        pytest.skip("nvidia-cutlass-dsl is installed here")
    (yard / "cute").mkdir()
    (yard / "cute" / "kernel.py").write_text("def run(x, y):\n    pass\n")
    where = ["--hardware", "b200", "--cache-dir", str(cache_dir)]
    assert main(["judge", str(yard / "problems" / "double_it"), str(yard / "cute"), *where, "--compile-only"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kernelyard judge: cute kernels need nvidia-cutlass-dsl")
    assert line.endswith(".venv/bin/pip install -e '.[cute]'")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"baseline": "/nowhere/b.json"}, "/nowhere/b.json cannot be read: No such file"),
        ({"hardware": "h200"}, "cpp kernels do not run on h200"),
        ({"language": "cuda"}, "cuda kernels do not run on cpu"),
        ({"language": "triton"}, "triton kernels do not run on cpu"),
        ({"language": "cute"}, "cute kernels do not run on cpu"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_with_status_two(
    judge_command: Callable[..., int], capsys: pytest.CaptureFixture[str], changed: dict[str, str], said: str
) -> None:
    assert judge_command(**changed) == 2
    err = capsys.readouterr().err
    assert err.startswith("kernelyard judge: ") and said in err and "Traceback" not in err


def test_a_gpu_that_is_not_there_is_named(
    yard: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this host has a GPU")
    problem = str(yard / "problems" / "double_it")
    assert main(["judge", problem, str(yard / "kernel"), "--language", "torch", "--hardware", "h200",
                 "--cache-dir", str(cache_dir), "--baseline", "none"]) == 2
    assert "h200 needs an NVIDIA GPU" in capsys.readouterr().err


def test_a_directory_that_is_missing_is_named(
    judge_command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge_command(kernel=tmp_path / "absent") == 2
    assert "absent: does not exist" in capsys.readouterr().err


def test_a_baseline_file_that_is_no_result_is_refused_by_field(
    judge_command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.json").write_text('{"problem": 3}')
    assert judge_command(baseline=str(tmp_path / "b.json")) == 2
    assert "b.json is no evaluation result: problem" in capsys.readouterr().err


@pytest.fixture
def clone(yard: Path) -> Path:
    """A clone of a solutions repository: problems/ and solutions/double_it/cpp-cpu with a claim."""
    solution = yard / "solutions" / "double_it" / "cpp-cpu"
    shutil.copytree(yard / "kernel", solution)
    claim(solution, kernel_digest(yard / "kernel"))
    (solution / "solution.json").write_text(json.dumps({"problem": "double_it", "commit": "0" * 40}))
    return solution


def claim(solution: Path, digest: str, **more: Any) -> None:
    (solution / "result.json").write_text(result({"w0": 2.0, "w1": 20.0}, digest=digest, **more).model_dump_json())


def verify(solution: Path, cache_dir: Path, *more: str) -> int:
    return main(["verify", str(solution), "--cache-dir", str(cache_dir), *more])


def test_a_clone_verifies_by_itself_on_another_device_without_comparing_times(
    clone: Path, cache_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "verify.json"
    code, said, _ = retried(lambda: verify(clone, cache_dir, "--json", str(out)), capsys)
    assert code == 0 and "agrees: passed again" in said and "not comparable" in said
    stored = json.loads(out.read_text())
    assert stored["agrees"] is True and stored["ratio"] > 0
    assert EvaluationResult.model_validate(stored["measured"]).passed


def test_files_that_are_not_those_that_were_measured_disagree(
    clone: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (clone / "kernel.cpp").open("a") as source:
        source.write("// one line more\n")
    code, said, _ = retried(lambda: verify(clone, cache_dir), capsys)
    assert code == 1 and "not the files that were measured" in said


def test_a_solution_that_no_longer_passes_disagrees(
    clone: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "kernel.cpp").write_text(whole_kernel("return 1;", clone.parents[2] / "problems" / "double_it"))
    claim(clone, "")
    assert verify(clone, cache_dir) == 1
    assert "DISAGREES: claimed passed, measured runtime_error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: (c / "result.json").unlink(), "result.json is missing; name a solution of a clone"),
        (lambda c: (c / "result.json").write_text("{"), "is no evaluation result"),
        (lambda c: shutil.rmtree(c.parents[2] / "problems"), "there is no problems/double_it above"),
    ],
)
def test_a_directory_that_is_no_solution_is_refused_with_status_two(
    clone: Path, cache_dir: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], object], said: str
) -> None:
    spoil(clone)
    assert verify(clone, cache_dir) == 2
    assert said in capsys.readouterr().err


def test_a_claim_holds_within_the_noise_of_both_and_not_beyond() -> None:
    claimed = result({"a": 10, "b": 100}, spread=0.02)
    within = compare_with_claim(claimed, result({"a": 11, "b": 110}, spread=0.02))
    assert within["agrees"] is True and within["ratio"] == pytest.approx(1.1)
    assert within["noise"] == pytest.approx(0.25 + 0.04)
    assert "agrees: passed again, 10.0% slower than claimed (geometric mean of 2 workloads)" in within["text"]
    assert "up to 29% either way is the noise of two such runs" in within["text"] and "busy" not in within["text"]
    for factor, words in ((1.4, "40.0% slower"), (0.6, "40.0% faster")):
        beyond = compare_with_claim(claimed, result({"a": 10 * factor, "b": 100 * factor}))
        assert beyond["agrees"] is False and words in beyond["text"]


def test_an_agreement_within_very_wide_intervals_is_said_to_mean_little() -> None:
    wide = compare_with_claim(result({"a": 10}, spread=1.0), result({"a": 11}, spread=0.2))
    assert wide["agrees"] is True and wide["noise"] == pytest.approx(0.25 + 1.2)
    assert "the host was too busy for this to mean much" in wide["text"]


@pytest.mark.parametrize(("summary", "said"), [
    ({"speedup": 7.754, "sol_score": 0.886}, "7.75 times as fast as the baseline, SOL score 0.886"),
    ({"speedup": None, "sol_score": 0.886}, "SOL score 0.886"),
    ({"speedup": "\x1b[2J", "sol_score": float("nan")}, ""),
    (None, ""),
    ([], ""),
])
def test_what_a_published_solution_claims_against_its_baseline(tmp_path: Path, summary: object, said: str) -> None:
    (tmp_path / "solution.json").write_text(json.dumps({"summary": summary}))
    assert _claimed_figures(tmp_path / "solution.json") == said


def test_a_kernel_that_does_not_compile_is_known_before_any_baseline_is_measured(
    judge_command: Callable[..., int], yard: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (yard / "problems" / "double_it" / "baseline.py").write_text("def run(x, y):\n    y.copy_(2 * x)\n")  # kept nowhere
    bad = write_kernel(yard / "bad", "this is no C++")
    assert judge_command(kernel=bad, baseline="auto") == 1
    said = capsys.readouterr()
    assert "compile_error" in said.out and "fail compiles" in said.out
    assert "building" in said.err and "baseline" not in said.err
    assert "workload" not in said.out, "a header of nothing"


@pytest.mark.parametrize(("seen", "kinds"), [
    (["disturbed", "passed"], {"hand"}),  # once more helps
    (["disturbed", "disturbed"], set()),  # and no more than once; eager is no substitute
    (["incorrect", "passed"], {"eager"}),  # what is wrong stays wrong
])
def test_a_disturbed_baseline_is_judged_once_more(
    yard: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    seen: list[str], kinds: set[str],
) -> None:
    problem, left = load_problem(yard / "problems" / "double_it"), list(seen)

    def judged(*_: object) -> EvaluationResult:
        word = left.pop(0)
        if word == "disturbed":
            quiet = Check(name=CheckName.QUIET_DEVICE, status=CheckStatus.FAIL, message="disturbed")
            return result({}, verdict=Verdict.INFRA_ERROR).model_copy(update={"checks": [quiet]})
        return result({"w0": 2.0}, verdict=Verdict(word))

    monkeypatch.setattr(judged_baselines, "judge_baseline", judged)
    monkeypatch.setattr(judged_baselines, "kept_baseline", lambda *_: None)
    found = judged_baselines.fastest_baselines(None, problem, cache_dir)
    assert {fastest.kind.value for fastest in found.values()} == kinds and left == []
    assert ("was disturbed; once more" in capsys.readouterr().err) is (seen[0] == "disturbed")


def test_results_without_a_common_workload_cannot_agree() -> None:
    assert compare_with_claim(result({"a": 1}), result({"b": 1}))["agrees"] is False


def test_the_table_shows_score_and_speedup_where_a_baseline_is_known() -> None:
    text = render(result({"w0": 10.0}), result({"w0": 25.0}))
    # T_SOL 2.5: S = 1 / (1 + (10 − 2.5) / (25 − 2.5)) = 0.75
    row = next(line for line in text.splitlines() if line.split()[0] == "n=0").split()
    assert row == ["n=0", "10.00", "0", "25.00", "2.50", "2.50", "0.750"]
    assert "  geometric mean 10.00 us, 2.50 times as fast as the baseline, SOL score 0.750 " in text
    without = render(result({"w0": 10.0}), None)
    assert "  geometric mean 10.00 us\n" in without
    both = result({"w0": 10.0, "w1": 1.0})
    public, other = both.workloads
    both = both.model_copy(update={"workloads": [public, other.model_copy(update={"heldout": True})]})
    assert "  geometric mean 10.00 us\n" in render(both, None), "held-out shapes do not enter the score"
    failed = render(result({"w0": 10.0}, verdict=Verdict.INCORRECT), result({"w0": 25.0}))
    assert "geometric mean" not in failed
    assert next(line for line in without.splitlines() if line.split()[0] == "n=0").split()[-2:] == ["-", "-"]


def test_a_result_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json", "/proc/none/d.json"]) == 2
    assert "/proc/none/d.json cannot be written" in capsys.readouterr().err


def test_which_baselines_are_in_no_time_to_compare_with(
    yard: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load_problem(yard / "problems" / "double_it")
    kept = {"hand", "eager"}
    monkeypatch.setattr(
        judged_baselines, "kept_baseline", lambda _judge, _problem, kind, *_: kind.value if kind.value in kept else None
    )
    assert [kind.value for kind in judged_baselines.unmeasured_kinds(None, problem, cache_dir)] == ["compile"]
    kept.add("compile")
    assert judged_baselines.unmeasured_kinds(None, problem, cache_dir) == []


def test_a_directory_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="nowhere: there is no such directory"):
        load_problem(tmp_path / "nowhere")


def test_where_a_language_runs_is_told_with_the_refusal() -> None:
    with pytest.raises(CannotRun, match="cuda kernels do not run on cpu; give --hardware b200 or h200 or h100"):
        check_pair(Language.CUDA, HardwareName.CPU)
    with pytest.raises(CannotRun, match="cpp kernels do not run on h200; give --hardware cpu"):
        check_pair(Language.CPP, HardwareName.H200)

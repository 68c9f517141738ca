"""``kernelyard selftest`` as an operator runs it: a corpus in, lines, a summary, a file and an exit status out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcore.cli import main
from agentcore.judge.result import EnvironmentStamp, EvaluationResult
from agentcore.selftest.corpus import Case, default_root, discover
from agentcore.selftest.outcome import CaseOutcome
from agentcore.selftest.report import SelfTestReport
from agentcore.selftest.run import build_line
from agentcore.vocabulary import HardwareName, Language, Verdict

REPOSITORY = default_root().parents[1]

IN_PYTHON = '''# case: {kind}
# problem: rmsnorm_h4096
# language: torch
# hardware: cpu
# family: {family}
{caught}#
# {how}
import torch


def run(x, weight, y):
    values = x.float()
    y.copy_({factor} * values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-5) * weight.float())
'''
IN_CPP = '''// case: {kind}
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: {family}
{caught}//
// {how}
#include <cmath>

#include "rms.h"

KERNEL(x, w, y, n) {{
    for (int64_t r = 0; r < n; ++r) {{
        float sum = 0;
        for (int64_t i = 0; i < rms::H; ++i) sum += rms::widen(x + r * rms::H, i) * rms::widen(x + r * rms::H, i);
        rms::scale_row(x + r * rms::H, w, y + r * rms::H, {factor}f / std::sqrt(sum / rms::H + rms::EPS));
    }}
    return 0;
}}
'''


def corpus(tmp_path: Path, *names: str) -> Path:
    """A checkout with some of the real cases: what a dropped in file joins."""
    root = tmp_path / "tests" / "hacks"
    shutil.copytree(default_root() / "include", root / "include")
    shutil.copytree(REPOSITORY / "problems" / "rmsnorm_h4096", tmp_path / "problems" / "rmsnorm_h4096")
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(default_root() / name, root / name)
    return root


@dataclass(frozen=True)
class Done:
    """A command that has ended: its exit status and what it printed."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., tuple[Done, SelfTestReport]]


@pytest.fixture
def selftest(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command line in this process, where torch is imported already."""

    def run(*arguments: str | Path) -> Done:
        try:
            status = main(["selftest", *map(str, arguments)])
        except SystemExit as left:  # argparse
            status = left.code if isinstance(left.code, int) else 1
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run


@pytest.fixture
def run(tmp_path: Path, selftest: Callable[..., Done]) -> Run:
    def judged(root: Path, *arguments: str) -> tuple[Done, SelfTestReport]:
        out = tmp_path / "out" / "selftest.json"
        where = ["--json", out, "--cache-dir", tmp_path / "cache"]
        done = selftest("--hardware", "cpu", "--corpus", root, *where, *arguments)
        assert out.is_file(), done.stderr
        return done, SelfTestReport.model_validate_json(out.read_text())

    return judged


@pytest.fixture(autouse=True)
def known_rates(tmp_path: Path, lay_cpu_rates: Callable[[Path], Path]) -> None:
    lay_cpu_rates(tmp_path / "cache")


def test_a_good_host_passes_and_a_file_dropped_in_is_a_new_cheat(tmp_path: Path, run: Run) -> None:
    root = corpus(tmp_path, "cpp/control_vector.cpp", "cpp/zeros.cpp")
    done, report = run(root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report.passed and report.complete
    assert [case.case for case in report.cases] == ["cpp/control_vector", "cpp/zeros"]
    assert json.loads(done.stdout.splitlines()[-1]) == report.summary.model_dump()
    assert report.stamp.device_uuid.startswith("CPU-") and report.stamp.sandbox in ("bubblewrap", "unshare")
    assert "sandbox " in done.stdout

    (root / "torch").mkdir()
    (root / "torch" / "fresh_trick.py").write_text(IN_PYTHON.format(
        kind="exploit", family="correctness", how="A tenth too large.", factor="1.1",
        caught="# caught-by: matches-reference\n# verdict: incorrect\n",
    ))
    done, again = run(root)
    assert done.returncode == 0, done.stdout + done.stderr
    (added,) = [case for case in again.cases if case.case == "torch/fresh_trick"]
    assert added.ok and added.verdict is Verdict.INCORRECT and again.summary.exploits == 2
    assert again.corpus_digest != report.corpus_digest


def test_an_accepted_cheat_and_a_refused_control_fail_the_host_and_are_named(tmp_path: Path, run: Run) -> None:
    root = corpus(tmp_path)
    (root / "cpp").mkdir()
    # What the judge makes of these two is right; the corpus claims otherwise.
    for name, kind, factor in (("right", "exploit", "1.0"), ("wrong", "control", "1.1")):
        caught = "// caught-by: matches-reference\n// verdict: incorrect\n" if kind == "exploit" else ""
        (root / "cpp" / f"{name}.cpp").write_text(IN_CPP.format(
            kind=kind, family="honest", how="Mislabelled.", factor=factor, caught=caught
        ))
    done, report = run(root)
    assert done.returncode == 1
    assert (report.summary.accepted, report.summary.refused) == (1, 1)
    assert not report.passed
    bad = [line for line in done.stdout.splitlines() if line.startswith("BAD")]
    assert len(bad) == 2 and "accepted" in bad[0] and "false alarm" in bad[1]


def test_a_part_of_the_corpus_is_no_pass_and_an_empty_part_is_an_error(
    tmp_path: Path, run: Run, selftest: Callable[..., Done]
) -> None:
    root = corpus(tmp_path, "cpp/control_vector.cpp", "cpp/zeros.cpp", "cuda/does_nothing.cu")
    done, report = run(root, "--only", "zeros")
    assert done.returncode == 0
    assert not report.complete and not report.passed and report.summary.exploits == 1
    done = selftest("--hardware", "cpu", "--corpus", root, "--only", "does_nothing")
    assert done.returncode == 2 and "does_nothing" in done.stderr


def test_why_a_case_is_not_built_ahead_is_said(tmp_path: Path) -> None:
    root = corpus(tmp_path, "cpp/control_vector.cpp", "cpp/zeros.cpp")
    (root / "torch").mkdir()
    (root / "torch" / "right.py").write_text(IN_PYTHON.format(
        kind="control", family="honest", how="Right.", factor="1.0", caught=""
    ))
    cases = discover(root)
    assert build_line(cases, 2) == "built 2 of 3 cases (1 in Python need no build)"
    assert "(1 in Python need no build; 1 must not compile: tried when judged)" in build_line(cases, 1)
    assert build_line(cases[:1], 1) == "built 1 of 1 cases"


def test_interrupted_it_sums_up_what_was_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = corpus(tmp_path, "cpp/control_vector.cpp", "cpp/zeros.cpp")
    judged = []

    def one(case: Case, *_: object, **__: object) -> CaseOutcome:
        if judged:
            raise KeyboardInterrupt
        judged.append(case)
        return CaseOutcome(case, made, caught=False, why="", seconds=1.0)

    made = EvaluationResult(
        problem="rmsnorm_h4096", language=Language.CPP, hardware=HardwareName.CPU, verdict=Verdict.PASSED,
        stamp=EnvironmentStamp(hardware=HardwareName.CPU), started_at=datetime.now(UTC),
    )
    monkeypatch.setattr("agentcore.selftest.run.run_case", one)
    monkeypatch.setattr("agentcore.selftest.run.prebuild", lambda cases, *_: len(cases))
    out = tmp_path / "out.json"
    words = ["--hardware", "cpu", "--corpus", root, "--json", out, "--cache-dir", tmp_path / "cache"]
    assert main(["selftest", *map(str, words)]) == 130
    said = capsys.readouterr().out
    assert "interrupted: 1 of 2 cases were judged" in said
    report = SelfTestReport.model_validate_json(out.read_text())
    assert json.loads(said.splitlines()[-1]) == report.summary.model_dump()
    assert len(report.cases) == 1 and not report.complete and not report.passed


@pytest.mark.parametrize(("arguments", "says"), [
    (["--corpus", "/nowhere"], "holds no case"),
    (["--sandbox", "none"], "invalid choice: 'none'"),
])
def test_what_cannot_be_run_is_said_in_one_line(
    selftest: Callable[..., Done], arguments: list[str], says: str
) -> None:
    done = selftest("--hardware", "cpu", *arguments)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_an_installed_package_without_its_checkout_says_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "agentcore", tmp_path / "agentcore", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "agentcore.cli", "selftest", "--hardware", "cpu"], check=False, capture_output=True,
        text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2 and "--corpus" in done.stderr and "Traceback" not in done.stderr

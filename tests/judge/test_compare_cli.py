"""``kernelyard compare`` on records of an H200 and on what is no record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcore.cli import main
from agentcore.judge.rendering import render
from agentcore.judge.result import EvaluationResult

DATA = Path(__file__).resolve().parents[1] / "data" / "h200"
KERNEL = DATA / "kernels" / "softmax_softcap.json"
BASELINE = DATA / "baselines" / "softmax_softcap.json"


def altered(tmp_path: Path, name: str, *, times: float = 1.0, digest: str = "0" * 64, **stamp: str) -> Path:
    """The record of another kernel: every time multiplied and fields of its stamp replaced."""
    record = EvaluationResult.model_validate_json(KERNEL.read_bytes())
    keys = ("latency_us", "latency_low_us", "latency_high_us")
    workloads = [w.model_copy(update={k: getattr(w, k) * times for k in keys}) for w in record.workloads]
    changed = {
        "kernel_digest": digest or record.kernel_digest, "workloads": workloads,
        "stamp": record.stamp.model_copy(update=stamp),
    }
    (tmp_path / name).write_text(record.model_copy(update=changed).model_dump_json())
    return tmp_path / name


@pytest.mark.parametrize(
    ("times", "status", "word"), [(0.7, 0, "improved"), (1.0, 1, "unproven"), (1.4, 1, "regressed")]
)
def test_the_status_says_whether_it_improved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], times: float, status: int, word: str
) -> None:
    later, out = altered(tmp_path, "later.json", times=times), tmp_path / "comparison.json"
    assert main(["compare", str(KERNEL), str(later), "--json", str(out)]) == status
    said = capsys.readouterr().out
    assert f"later.json against {KERNEL}: {word} (" in said and "rows=32 cols=65536" in said
    stored = json.loads(out.read_text())
    assert stored["change"] == word and stored["ratio"] == pytest.approx(1 / times)
    assert stored["low"] < stored["ratio"] < stored["high"]


@pytest.mark.parametrize("times", [0.7, 1.4])
def test_two_runs_of_one_kernel_neither_improved_nor_regressed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], times: float
) -> None:
    later, out = altered(tmp_path, "later.json", times=times, digest=""), tmp_path / "comparison.json"
    assert main(["compare", str(KERNEL), str(later), "--json", str(out)]) == 1
    said, stored = capsys.readouterr().out, json.loads(out.read_text())
    assert "note: both are the same kernel" in said and "improved" not in said and "regressed" not in said
    assert {stored["change"], *(w["change"] for w in stored["workloads"])} == {"unproven"}
    assert "two runs of the machine" in stored["notes"][0] and stored["ratio"] == pytest.approx(1 / times)


def test_a_quick_look_is_called_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = altered(tmp_path, "later.json", times=0.7)
    record = EvaluationResult.model_validate_json(later.read_bytes()).model_copy(update={"quick": True})
    later.write_text(record.model_dump_json())
    assert main(["compare", str(KERNEL), str(later)]) == 0
    note = f"note: measured with few calls (--quick), for a look and not for a record: {later}"
    assert note in capsys.readouterr().out
    assert "quick: few calls" in render(record, None)


def test_a_kernel_against_its_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["compare", str(BASELINE), str(KERNEL)])
    said = capsys.readouterr().out
    assert (status, "improved" in said.splitlines()[0]) in ((0, True), (1, False))
    assert len(said.splitlines()) > 3


def test_what_makes_them_incomparable_is_said_with_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = altered(tmp_path, "other.json", times=0.5, harness_version="0", driver="1.0")
    assert main(["compare", str(KERNEL), str(other)]) == 2
    said = capsys.readouterr()
    assert "incomparable: another harness version: 0 against" in said.out and "another driver: 1.0 against" in said.out
    assert "measure both again" in said.err and "improved" not in said.out


def test_a_file_that_is_no_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(KERNEL), str(tmp_path / "absent.json")]) == 2
    assert "absent.json cannot be read" in capsys.readouterr().err

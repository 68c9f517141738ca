from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentcore.cli import main

ROOT = Path(__file__).resolve().parents[2]


def test_bounds_prints_and_writes_every_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bounds.json"
    assert main(["bounds", str(ROOT / "problems" / "gemm_bf16_llama8b"), "--hardware", "h200", "--json", str(out)]) == 0
    written = json.loads(out.read_text())
    printed = capsys.readouterr().out.splitlines()
    assert len(written["workloads"]) == len(printed) >= 8
    assert all(row["bound"]["t_sol_us"] > 0 and row["bound"]["rates"] for row in written["workloads"])


def test_verbose_prints_every_number_of_the_record_below_its_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bounds.json"
    problem = str(ROOT / "problems" / "gemm_bf16_llama8b")
    assert main(["bounds", problem, "--hardware", "h200", "--verbose", "--json", str(out)]) == 0
    first, *others = capsys.readouterr().out.split("gemm_bf16_llama8b ")[1:]
    record = json.loads(out.read_text())["workloads"][0]["bound"]
    assert len(others) + 1 == len(json.loads(out.read_text())["workloads"])
    for unit, amount in record["flops"].items():
        assert f"{amount:,.0f}  {unit}\n" in first
    for tensor, amount in record["bytes_moved"].items():
        assert f"{amount:,}  {tensor}\n" in first
    assert record["rates"].keys() >= {"memory", "half"}
    assert "rate                    4.8 TB/s  memory: " in first
    for said in [*record["rate_sources"].values(), *record["assumptions"]]:
        assert said in first


def test_a_comparison_with_nothing_published_prints_our_numbers_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(ROOT / "problems" / "rmsnorm_h4096")
    command = ["bounds", problem, "--hardware", "h200", "--compare", "--cache-dir", str(tmp_path)]
    assert main(command) == 0
    printed = capsys.readouterr().out.splitlines()
    (header,) = (i for i, line in enumerate(printed) if "T_SOL us" in line and "bytes  limited by" in line)
    rows = printed[header + 1 : printed.index("", header)]
    assert len(rows) >= 4
    for row in rows:
        _, t_sol, moved, limiter = row.rsplit(maxsplit=3)
        assert float(t_sol) > 0 and int(moved.replace(",", "")) > 0 and limiter in ("memory", "products")
    assert "nothing to compare ours with" in printed[-1]


def test_bounds_names_an_unknown_profile_and_an_empty_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = str(ROOT / "problems" / "gemm_bf16_llama8b")
    assert main(["bounds", problem, "--hardware", "h200", "--profile", "x"]) == 2
    assert main(["bounds", str(tmp_path), "--hardware", "h200"]) == 2
    errors = capsys.readouterr().err
    assert "it has boost" in errors
    assert "no definition.json" in errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["cpu", "--profile", "boost"], "--profile names the clocks of a GPU"),
        (["h200", "--records", "."], "--records needs --compare"),
        (["h200", "--compare", "--records", "nowhere"], "--records nowhere: there is no such directory"),
        (["h200", "--compare", "--profile", "x"], "NVIDIA H200 SXM has no rate profile 'x'; it has boost"),
        (["h200", "--compare", "--verbose"], "--verbose goes with neither"),
        (["h200", "--verbose", "--json", "-"], "--verbose goes with neither"),
        (["h200", "--compare", "--heldout"], "--heldout does not go with --compare"),
        (["h200", "--json", "/proc/nowhere/bounds.json"], "/proc/nowhere/bounds.json cannot be written"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bounds", str(ROOT / "problems" / "rmsnorm_h4096"), "--hardware", *options]) == 2
    assert f"kernelyard bounds: {said}" in capsys.readouterr().err


def test_a_broken_problem_is_said_and_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "problems" / "rmsnorm_h4096", tmp_path / "sound")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "definition.json").write_text("{")
    assert main(["bounds", str(tmp_path), "--hardware", "h200"]) == 1
    said = capsys.readouterr()
    assert "broken/definition.json:1: is not JSON" in said.err
    assert len(said.out.splitlines()) >= 8
    shutil.rmtree(tmp_path / "sound")
    assert main(["bounds", str(tmp_path), "--hardware", "h200"]) == 2


def test_a_reader_that_has_enough_ends_it_without_a_traceback() -> None:
    command = [sys.executable, "-m", "agentcore.cli", "bounds", str(ROOT / "problems" / "gemm_bf16_llama8b")]
    process = subprocess.Popen(
        [*command, "--hardware", "h200"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()  # before anything is printed, as `| true` does
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141


def test_the_help_begins_with_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "``" not in said and "Judge GPU and CPU kernels" in said

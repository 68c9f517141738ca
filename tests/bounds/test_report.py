"""The comparison with published bounds and recorded times, and the report of it that is kept for our own suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.bounds.bound import bound, bound_from_work
from agentcore.bounds.cache import cached_count
from agentcore.bounds.compare import AGREES, compare
from agentcore.bounds.count import count
from agentcore.bounds.hardware import rate_table
from agentcore.cli import main
from agentcore.vocabulary import HardwareName

ROOT = Path(__file__).resolve().parents[2]
REPORT = Path(__file__).parent / "data" / "h200_suite.json"
B200 = HardwareName.B200


@pytest.mark.parametrize(
    ("dtype", "official_of", "cause"),
    [
        ("float32", lambda us: us + 0.4, AGREES),
        ("float32", lambda us: us / 2 + 0.4, "official counts 4-byte tensors at 2 bytes per element"),
        ("bfloat16", lambda us: us / 2 + 0.4, "official leaves out one input"),
        ("bfloat16", lambda us: us / 9 + 0.4, "ours is higher, not explained"),
        ("bfloat16", lambda us: us * 9 + 0.4, "ours is lower, not explained"),
    ],
)
def test_a_difference_is_put_down_to_what_would_give_the_published_number(
    make_problem: Any, dtype: str, official_of: Any, cause: str
) -> None:
    problem = make_problem("return x * 2", {"x": f"{dtype} n"}, {"y": f"{dtype} n"}, [{"n": 1 << 24}])
    work = count(problem, problem.workloads[0])
    ours = bound_from_work(problem, problem.workloads[0], B200, work).t_sol_us
    found = compare(problem, problem.workloads[0], B200, work, official_of(ours), 2 * ours)
    assert found.cause == cause
    assert not found.is_above_baseline


def test_counted_work_is_kept_by_content(make_problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcore.bounds.cache._WORTH_S", 0.0)
    problem = make_problem("return x * 2", {"x": "float32 n"}, {"y": "float32 n"}, [{"n": 8}, {"n": 16}])
    first = cached_count(problem, problem.workloads[0], None, tmp_path)
    (file,) = (tmp_path / "work").iterdir()
    kept = json.loads(file.read_text())
    kept["notes"] = ["from the cache"]
    file.write_text(json.dumps(kept))
    again = cached_count(problem, problem.workloads[0], None, tmp_path)
    assert again.notes == ("from the cache",) and again.input_bytes == first.input_bytes
    assert cached_count(problem, problem.workloads[1], None, tmp_path).notes == ()
    file.write_text("{broken")
    assert cached_count(problem, problem.workloads[0], None, tmp_path) == first


def test_a_bound_names_its_rates_sources_and_the_measured_ceilings_it_does_not_use(make_problem: Any) -> None:
    problem = make_problem(
        "return a @ b", {"a": "bfloat16 n n", "b": "bfloat16 n n"}, {"c": "bfloat16 n n"}, [{"n": 2048}]
    )
    record = bound(problem, problem.workloads[0], HardwareName.H200)
    assert record.profile == "boost" and record.rates.keys() == record.rate_sources.keys()
    assert "1980 MHz" in record.rate_sources["half"]
    assert record.ceilings["half"] == rate_table(HardwareName.H200).ceilings["half"].value < record.rates["half"]
    assert record.t_sol_us == pytest.approx(record.flops["half"] / record.rates["half"] * 1e6)


def test_the_kept_report_has_no_time_below_its_bound_and_is_what_the_command_writes(tmp_path: Path) -> None:
    kept = json.loads(REPORT.read_text())
    assert len(kept["recorded"]) >= 150 and not kept["unavailable"]
    assert all(row["factor"] >= 1 for row in kept["recorded"])
    out = tmp_path / "report.json"
    problem = ROOT / "problems" / "rmsnorm_h4096"
    records = str(ROOT / "tests" / "data" / "h200")
    options = ["--hardware", "h200", "--compare", "--records", records, "--json", str(out)]
    assert main(["bounds", str(problem), *options]) == 0
    ours = {(r["uuid"], r["what"]): r for r in kept["recorded"] if r["problem"] == "rmsnorm_h4096"}
    found = {(r["uuid"], r["what"]): r for r in json.loads(out.read_text())["recorded"]}
    assert ours.keys() <= found.keys() and len(ours) >= 10
    assert all(found[key]["bound_us"] == row["bound_us"] for key, row in ours.items())


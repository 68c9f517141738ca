"""What the benchmark itself states of a problem: found, matched to workloads, and never trusted to be sane."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agentcore.cli import main
from agentcore.problems import ProblemError, find_problems, load_problem
from agentcore.problems.official import OfficialTimes, official_of


def times(write_problem: Any, workloads: Any, name: str = "official__json") -> dict[str, OfficialTimes]:
    root = write_problem(**{name: json.dumps({"hardware": "b200", "source": "them", "workloads": workloads})})
    official = official_of(load_problem(root))
    assert official is not None
    assert (official.hardware, official.source) == ("b200", "them")
    return dict(official.workloads)


def test_workloads_may_stand_within_a_member_and_a_sidecar_without_any_is_not_called_official(
    write_problem: Any, capsys: Any
) -> None:
    within = {"task": 3, "sol": {"available": True, "per_workload": [{"index": 0, "sol_ms": 0.002}]}}
    root = write_problem(metadata__json=json.dumps(within))
    official = official_of(load_problem(root))
    assert official is not None and official.workloads == {"w0": OfficialTimes(2.0, None)}
    assert main(["problems", "check", str(root)]) == 0
    assert "official numbers of 1" in capsys.readouterr().out
    root = write_problem(metadata__json=json.dumps({"task": 3, "sol": {"available": False}}))
    assert main(["problems", "check", str(root)]) == 0
    assert "official" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"index": 0, "sol_us": 2.5, "baseline_us": 4}, OfficialTimes(2.5, 4.0)),
        ({"uuid": "w0", "t_sol_ms": 0.5}, OfficialTimes(500.0, None)),
        ({"index": 0, "axes": {"rows": 3, "other": 1}, "baseline_ns": 1500}, OfficialTimes(None, 1.5)),
    ],
)
def test_a_row_is_matched_by_index_or_uuid_in_any_unit(write_problem: Any, row: Any, expected: OfficialTimes) -> None:
    assert times(write_problem, [row]) == {"w0": expected}


def test_workloads_may_be_an_object_in_a_metadata_file(write_problem: Any) -> None:
    assert times(write_problem, {"w0": {"sol_us": 1}}, "metadata__json") == {"w0": OfficialTimes(1.0, None)}


@pytest.mark.parametrize(
    "rows",
    [
        [{"index": 0, "axes": {"rows": 4}, "sol_us": 1}],
        [{"index": 7, "sol_us": 1}, {"index": -1, "sol_us": 1}, {"uuid": "other", "sol_us": 1}],
        [{"index": 0, "sol_us": -1, "baseline_us": math.inf}, {"uuid": "w0", "sol_us": "1", "baseline_us": True}],
        [{"index": 0, "sol_us": 10**400, "baseline_s": 1e305}],
        None, 3, [[1], None],
    ],
    ids=["other-axes", "no-such-workload", "no-time", "beyond-floats", "null", "number", "junk"],
)
def test_what_fits_no_workload_or_is_no_time_is_left_out(write_problem: Any, rows: Any) -> None:
    assert times(write_problem, rows) == {}


def test_a_sidecar_that_is_no_object_is_refused(write_problem: Any) -> None:
    with pytest.raises(ProblemError, match=r"official\.json:1: must be a JSON object"):
        load_problem(write_problem(official__json="[]"))
    assert official_of(load_problem(write_problem(official__json="{}"))) is not None
    (write_problem() / "official.json").unlink()
    assert official_of(load_problem(write_problem())) is None


def test_every_workload_of_the_public_sample_has_its_official_figures(sample: Path) -> None:
    for path in find_problems(sample):
        problem = load_problem(path)
        official = official_of(problem)
        assert official is not None
        assert official.workloads.keys() == {workload.uuid for workload in problem.workloads}
        assert all(found.sol_us and found.baseline_us for found in official.workloads.values())

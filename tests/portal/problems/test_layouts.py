"""`importproblems` with other layouts than directories: rows, re-imports, history, and what the page shows of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from safetensors.numpy import save_file

from agentcore.problems import load_problem
from portal.attempts.models import Attempt
from portal.events.models import Event
from portal.problems.importing import import_problems
from portal.problems.models import Problem
from tests.portal import factories as make
from tests.portal.repositories import DEFINITION

pytestmark = pytest.mark.django_db
REFERENCE = "def run(x, weight):\n    return x * weight\n"


def line(name: str = "Scale/X", batches: tuple[int, ...] = (4, 16), reference: str = REFERENCE, **more) -> str:
    workloads = [
        {"uuid": f"w{size}", "axes": {"batch": size}, "inputs": {"x": {"type": "random"}, "weight": None}}
        for size in batches
    ]
    return json.dumps(DEFINITION | {"name": name, "reference": reference, "workloads": workloads} | more) + "\n"


def official(*sol_us: float) -> dict:
    rows = [{"index": index, "sol_us": each, "baseline_us": 2 * each} for index, each in enumerate(sol_us)]
    return {"hardware": "b200", "source": "nvidia/SOL-ExecBench <b>", "workloads": rows}


def run(*arguments, capsys) -> str:
    call_command("importproblems", *map(str, arguments))
    return capsys.readouterr().out


def test_a_line_becomes_a_problem_whose_directory_any_host_of_the_portal_can_load(tmp_path, home, capsys):
    file = tmp_path / "all.jsonl"
    file.write_text(line(official=official(1.5, 2.5)) + line("other"))
    said = run(file, capsys=capsys)
    assert "scale_x: created" in said and "2 problems: 2 created" in said
    assert "next: their baselines" in said and "manage.py baselines " in said and " --hardware cpu" in said
    problem = Problem.objects.get(name="scale_x")
    assert (problem.original_name, problem.source) == ("Scale/X", f"{file}:1")
    assert problem.directory() == home / "problems" / "scale_x"
    assert load_problem(problem.directory()).digest == problem.digest
    rows = problem.workloads.order_by("index").values_list("uuid", "official_sol_us", "official_baseline_us")
    assert list(rows) == [("w4", 1.5, 3.0), ("w16", 2.5, 5.0)]
    assert problem.workloads.get(uuid="w4").tolerance["max_atol"] == 1e-3
    problem.source_path = "/nowhere/on/this/host"
    assert problem.directory() == home / "problems" / "scale_x"


def test_a_re_import_updates_in_place_keeps_history_and_leaves_the_unchanged_alone(tmp_path, capsys, client):
    file = tmp_path / "all.jsonl"
    file.write_text(line() + line("other"))
    run(file, capsys=capsys)
    problem = Problem.objects.get(name="scale_x")
    before, updated_at = problem.digest, Problem.objects.get(name="other").updated_at
    evaluation = make.make_evaluation(make.make_attempt(problem), problem_digest=before)
    unchanged = run(file, capsys=capsys)
    assert "2 problems: 2 unchanged" in unchanged and "next:" not in unchanged
    assert Event.objects.filter(kind__startswith="problem.").count() == 2
    attempts = Attempt.objects.count()

    file.write_text(line(batches=(4, 32)) + line("other"))
    assert "2 problems: 1 updated, 1 unchanged" in run(file, capsys=capsys)
    problem.refresh_from_db()
    assert problem.digest != before
    assert Problem.objects.get(name="other").updated_at == updated_at
    assert Attempt.objects.count() == attempts
    assert dict(problem.workloads.values_list("uuid", "is_current")) == {"w4": True, "w16": False, "w32": True}
    event = Event.objects.filter(kind="problem.updated").latest("id")
    assert event.data["earlier_digest"] == before and "digest" in event.data["changed"]
    page = client.get(evaluation.get_absolute_url()).content.decode()
    assert "Of an earlier version of the problem" in page and before[:12] in page


def test_official_figures_that_change_alone_update_the_problem(tmp_path, capsys):
    file = tmp_path / "all.jsonl"
    file.write_text(line(official=official(1.5, 2.5)))
    run(file, capsys=capsys)
    digest = Problem.objects.get().digest
    file.write_text(line(official=official(1.5, 2.75)))
    assert "1 updated" in run(file, capsys=capsys)
    problem = Problem.objects.get()
    assert (problem.digest, problem.workloads.get(uuid="w16").official_sol_us) == (digest, 2.75)


def test_official_figures_stay_when_the_same_problem_comes_without_them(tmp_path, capsys):
    file = tmp_path / "all.jsonl"
    file.write_text(line(official=official(1.5, 2.5)))
    run(file, capsys=capsys)
    file.write_text(line())
    assert "1 unchanged" in run(file, capsys=capsys)
    problem = Problem.objects.get()
    assert (problem.official_hardware, problem.workloads.get(uuid="w16").official_sol_us) == ("b200", 2.5)
    file.write_text(line(batches=(4,)))
    run(file, capsys=capsys)
    problem.refresh_from_db()
    assert (problem.official_hardware, problem.workloads.get(uuid="w4").official_sol_us) == ("", None)


def test_the_page_and_the_json_show_source_and_official_figures(tmp_path, capsys, client):
    (tmp_path / "all.jsonl").write_text(line(official=official(1.5, 2.5)))
    run(tmp_path, capsys=capsys)
    problem = Problem.objects.get()
    page = client.get(problem.get_absolute_url()).content.decode()
    assert "all.jsonl:1" in page and "Scale/X" in page
    assert "nvidia/SOL-ExecBench &lt;b&gt;" in page and "<b>" not in page
    assert "official T_SOL" in page and "2.50" in page
    answer = client.get("/api/v1/problems/scale_x").json()
    assert answer["official"] == {"source": "nvidia/SOL-ExecBench <b>", "hardware": "b200"}
    assert answer["original_name"] == "Scale/X"
    assert [w["official_baseline_us"] for w in answer["workloads"]] == [3.0, 5.0]


def test_a_flashinfer_trace_collection_is_imported_with_its_blobs(tmp_path, capsys):
    root = tmp_path / "trace"
    blob = {"type": "safetensors", "path": "./blob/workloads/x.safetensors", "tensor_key": "x"}
    record = {"uuid": "w4", "axes": {"batch": 4}, "inputs": {"x": blob, "weight": {"type": "random"}}}
    for file, value in (
        ("definitions/op/scale.json", DEFINITION | {"reference": REFERENCE}),
        ("workloads/op/scale.jsonl", {"definition": "scale", "workload": record, "solution": None}),
    ):
        (root / file).parent.mkdir(parents=True)
        (root / file).write_text(json.dumps(value))
    assert "data files absent, so 1 workloads cannot run" in run(root, capsys=capsys)
    (root / "blob/workloads").mkdir(parents=True)
    save_file({"x": np.zeros((4, 8), np.float32)}, root / "blob/workloads/x.safetensors")
    assert "absent" not in run(root, capsys=capsys)
    save_file({"x": np.zeros((5, 8), np.float32)}, root / "blob/workloads/x.safetensors")
    with pytest.raises(CommandError, match="1 of 1 problems were not imported"):
        run(root, capsys=capsys)
    assert "inputs.x: ./blob/workloads/x.safetensors holds float32 (5, 8)" in capsys.readouterr().err


def test_broken_and_repeated_ones_are_counted_and_stop_no_other(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text(line("one") + "{\n" + line("two", reference="def run(:\n"))
    (tmp_path / "b.jsonl").write_text(line("one") + line("three") + line("one", batches=(1,)))
    with pytest.raises(CommandError, match="3 of 6 problems were not imported"):
        run(tmp_path, capsys=capsys)
    out, err = capsys.readouterr()
    assert "6 problems: 2 created, 1 repeated, 3 broken" in out
    assert "a.jsonl:2: is not JSON" in err
    assert "a.jsonl:3: reference, line 1: is not Python" in err
    assert "b.jsonl:3: name: 'one' is also the name of" in err
    assert sorted(Problem.objects.values_list("name", flat=True)) == ["one", "three"]


def test_references_run_in_the_sandbox_when_asked_and_those_that_fail_are_refused(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text(line("fine") + line("fails", reference="def run(x, weight):\n    return 1 / 0\n"))
    with pytest.raises(CommandError, match="1 of 2"):
        run(tmp_path, "--reference", capsys=capsys)
    assert "reference: workload w4: ZeroDivisionError" in capsys.readouterr().err
    assert Problem.objects.get().name == "fine"


def test_a_path_that_holds_nothing_is_an_error(tmp_path):
    (outcome,) = import_problems([tmp_path])
    assert "no problem here or below" in outcome.error

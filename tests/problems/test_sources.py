"""Problems in every layout that is read: tiny ones written here, whole and broken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from agentcore.judge.service import judge_environment
from agentcore.problems import load_problem, missing_blobs
from agentcore.problems.assemble import Parts, assemble
from agentcore.problems.cli import add_parser
from agentcore.problems.items import Item
from agentcore.problems.sources import collect
from agentcore.problems.sources.rows import MAX_LINE_BYTES
from tests.problems.conftest import DEFINITION
from tests.problems.layouts import BLOB, definition, error_of, names, workload, write_directory, write_lines


def test_directories_of_the_benchmark_are_found_at_any_depth_and_stay_in_place(tmp_path: Path, found: Any) -> None:
    roots = [write_directory(tmp_path / "set" / place, name) for place, name in
             (("one", "a"), ("L1/two", "b"), ("Quant/x/y/z/three", "c"), (".hidden/four", "d"))]
    outcomes = found(tmp_path / "set")
    assert sorted(names(outcomes)) == ["a", "b", "c"]
    assert {each.problem.root for each in outcomes} == set(roots[:3])
    assert not (tmp_path / "staging").exists()
    assert names(found(roots[0] / "definition.json")) == ["a"]


def test_a_line_of_jsonl_is_a_problem_with_its_workloads(tmp_path: Path, found: Any) -> None:
    file = write_lines(
        tmp_path / "all.jsonl",
        definition("a") | {"workloads": [workload("w0"), workload("w1")]},
        "",
        {"definition": definition("B/c"), "workloads": json.dumps([workload()]), "official": {"source": "them"}},
        definition("d") | {"workload": workload()},
    )
    outcomes = found(file)
    assert names(outcomes) == ["a", "b_c", "d"]
    assert [len(each.problem.workloads) for each in outcomes] == [2, 1, 1]
    second = load_problem(tmp_path / "staging" / "b_c")
    assert second == outcomes[1].problem
    assert (second.original_name, second.official, second.source) == ("B/c", {"source": "them"}, f"{file}:3")


def test_workloads_and_official_numbers_may_stand_beside_the_lines(tmp_path: Path, found: Any) -> None:
    write_lines(tmp_path / "set/all.jsonl", definition("a"), definition("b"))
    write_lines(
        tmp_path / "set/workloads.jsonl",
        {"definition": "b", "workload": workload("w7")},
        {"definition": "a"} | workload("w5"),
        {"definition": "a", "workload": workload("w6"), "solution": None},
    )
    write_lines(tmp_path / "set/official.json", {"a": {"source": "them"}})
    outcomes = found(tmp_path / "set")
    assert [[w.uuid for w in each.problem.workloads] for each in outcomes] == [["w5", "w6"], ["w7"]]
    assert [each.problem.official for each in outcomes] == [{"source": "them"}, None]


def test_a_json_file_holds_one_problem_or_a_list_of_them(tmp_path: Path, found: Any) -> None:
    one = definition("a") | {"workloads": [workload()]}
    assert names(found(write_lines(tmp_path / "one.json", one))) == ["a"]
    listed = found(write_lines(tmp_path / "two.json", [one, definition("b") | {"workloads": [workload("w3")]}]))
    assert names(listed) == ["a", "b"]
    assert listed[1].place.endswith("two.json[1]")


def test_values_without_a_text_around_them_make_a_problem() -> None:
    """As a table's rows are, also where nothing that reads tables is installed."""
    row = Path("t.parquet: row 1")
    made = assemble(Parts(Item(row, "", definition("a"), None), (Item(row, "", workload(), None),)))
    assert (made.name, len(made.workloads)) == ("a", 1) and made.reference


def write_collection(root: Path) -> Path:
    write_lines(root / "definitions/gemm/a.json", definition("a"))
    write_lines(root / "definitions/b.json", definition("b"))
    write_lines(
        root / "workloads/gemm/a.jsonl",
        {"definition": "a", "workload": workload("w0", x=BLOB), "solution": None, "evaluation": None},
    )
    write_lines(root / "workloads/b.jsonl", {"definition": "b", "workload": workload("w1")})
    write_lines(root / "traces/gemm/a.jsonl", {"definition": "a", "workload": workload(), "evaluation": {}})
    write_lines(root / "solutions/s.json", {"name": "s"})
    return root


def test_a_flashinfer_trace_collection_is_read_with_its_blobs(tmp_path: Path, found: Any) -> None:
    root = write_collection(tmp_path / "set" / "flashinfer-trace")
    outcomes = found(tmp_path / "set")
    assert [each.error for each in outcomes] == ["", ""]
    assert names(outcomes) == ["b", "a"]
    assert missing_blobs(outcomes[1].problem) == {"w0": [BLOB["path"]]}
    (root / "blob/workloads").mkdir(parents=True)
    save_file({"x": np.zeros((3, 8), np.float32)}, root / BLOB["path"])
    outcomes = found(tmp_path / "set")
    assert missing_blobs(outcomes[1].problem) == {}
    assert missing_blobs(load_problem(tmp_path / "staging" / "a")) == {}
    save_file({"x": np.zeros((3, 9), np.float32)}, root / BLOB["path"])
    assert "workload w0: inputs.x: blob/workloads/x.safetensors holds float32 (3, 9)" in error_of(found(root))


def test_a_definition_without_workloads_and_a_broken_line_are_reported(tmp_path: Path, found: Any) -> None:
    root = write_collection(tmp_path / "set")
    write_lines(root / "definitions/c.json", definition("c"))
    write_lines(root / "workloads/b.jsonl", {"definition": "b", "workload": workload("w1")}, "{")
    outcomes = found(root)
    assert "b" not in names(outcomes), "with some of its workloads it would be another problem"
    errors = [each.error for each in outcomes if each.error]
    assert len(errors) == 2
    assert "b.jsonl:2: is not JSON" in errors[0]
    assert "c.json:1: name: has no workload" in errors[1]


def test_other_places_for_blobs_are_looked_in(tmp_path: Path, found: Any, monkeypatch: Any) -> None:
    save_file({"x": np.zeros((3, 8), np.float32)}, tmp_path / "x.safetensors")
    write_lines(tmp_path / "set/a.jsonl", definition("a") | {"workloads": [workload(x=BLOB)]})
    assert missing_blobs(found(tmp_path / "set")[0].problem)
    monkeypatch.setenv("KERNELYARD_BLOBS", f"/nowhere{os.pathsep}{tmp_path}")
    assert not missing_blobs(found(tmp_path / "set")[0].problem)
    assert judge_environment()["KERNELYARD_BLOBS"].endswith(str(tmp_path)), "a judge looks there as well"


def test_a_broken_problem_stops_no_other_and_names_line_and_field(tmp_path: Path, found: Any) -> None:
    whole = definition("a") | {"workloads": [workload()]}
    bad_axis = definition("b") | {"workloads": [workload("w0"), workload("w1") | {"axes": {"rows": -1}}]}
    no_workload, last = definition("c"), whole | {"name": "d"}
    outcomes = found(write_lines(tmp_path / "all.jsonl", whole, "{", bad_axis, [1], {"axes": {}}, no_workload, last))
    assert names(outcomes) == ["a", "-", "-", "-", "-", "-", "d"]
    errors = [each.error for each in outcomes if each.error]
    for error, expected in zip(
        errors,
        ("all.jsonl:2: is not JSON", "all.jsonl:3: workloads[1].axes.rows: ", "all.jsonl:4: must be a JSON object",
         "all.jsonl:5: is no problem", "all.jsonl:6: has no workload"),
        strict=True,
    ):
        assert expected in error


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": "' + b"x" * MAX_LINE_BYTES + b'"}', "longer than 8 MiB"),
        (b'{"axes": {}, "inputs": {}, "outputs": {}, "reference": "\\u0000"}', "NUL"),
        (b'{"name": ' + b"9" * 5000 + b"}", "digits"),
        (b"", "no problem here or below"),
    ],
    ids=["binary", "deep", "long", "nul", "digits", "empty"],
)
def test_junk_is_refused_clearly_and_in_bounds(tmp_path: Path, found: Any, content: bytes, complaint: str) -> None:
    file = tmp_path / "junk.jsonl"
    file.write_bytes(content)
    assert complaint in error_of(found(file))


def test_what_is_no_file_or_no_layout_is_refused(tmp_path: Path, found: Any) -> None:
    (tmp_path / "notes.txt").touch()
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert "is no layout that is read" in error_of(found(tmp_path / "notes.txt"))
    assert "is not there" in error_of(found(tmp_path / "nothing"))
    assert "is not a regular file" in error_of(found(tmp_path))


def test_other_jsonl_files_on_the_way_are_passed_over(tmp_path: Path, found: Any) -> None:
    write_directory(tmp_path / "a", "a")
    write_lines(tmp_path / "log.jsonl", {"time": 1})
    assert names(found(tmp_path)) == ["a"]


def test_directories_nested_beyond_measure_end_in_an_error(tmp_path: Path, found: Any) -> None:
    write_directory(tmp_path / "a", "a")
    (tmp_path / "/".join(["d"] * 40)).mkdir(parents=True)
    outcomes = found(tmp_path)
    assert names(outcomes) == ["a", "-"] and "32 levels" in outcomes[1].error


def test_what_was_converted_is_not_found_again(tmp_path: Path, found: Any) -> None:
    write_lines(tmp_path / "all.jsonl", definition("a") | {"workloads": [workload()]})
    assert [names(found(tmp_path)) for _ in range(2)] == [["a"], ["a"]]
    assert names(found(tmp_path / "staging")) == ["a"]


def test_one_name_twice_is_the_same_problem_or_an_error(tmp_path: Path, found: Any) -> None:
    write_directory(tmp_path / "one", "a")
    write_directory(tmp_path / "two", "a")
    write_directory(tmp_path / "three", "a", axes=DEFINITION["axes"] | {"more": 3})
    first, second, third = found(tmp_path / "one", tmp_path / "two", tmp_path / "three")
    assert (first.same_as, second.same_as) == ("", str(tmp_path / "one"))
    assert "definition.json:1: name: 'a' is also the name of" in third.error
    assert str(tmp_path / "one") in third.error


@pytest.mark.parametrize("name", ["definition.json", "heldout.jsonl", "baseline.py", "library.py"])
def test_a_blob_cannot_take_the_place_of_a_problems_own_file(tmp_path: Path, found: Any, name: str) -> None:
    source = BLOB | {"path": name}
    file = write_lines(tmp_path / "set" / "all.jsonl", definition("a") | {"workloads": [workload(x=source)]})
    (file.parent / name).write_text("{}")
    assert f"all.jsonl:1: inputs: {name!r} has the name of one" in error_of(found(file))
    assert not (tmp_path / "staging" / "a").exists()


def test_a_problem_that_was_not_converted_is_never_replaced(tmp_path: Path, found: Any) -> None:
    mine = write_directory(tmp_path / "staging" / "a", "a")
    before = {each.name: each.read_text() for each in mine.iterdir()}
    line = definition("a", description="Another") | {"workloads": [workload()]}
    assert "is a problem that was not converted" in error_of(found(write_lines(tmp_path / "set" / "all.jsonl", line)))
    assert {each.name: each.read_text() for each in mine.iterdir()} == before


def test_staging_again_leaves_the_same_alone_and_replaces_what_changed(tmp_path: Path, found: Any) -> None:
    line = definition("a") | {"workloads": [workload()], "official": {"source": "them"}}
    file = write_lines(tmp_path / "all.jsonl", line)
    found(file)
    staged = tmp_path / "staging" / "a"
    before = {each.name: each.stat().st_mtime_ns for each in staged.iterdir()}
    digest = load_problem(staged).digest
    found(file)
    assert {each.name: each.stat().st_mtime_ns for each in staged.iterdir()} == before
    del line["official"]
    line["workloads"].append(workload("w9"))
    write_lines(file, line)
    found(file)
    changed = load_problem(staged)
    assert changed.digest != digest and changed.official is None
    assert sorted(each.name for each in staged.iterdir()) == ["definition.json", "source.json", "workload.jsonl"]


def command(*arguments: str) -> int:
    import argparse

    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["problems", *arguments])
    return int(parsed.run(parsed))


def test_the_command_reports_each_problem_and_sums_up(tmp_path: Path, capsys: Any) -> None:
    write_lines(tmp_path / "all.jsonl", definition("a\x1b[2J") | {"workloads": [workload()]}, "{")
    assert command("check", str(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "1 of 2 problems load, with 1 workloads" in said
    assert "all.jsonl:2: is not JSON" in said and "\x1b" not in said
    write_lines(tmp_path / "all.jsonl", definition("a") | {"workloads": [workload()]})
    assert command("convert", str(tmp_path), "--output", str(tmp_path / "out")) == 0
    assert load_problem(tmp_path / "out" / "a").name == "a"
    assert capsys.readouterr().out.splitlines()[-1] == f"1 written below {tmp_path / 'out'}"
    write_directory(tmp_path / "set" / "b", "b")
    assert command("convert", str(tmp_path / "set"), "--output", str(tmp_path / "none")) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == "nothing was written; 1 is a directory already, to be used in place"
    assert not (tmp_path / "none").exists()
    assert command("check", str(tmp_path / "absent")) == 2


def test_the_command_tries_references_when_asked(tmp_path: Path, capsys: Any) -> None:
    write_directory(tmp_path / "good", "good")
    write_directory(tmp_path / "bad", "bad", reference="def run(x, scale):\n    return x + undefined\n")
    assert command("check", str(tmp_path), "--reference") == 1
    said = capsys.readouterr().out
    assert "good: 1 workload for GPUs and the CPU alike, none held out; the reference ran" in said
    assert f"{tmp_path / 'bad'}: reference: workload w0: NameError: name 'undefined'" in said


def test_every_problem_of_the_public_sample_passes_through_every_layout(sample: Path, tmp_path: Path) -> None:
    lines = []
    for outcome in collect([sample], tmp_path / "none"):
        assert outcome.problem is not None, outcome.error
        root = outcome.problem.root
        held = [json.loads(line) for line in (root / "workload.jsonl").read_text().splitlines() if line.strip()]
        lines.append(json.loads((root / "definition.json").read_text()) | {"workloads": held})
    assert len(lines) == 41 and not (tmp_path / "none").exists()
    write_lines(tmp_path / "all.jsonl", *lines)
    again = list(collect([tmp_path / "all.jsonl"], tmp_path / "staging"))
    digests = {load_problem(path.parent).digest for path in sample.rglob("definition.json")}
    assert {each.problem.digest for each in again if each.problem} == digests


def test_names_that_no_file_can_have_and_pipes_stop_nothing(tmp_path: Path, found: Any) -> None:
    far = BLOB | {"path": "a" * 300 + "/x.safetensors"}
    lines = [definition("a", workloads=[workload("w0", x=far)]), definition("b", workloads=[workload()])]
    write_lines(tmp_path / "set/a.jsonl", *lines)
    os.mkfifo(tmp_path / "set/c.parquet")
    outcomes = found(tmp_path / "set")
    assert names(outcomes) == ["a", "b", "-"] and "is not a regular file" in error_of(outcomes)
    assert missing_blobs(outcomes[0].problem) == {"w0": [far["path"]]}


def test_a_definition_whose_name_is_no_text_stops_no_other(tmp_path: Path, found: Any) -> None:
    for file, name in (("a", ["a"]), ("b", "b")):
        write_lines(tmp_path / f"set/definitions/{file}.json", definition("x") | {"name": name})
    write_lines(tmp_path / "set/workloads/b.jsonl", {"definition": "b", "workload": workload()})
    outcomes = found(tmp_path / "set")
    assert names(outcomes) == ["-", "b"] and "name" in error_of(outcomes)

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from agentcore.problems import ProblemError, find_problems, load_problem, missing_blobs
from agentcore.problems.blobs import blob_faults, blob_files, find_blob
from agentcore.vocabulary import NAME_PATTERN, HardwareName

BLOB = {"path": "s", "tensor_key": "s"}


def test_a_problem_loads_with_its_axes_shapes_and_sources(write_problem: Any) -> None:
    problem = load_problem(write_problem())
    values = problem.definition.axis_values(problem.workloads[0].axes)
    assert values == {"rows": 3, "cols": 8, "half": 4}
    assert list(values) == ["rows", "cols", "half"]
    assert problem.definition.shape(problem.definition.inputs["x"], values) == (3, 8)
    assert problem.definition.shape(problem.definition.inputs["scale"], values) is None
    assert (problem.definition.var_axes, problem.definition.expr_axes) == (("rows",), ("half",))
    assert problem.workloads[0].tolerance.required_matched_ratio == 0.99


def set_in(*path: str, value: Any) -> Any:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        target = {"definition": definition, "workload": workload}[path[0]]
        for step in path[1:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "file", "field", "complaint"),
    [
        (set_in("definition", "name", value="…"), "definition.json", "name", "no letter or digit"),
        (set_in("definition", "name", value=""), "definition.json", "name", "at least 1"),
        (set_in("definition", "axes", "cols", "value", value=-1), "definition.json", "axes.cols.value", "greater than"),
        (set_in("definition", "axes", "cols", "type", value="fixed"), "definition.json", "axes.cols", "const"),
        (set_in("definition", "inputs", "x", "dtype", value="float31"), "definition.json", "inputs.x.dtype", "known:"),
        (set_in("definition", "outputs", "y", "shape", value=["depth"]), "definition.json", "", "depth is not an axis"),
        (set_in("definition", "outputs", value={}), "definition.json", "outputs", "at least 1"),
        (set_in("definition", "inputs", "y", value={"shape": [1], "dtype": "bool"}), "definition.json", "", "both an"),
        (set_in("definition", "custom_inputs_entrypoint", value="make"), "definition.json", "reference", "no make"),
        (set_in("definition", "reference", value="def run(:\n"), "definition.json", "reference, line 1", "not Python"),
        (set_in("definition", "reference", value="x = 1"), "definition.json", "reference", "no run"),
        (set_in("definition", "reference", value=None), "definition.json", "reference", "no reference.py beside"),
        (set_in("workload", "axes", value={}), "workload.jsonl", "axes", "'rows' has no value"),
        (set_in("workload", "axes", "rows", value=-2), "workload.jsonl", "axes.rows", "greater than"),
        (set_in("workload", "axes", value={"row": 3}), "workload.jsonl", "axes", "row is not an axis"),
        (set_in("workload", "axes", "rows", value=3.5), "workload.jsonl", "axes.rows", "valid integer"),
        (set_in("workload", "axes", "cols", value=9), "workload.jsonl", "axes", "8 by the definition, 9 by"),
        (set_in("workload", "inputs", value={"z": {}}), "workload.jsonl", "inputs", "z is not an input of the"),
        (set_in("workload", "inputs", "x", value={"type": "custom"}), "workload.jsonl", "inputs.x", "entrypoint"),
        (set_in("workload", "inputs", "scale", value=BLOB), "workload.jsonl", "inputs.scale", "is a scalar"),
        (set_in("workload", "inputs", "x", value=BLOB | {"path": "../s"}), "workload.jsonl", "inputs.x.path", "rel"),
        (set_in("workload", "inputs", "x", value=BLOB | {"path": "/s"}), "workload.jsonl", "inputs.x.path", "relativ"),
        (set_in("workload", "inputs", "x", value=BLOB | {"path": "\0"}), "workload.jsonl", "", "NUL"),
        (set_in("definition", "description", value="\ud800"), "definition.json", "", "surrogate"),
        (set_in("workload", "tolerance", value={"max_atoll": 1}), "workload.jsonl", "tolerance.max_atoll", "Extra"),
        (set_in("workload", "tolerance", value={"max_rtol": -1}), "workload.jsonl", "tolerance.max_rtol", "greater"),
        (set_in("workload", "tolerance", value={"max_atol": math.inf}), "workload.jsonl", "max_atol", "finite"),
        (set_in("workload", "tolerance", value={"max_atol": math.nan}), "workload.jsonl", "max_atol", "finite"),
        (set_in("workload", "axes", "rows", value=10**400), "workload.jsonl", "axes.rows", "less than"),
        (set_in("definition", "axes", "cols", "value", value=2**60), "definition.json", "axes.cols.value", "less than"),
        (set_in("workload", "inputs", "x", value={"high": "depth"}), "workload.jsonl", "x.high", "not an axis"),
        (set_in("workload", "inputs", "x", value={"low": math.nan}), "workload.jsonl", "x", "finite"),
    ],
)
def test_an_error_names_file_field_and_cause(
    write_problem: Any, change: Any, file: str, field: str, complaint: str
) -> None:
    root = write_problem(change)
    with pytest.raises(ProblemError) as caught:
        load_problem(root)
    message = str(caught.value)
    assert message.startswith(str(root / file)), message
    assert field in message
    assert complaint in message


def test_an_error_points_at_the_line_of_the_field(write_problem: Any) -> None:
    root = write_problem(set_in("definition", "inputs", "x", "dtype", value="float31"))
    lines = (root / "definition.json").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if "float31" in text)
    with pytest.raises(ProblemError, match=f"definition.json:{line}: inputs.x.dtype: "):
        load_problem(root)


def test_a_workload_error_names_its_line_past_blank_ones(write_problem: Any) -> None:
    root = write_problem()
    good = (root / "workload.jsonl").read_text()
    (root / "workload.jsonl").write_text(good + "\n" + good.replace("w0", "w1").replace('"rows": 3', '"rows": "3"'))
    with pytest.raises(ProblemError, match=r"workload\.jsonl:3: axes\.rows: "):
        load_problem(root)


def test_a_syntax_error_names_its_line(write_problem: Any) -> None:
    root = write_problem(workload__jsonl='{"uuid": "w0"}\n{"uuid": \n')
    with pytest.raises(ProblemError, match=r"workload\.jsonl:2: is not JSON"):
        load_problem(root)
    root = write_problem(definition__json='{\n  "name": "a",\n  oops\n}')
    with pytest.raises(ProblemError, match=r"definition\.json:3: is not JSON"):
        load_problem(root)


def test_a_field_given_twice_is_refused(write_problem: Any) -> None:
    root = write_problem(workload__jsonl='{"uuid": "w0", "axes": {"rows": 1, "rows": 2}}')
    with pytest.raises(ProblemError, match="'rows' is given twice"):
        load_problem(root)


def test_axes_that_define_each_other_are_refused(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["axes"]["p"] = {"type": "expr", "expression": "q + 1"}
        definition["axes"]["q"] = {"type": "expr", "expression": "p + 1"}

    with pytest.raises(ProblemError, match="p, q are defined by each other"):
        load_problem(write_problem(change))


def test_expression_axes_may_use_axes_declared_later(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["axes"] = {"quarter": {"type": "expr", "expression": "half // 2"}} | definition["axes"]

    problem = load_problem(write_problem(change))
    assert problem.definition.axis_values({"rows": 1})["quarter"] == 2


def test_two_workloads_with_one_uuid_are_refused_across_files(write_problem: Any) -> None:
    root = write_problem()
    (root / "heldout.jsonl").write_text((root / "workload.jsonl").read_text())
    with pytest.raises(ProblemError, match="w0 is used by two workloads"):
        load_problem(root)


def test_null_and_missing_optional_fields_are_defaults(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["axes"]["rows"]["description"] = None
        definition |= {"tags": None, "hf_id": None, "custom_inputs_entrypoint": None, "description": None}
        workload["tolerance"] = {"max_atol": None, "max_error_cap": None}

    problem = load_problem(write_problem(change))
    assert (problem.definition.description, problem.definition.tags) == ("", ())
    assert problem.workloads[0].tolerance.max_atol == 1e-3


def test_what_collections_leave_out_is_understood(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["axes"] = {"rows": None, "cols": 8, "half": {"expression": "cols // 2"}}
        definition["inputs"]["x"]["dtype"] = "torch.float"
        definition["outputs"]["total"] = {"shape": None, "dtype": "fp32"}
        workload["axes"] |= {"rows": 3.0, "warps": 4}
        workload["inputs"] = {"x": None, "scale": {"value": 2}, "unused": {"type": "random"}}
        del workload["uuid"]

    problem = load_problem(write_problem(change))
    workload = problem.workloads[0]
    assert problem.definition.axis_values(workload.axes) == {"rows": 3, "cols": 8, "half": 4}
    assert {name: source.type for name, source in workload.inputs.items()} == {"x": "random", "scale": "scalar"}
    assert problem.definition.inputs["x"].dtype == "float32"
    assert problem.definition.outputs["total"].shape == ()
    assert workload.uuid == load_problem(write_problem(change)).workloads[0].uuid


def test_a_uuid_that_a_list_repeats_gets_a_number(write_problem: Any) -> None:
    line = json.dumps(json.loads((write_problem() / "workload.jsonl").read_text()) | {"uuid": "u" * 64})
    problem = load_problem(write_problem(workload__jsonl=f"{line}\n{line}\n{line}\n"))
    assert [workload.uuid for workload in problem.workloads] == ["u" * 64, "u" * 62 + "~2", "u" * 62 + "~3"]


def test_inputs_without_a_source_are_made_like_their_neighbours(write_problem: Any) -> None:
    workload = load_problem(write_problem(set_in("workload", "inputs", value=None))).workloads[0]
    assert {name: source.type for name, source in workload.inputs.items()} == {"x": "random", "scale": "random"}

    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["custom_inputs_entrypoint"] = "run"
        workload["inputs"] = {"x": {"type": "custom"}}

    workload = load_problem(write_problem(change)).workloads[0]
    assert {name: source.type for name, source in workload.inputs.items()} == {"x": "custom", "scale": "custom"}


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("rmsnorm_h4096", "rmsnorm_h4096"),
        ("GEMM n4096/k2048 (bf16)", "gemm_n4096_k2048_bf16"),
        ("Éclair  2", "eclair_2"),
        ("_x_", "x"),
    ],
)
def test_a_name_that_cannot_be_one_here_is_mapped_and_kept(write_problem: Any, original: str, name: str) -> None:
    problem = load_problem(write_problem(set_in("definition", "name", value=original)))
    assert (problem.name, problem.definition.name, problem.original_name) == (name, name, original)


def test_long_names_stay_apart(write_problem: Any) -> None:
    names = [
        load_problem(write_problem(set_in("definition", "name", value="n" * 120 + end))).name for end in ("a", "b")
    ]
    assert names[0] != names[1]
    assert all(NAME_PATTERN.match(name) for name in names)


@pytest.mark.parametrize(
    ("outputs", "limits"),
    [
        (["float32"], (1e-3, 1e-3)),
        (["bfloat16"], (1e-2, 1e-2)),
        (["float32", "float8_e4m3fn"], (1e-2, 0.125)),
        (["int64"], (0, 0)),
    ],
)
def test_a_workload_without_a_tolerance_gets_that_of_its_output_dtypes(
    write_problem: Any, outputs: list[str], limits: tuple[float, float]
) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["outputs"] = {f"y{i}": {"shape": ["rows"], "dtype": dtype} for i, dtype in enumerate(outputs)}

    tolerance = load_problem(write_problem(change)).workloads[0].tolerance
    assert (tolerance.max_atol, tolerance.max_rtol) == limits
    assert tolerance.required_matched_ratio == 0.99


def test_a_tolerance_that_states_one_limit_keeps_it(write_problem: Any) -> None:
    problem = load_problem(write_problem(set_in("workload", "tolerance", value={"max_rtol": 0.5})))
    tolerance = problem.workloads[0].tolerance
    assert (tolerance.max_atol, tolerance.max_rtol) == (1e-3, 0.5)


def test_both_spellings_of_the_matched_ratio_count(write_problem: Any) -> None:
    problem = load_problem(write_problem(set_in("workload", "tolerance", value={"required_match_ratio": 0.5})))
    assert problem.workloads[0].tolerance.required_matched_ratio == 0.5


def test_the_reference_may_lie_beside_the_definition(write_problem: Any) -> None:
    source = "def run(x, scale):\n    return x\n"
    problem = load_problem(write_problem(set_in("definition", "reference", value=None), reference__py=source))
    assert problem.reference == source
    with pytest.raises(ProblemError, match=r"differs from reference\.py"):
        load_problem(write_problem(reference__py=source))


def test_a_syntax_error_in_reference_py_names_its_line(write_problem: Any) -> None:
    root = write_problem(set_in("definition", "reference", value=None), reference__py="import torch\n\ndef run(:\n")
    with pytest.raises(ProblemError, match=r"reference\.py:3: is not Python"):
        load_problem(root)


def test_the_cpu_gets_its_own_workloads_and_held_out_ones(write_problem: Any) -> None:
    root = write_problem()
    line = json.loads((root / "workload.jsonl").read_text())
    (root / "workload.cpu.jsonl").write_text(json.dumps(line | {"uuid": "c0"}))
    held = [line | {"uuid": "h0"}, line | {"uuid": "h1", "target": "cpu"}]
    (root / "heldout.jsonl").write_text("\n".join(map(json.dumps, held)))
    problem = load_problem(root)
    assert [w.uuid for w in problem.workloads_for(HardwareName.CPU)] == ["c0"]
    assert [w.uuid for w in problem.workloads_for(HardwareName.H200)] == ["w0"]
    assert [w.uuid for w in problem.heldout_for(HardwareName.CPU)] == ["h1"]
    assert [w.uuid for w in problem.heldout_for(HardwareName.B200)] == ["h0"]


def test_without_a_cpu_list_the_cpu_gets_the_gpu_workloads(write_problem: Any) -> None:
    assert [w.uuid for w in load_problem(write_problem()).workloads_for(HardwareName.CPU)] == ["w0"]


def test_the_digest_follows_the_content_and_not_the_layout(write_problem: Any) -> None:
    root = write_problem()
    first = load_problem(root).digest
    (root / "definition.json").write_text(json.dumps(json.loads((root / "definition.json").read_text())))
    assert load_problem(root).digest == first
    changed = write_problem(set_in("workload", "axes", "rows", value=4))
    assert load_problem(changed).digest != first

    def swap(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["inputs"] = dict(reversed(definition["inputs"].items()))

    assert load_problem(write_problem(swap)).digest != first, "the order of inputs is the kernel's ABI"


def test_absent_safetensors_are_named_and_do_not_stop_loading(write_problem: Any) -> None:
    source = {"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "x"}
    root = write_problem(set_in("workload", "inputs", "x", value=source))
    assert missing_blobs(load_problem(root)) == {"w0": ["blob/x.safetensors"]}
    (root / "blob").mkdir()
    (root / "blob" / "x.safetensors").touch()
    assert missing_blobs(load_problem(root)) == {}


def test_a_blob_path_cannot_leave_the_problem(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    (tmp_path / "problem").mkdir()
    assert find_blob(tmp_path / "problem", "../secret") is None
    assert find_blob(tmp_path / "problem", str(tmp_path / "secret")) is None


def test_what_a_blob_holds_is_checked_by_its_header(write_problem: Any) -> None:
    source = {"type": "safetensors", "path": "blob.safetensors", "tensor_key": "x"}
    root = write_problem(set_in("workload", "inputs", "x", value=source))
    file = root / "blob.safetensors"
    file.write_bytes(b"\xff" * 64)
    assert "workload w0: inputs.x: blob.safetensors cannot be read" in blob_faults(load_problem(root))[0]
    save_file({"y": np.zeros((3, 8), np.float32)}, file)
    assert "holds no tensor 'x'; it has y" in blob_faults(load_problem(root))[0]
    save_file({"x": np.zeros((3, 8), np.float16)}, file)
    assert "holds float16 (3, 8); the definition says float32 (3, 8)" in blob_faults(load_problem(root))[0]
    save_file({"x": np.zeros((3, 8), np.float32)}, file)
    assert blob_faults(load_problem(root)) == []
    assert blob_files(load_problem(root)) == [file.resolve()]


@pytest.mark.parametrize("name", ["README.md", "baseline.py", "definition.json"])
def test_a_file_linked_from_outside_is_refused_and_one_from_inside_is_not(
    write_problem: Any, tmp_path: Path, name: str
) -> None:
    root, secret = write_problem(), tmp_path / "secret"
    secret.write_text("not for readers of the problem")
    (root / name).rename(root / "kept") if (root / name).exists() else (root / "kept").write_text("")
    (root / name).symlink_to(secret)
    with pytest.raises(ProblemError, match=rf"{name}: is a link that leads out of the problem's directory"):
        load_problem(root)
    (root / name).unlink()
    (root / name).symlink_to("kept")
    assert load_problem(root).name == "scaled_rows"


def test_unicode_paths_work(write_problem: Any, tmp_path: Path) -> None:
    moved = write_problem().rename(tmp_path / "prøblem µ")
    assert load_problem(moved).name == "scaled_rows"


def test_every_problem_of_the_public_sample_loads(sample: Path) -> None:
    found = find_problems(sample)
    assert len(found) == 41
    problems = [load_problem(path) for path in found]
    assert sum(len(p.workloads) for p in problems) == 807
    blocked = {p.name for p in problems if missing_blobs(p)}
    assert len(blocked) == 5
    assert all(len(missing_blobs(p)) == len(p.workloads) for p in problems if p.name in blocked)
    assert all(p.official is not None for p in problems)


def test_official_axis_values_agree_with_ours(sample: Path) -> None:
    for path in find_problems(sample):
        problem = load_problem(path)
        assert problem.official is not None
        for row in problem.official["workloads"]:
            values = problem.definition.axis_values(problem.workloads[row["index"]].axes)
            assert {name: values[name] for name in row["axes"] if name in values} == {
                name: value for name, value in row["axes"].items() if name in values
            }

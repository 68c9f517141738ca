"""Everything that is wrong with a problem is said at once, and what only looks odd is a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcore.problems import ProblemError, load_problem
from agentcore.problems.errors import MAX_SHOWN_LINES
from agentcore.problems.signatures import check_source
from agentcore.problems.sources import collect
from tests.problems.conftest import WORKLOAD

DEFINITION = """{
  "name": "scaled",
  "axes": {
    "rows": {"type": "var"},
    "d": {"type": "const", "value": -8},
    "half": {"type": "expr", "expression": "d // depth"}
  },
  "inputs": {
    "x": {"shape": ["rows", "width"], "dtype": "bfloat17"}
  },
  "outputs": {
    "y": {"shape": ["rows", "d + "], "dtype": "float32"},
    "x": {"shape": ["rows"], "dtype": "float32"}
  }
}
"""


def faults_of(root: Path) -> list[str]:
    with pytest.raises(ProblemError) as caught:
        load_problem(root)
    return str(caught.value).replace(f"{root}/", "").splitlines()


def line(uuid: str, **changes: Any) -> str:
    return json.dumps(WORKLOAD | {"uuid": uuid} | changes) + "\n"


def warnings_of(root: Path) -> list[str]:
    return [each.replace(f"{root}/", "") for each in load_problem(root).warnings]


def test_all_faults_of_a_problem_are_said_at_once_with_their_lines(write_problem: Any) -> None:
    root = write_problem(
        definition__json=DEFINITION,
        reference__py="import torch\n\ndef run(x:\n    return x\n",
        workload__jsonl='{"uuid": "a", "axes": {"rows": -1}, "inputs": {}}\n\n{"uuid":\n'
        '{"uuid": "b", "axes": {"rows": 1}, "inputs": {"x": {"type": "rand"}}, "tolerance": {"atol": 1}}\n',
        heldout__jsonl='{"axes": []}\n',
    )
    said = faults_of(root)
    for begins in (
        "definition.json:5: axes.d.value: ",
        "definition.json:6: axes.half.expression: depth is not an axis",
        "definition.json:9: inputs.x.shape[1]: width is not an axis (axes: rows, d, half)",
        "definition.json:9: inputs.x.dtype: 'bfloat17' is not a dtype",
        "definition.json:12: outputs.y.shape[1]: 'd + ' is not an arithmetic expression",
        "definition.json:13: outputs.x: x is both an input and an output",
        "reference.py:3: is not Python",
        "workload.jsonl:1: axes.rows: ",
        "workload.jsonl:3: is not JSON",
        "workload.jsonl:4: inputs.x: ",
        "workload.jsonl:4: tolerance.atol: ",
        "heldout.jsonl:1: axes: ",
    ):
        assert len([each for each in said if each.startswith(begins)]) == 1, (begins, said)


def test_a_definition_that_is_no_json_hides_no_fault_of_a_workload(write_problem: Any) -> None:
    root = write_problem(definition__json="{\n oops", workload__jsonl=line("a") + line("b", axes={"rows": "3"}) + "{")
    said = faults_of(root)
    assert [each.split(": ")[0] for each in said] == ["definition.json:2", "workload.jsonl:3", "workload.jsonl:2"]


def test_each_bad_workload_is_said_up_to_a_bound(write_problem: Any) -> None:
    bad = "".join(line(f"w{n}", axes={"row": 1}) for n in range(3))
    said = faults_of(write_problem(workload__jsonl=bad))
    assert [each.split(": ")[0] for each in said] == [f"workload.jsonl:{n}" for n in (1, 2, 3)]
    bad = "".join(line(f"w{n}", axes={"row": 1}) for n in range(10_000))
    said = faults_of(write_problem(workload__jsonl=bad))
    assert len(said) == MAX_SHOWN_LINES + 1 and said[-1] == "and 1 or more others"


def test_a_fault_between_members_has_the_line_of_the_member(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["outputs"]["y"]["shape"] = ["rows", "width"]
        definition["axes"]["x"] = {"type": "var"}

    root = write_problem(change)
    lines = (root / "definition.json").read_text().splitlines()
    width = next(number for number, text in enumerate(lines, start=1) if '"width"' in text)
    said = faults_of(root)
    assert f"definition.json:{width}: outputs.y.shape[1]: width is not an axis (axes: rows, cols, half, x)" in said
    assert any("inputs.x: x is both an axis and a parameter" in each for each in said)


def test_what_means_nothing_to_the_definition_is_a_warning(write_problem: Any) -> None:
    extra = {"axes": {"rows": 3, "q": 3}, "inputs": WORKLOAD["inputs"] | {"zz": {"type": "random"}}}
    root = write_problem(workload__jsonl=line("a") + line("b", **extra) + line("c", **extra) + line("a"))
    assert warnings_of(root) == [
        "workload.jsonl:2: axes.q: is not an axis of the definition; it is ignored (and 1 more like it in this file)",
        "workload.jsonl:2: inputs.zz: is not an input of the definition; it is ignored"
        " (and 1 more like it in this file)",
        "workload.jsonl:4: uuid: a is the uuid of an earlier one, so this one is called a~2",
    ]
    assert [workload.uuid for workload in load_problem(root).workloads] == ["a", "b", "c", "a~2"]


def test_a_field_that_is_nearly_one_is_a_warning_and_any_other_is_passed_over(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition |= {"custom_input_entrypoint": "make", "author": "somebody"}
        workload |= {"tolerence": {"max_atol": 1}, "scored": True}

    assert [each.partition(": ")[2] for each in warnings_of(write_problem(change))] == [
        "custom_input_entrypoint: is no field and is ignored; 'custom_inputs_entrypoint' is one",
        "tolerence: is no field and is ignored; 'tolerance' is one",
    ]


def test_an_axis_that_only_the_generator_asks_for_is_none(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["custom_inputs_entrypoint"] = "make"
        definition["reference"] += "\ndef make(axes, device):\n    return {'x': axes['blocks'] * axes.get('q')}\n"
        workload["axes"] |= {"blocks": 2, "q": 3, "block": 1}

    assert [each.split(": ")[1] for each in warnings_of(write_problem(change))] == ["axes.block"]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def run(x):\n    return x", "run(x) takes 1 parameter; the definition has 2 inputs (x, scale)"),
        ("def run(x, scale, out):\n    return x", "run(x, scale, out) takes 3 parameters; the"),
        ("def run(x, scale, *, eps):\n    return x", "needs eps by name, and is called by position"),
        ("def run(x, *, scale=1):\n    return x", "takes 1 parameter;"),
        ("def run(x, scale, a, b=1, *rest):\n    return x", "takes 3 or more parameters"),
        ("def run(x, scale):\n    return x\ndef make(axes):\n    return {}", "make takes 1 parameter; it is"),
        ("def run(a, b, c=1):\n    return a", ""),
        ("def run(*tensors):\n    return tensors[0]", ""),
        ("def run(x):\n    pass\nrun = partial(run, 1)", ""),
        ("def run(x):\n    pass\nif True:\n    def run(x, scale):\n        return x", ""),
        ("@wrapped\ndef run(x):\n    return x", ""),
        ("@torch.no_grad()\ndef run(x):\n    return x", "takes 1 parameter;"),
        ("from elsewhere import run", ""),
    ],
    ids=[
        "too-few", "too-many", "by-name", "by-name-default", "too-few-for-rest", "generator", "default", "rest",
        "assigned", "in-a-block", "wrapped", "no-grad", "imported",
    ],
)
def test_a_reference_must_take_as_many_inputs_as_it_gets(source: str, fault: str) -> None:
    entry = "make" if "make" in source else None
    faults = check_source(source, ("x", "scale"), entry).faults
    assert [message for _, message in faults if fault and fault in message] == [message for _, message in faults]
    assert bool(faults) == bool(fault)


@pytest.mark.parametrize(
    ("parameters", "warning"),
    [("y, factor", "takes y for x, factor for scale: inputs are passed by position, and they have other names"),
     ("scale, x", "takes scale for x, x for scale: inputs are passed by position, and they are in another order"),
     ("x, scale", "")],
    ids=["other-names", "other-order", "same"],
)
def test_parameters_of_other_names_than_the_inputs_are_a_warning(
    write_problem: Any, parameters: str, warning: str
) -> None:
    root = write_problem(lambda definition, workload: definition.update(
        reference=f"import torch\n\ndef run({parameters}):\n    return 0\n"
    ))
    said = warnings_of(root)
    assert bool(said) == bool(warning)
    assert all("reference, line 3: run " in each and warning in each for each in said)


def test_a_problem_in_the_working_directory_is_named_in_full(write_problem: Any, monkeypatch: Any) -> None:
    root = write_problem(workload__jsonl="{")
    monkeypatch.chdir(root)
    (found,) = collect([Path()], root / "staging")
    assert found.place == str(root.resolve())
    assert found.error.startswith(f"{root.resolve() / 'workload.jsonl'}:1: is not JSON")


def test_a_baseline_that_cannot_be_called_is_a_warning(write_problem: Any) -> None:
    root = write_problem()
    (root / "library.py").write_text("def run(*tensors):\n    tensors[-1].fill_(1)\n")
    assert warnings_of(root) == []
    inputs, outputs = (list(getattr(load_problem(root).definition, side)) for side in ("inputs", "outputs"))
    (root / "baseline.py").write_text("def run(x):\n    return x\n")
    (said,) = warnings_of(root)
    called = ", ".join(inputs + outputs)
    assert said == f"baseline.py:1: run(x) takes 1 parameter; it is called with {called}: no baseline"
    (root / "baseline.py").write_text("def run(:\n")
    (said,) = warnings_of(root)
    assert said.startswith("baseline.py:1: is not Python")


def test_an_unknown_function_is_said_once_and_where_it_stands(write_problem: Any) -> None:
    stated = json.loads(DEFINITION)
    stated["axes"]["half"]["expression"] = "floordiv(d, 2)"
    said = faults_of(write_problem(definition__json=json.dumps(stated)))
    (found,) = (each for each in said if "floordiv" in each)
    assert found.startswith("definition.json:1: axes.half.expression: 'floordiv(d, 2)' uses")

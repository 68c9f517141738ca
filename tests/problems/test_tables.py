"""Tables of problems: parquet files as the published dataset has them, whole and broken."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.problems.layouts import definition, error_of, names, workload


@pytest.mark.parametrize("nested", [False, True], ids=["text", "nested"])
def test_the_columns_of_the_published_table_are_read(tmp_path: Path, found: Any, nested: bool) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'kernelyard[parquet]')")
    from pyarrow import parquet

    rows = [
        definition("a", hf_id="org/model", custom_inputs_entrypoint=None) | {"workloads": [workload()]},
        definition("b", hf_id=None, description="Second") | {"workloads": [workload("w1"), workload("w2")]},
    ]
    rows[1]["inputs"] = {"x": rows[1]["inputs"]["x"]}
    rows[1]["reference"] = "def run(x):\n    return x\n"
    if not nested:
        rows = [{k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()} for row in rows]
    (tmp_path / "set").mkdir()
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "set" / "train-00000-of-00001.parquet")
    outcomes = found(tmp_path / "set")
    assert [each.error for each in outcomes] == ["", ""]
    assert names(outcomes) == ["a", "b"]
    first, second = (each.problem for each in outcomes)
    assert first.definition.hf_id == "org/model"
    assert list(first.definition.inputs) == ["x", "scale"] and first.definition.inputs["scale"].shape is None
    assert list(second.definition.inputs) == ["x"] and [w.uuid for w in second.workloads] == ["w1", "w2"]


def test_nested_columns_keep_the_order_of_parameters_and_refuse_outputs_in_none(tmp_path: Path, found: Any) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'kernelyard[parquet]')")
    from pyarrow import parquet

    def row(name: str, inputs: str, outputs: str) -> dict[str, Any]:
        spec = {"shape": ["rows", "cols"], "dtype": "float32"}
        reference = f"def run({', '.join(inputs)}):\n    return {', '.join(inputs[0] for _ in outputs)}\n"
        made = workload() | {"inputs": {n: {"type": "random"} for n in inputs}}
        sides = {"inputs": dict.fromkeys(inputs, spec), "outputs": dict.fromkeys(outputs, spec)}
        return definition(name, **sides, reference=reference) | {"workloads": json.dumps([made])}

    (tmp_path / "set").mkdir()
    rows = [row("a", "uvw", "y"), row("b", "wu", "z"), row("c", "vu", "zy"), row("d", "w", "yzq")]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "set" / "one.parquet")
    outcomes = found(tmp_path / "set")
    assert [list(o.problem.definition.inputs) for o in outcomes[:2]] == [["u", "v", "w"], ["w", "u"]]
    assert "row 2: outputs: is a nested column" in outcomes[2].error
    assert list(outcomes[3].problem.definition.outputs) == ["y", "z", "q"]


def test_a_broken_row_of_a_table_is_named(tmp_path: Path, found: Any) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'kernelyard[parquet]')")
    from pyarrow import parquet

    rows = [definition("a") | {"axes": "{'rows'"}, definition("b") | {"axes": "{}"}]
    table = pa.Table.from_pylist([{key: str(value) for key, value in row.items()} for row in rows])
    parquet.write_table(table, tmp_path / "t.parquet")
    first, second = (each.error for each in found(tmp_path / "t.parquet"))
    assert "t.parquet: row 0: axes: is text that is not JSON" in first
    assert "t.parquet: row 1: inputs: is text that is not JSON" in second
    (tmp_path / "t.parquet").write_bytes(b"PAR1" + os.urandom(100) + b"PAR1")
    assert "t.parquet: cannot be read as parquet" in error_of(found(tmp_path / "t.parquet"))


def test_columns_that_json_cannot_hold_stop_nothing(tmp_path: Path, found: Any) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'kernelyard[parquet]')")
    from pyarrow import parquet

    row = {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in definition("a", description="x").items()}
    row |= {"workloads": json.dumps([workload()]), "made": datetime(2026, 1, 2, tzinfo=UTC), "raw": b"\xff"}
    row["axes"] = row["axes"].encode()  # a writer that does not say that it is text
    rows = [row, row | {"name": "b", "description": "a\0b"}]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    first, second = found(tmp_path / "t.parquet")
    assert first.error == "" and first.problem.definition.axes
    assert second.error == f"{tmp_path / 't.parquet'}: row 1: holds a NUL or half a surrogate pair"


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, found: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").touch()
    assert "pip install 'kernelyard[parquet]'" in error_of(found(tmp_path / "t.parquet"))

"""The description of a problem's files: its example is a problem, and it names all that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from agentcore.problems import DTYPE_BYTES, Tolerance, expressions, load_problem
from agentcore.problems.tensors import InputFactory
from agentcore.problems.workload import CustomInput, RandomInput, SafetensorsInput, ScalarInput
from agentcore.vocabulary import HardwareName

TEXT = (Path(__file__).resolve().parents[2] / "agentcore/problems/README.md").read_text("utf-8")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The directory that the files of the example make."""
    files = re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```\n", TEXT, re.DOTALL)
    assert [name for name, _ in files] == [
        "definition.json", "reference.py", "workload.jsonl", "workload.cpu.jsonl", "heldout.jsonl", "baseline.py",
        "README.md",
    ]
    root = tmp_path / "example"
    root.mkdir()
    for name, text in files:
        (root / name).write_text(text, "utf-8")
    return root


def test_the_example_loads_and_nothing_about_it_is_odd(example: Path) -> None:
    problem = load_problem(example)
    assert problem.warnings == ()
    assert {source.type for w in problem.all_workloads for source in w.inputs.values()} == {
        "random", "scalar", "custom"
    }
    assert [w.uuid for w in problem.workloads_for(HardwareName.CPU)] == ["c64"]
    assert [w.uuid for w in problem.heldout_for(HardwareName.CPU)] == ["h9"]
    assert [w.uuid for w in problem.heldout_for(HardwareName.H200)] == ["h100"]
    assert problem.brief.startswith("# Scaled rows")


def test_the_reference_and_the_baseline_of_the_example_agree(example: Path) -> None:
    problem = load_problem(example)
    factory = InputFactory(problem, "cpu")
    for workload in (*problem.cpu_workloads, *problem.heldout):
        inputs = factory.make(workload, torch.Generator().manual_seed(7))
        want = factory.reference(inputs, workload)["y"]
        module: dict[str, Any] = {}
        exec((example / "baseline.py").read_text(), module)
        module["run"](*inputs.values(), got := torch.full_like(want, torch.nan))
        assert want.count_nonzero() > 0
        assert torch.allclose(got.float(), want.float(), rtol=0.01, atol=0.01)


def test_every_key_type_dtype_and_function_is_described() -> None:
    sources = (RandomInput, ScalarInput, CustomInput, SafetensorsInput)
    keys = {name for model in (Tolerance, *sources) for name in model.model_fields}
    types = {kind for model in sources for kind in get_args(model.model_fields["type"].annotation)}
    names = (keys - {"type"}) | types | DTYPE_BYTES.keys()
    missing = {name for name in names if f"`{name}`" not in TEXT}
    assert not missing
    (functions,) = re.findall(r"and `([a-z_0-9 ]+)`; the result", TEXT.replace("\n", " "))
    assert set(functions.split()) == set(expressions._FUNCTIONS)

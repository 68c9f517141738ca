"""The sources of baselines: what they copy where, and what a problem without one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.baselines import BaselineKind, NoBaseline, baseline_source
from agentcore.baselines.sources import compiled_source, eager_source
from agentcore.problems import load_problem

ROOT = Path(__file__).resolve().parents[2]


class Output:
    def copy_(self, value: object) -> None:
        self.value = value


def run_of(source: str):
    namespace: dict = {}
    exec(source, namespace)
    return namespace["run"]


@pytest.mark.parametrize("returned", ["[3, 4]", "(3, 4)", "{'b': 4, 'a': 3}"])
def test_the_eager_baseline_copies_whatever_the_reference_returns(returned: str) -> None:
    a, b = Output(), Output()
    run_of(eager_source("p", f"def run(x):\n    return {returned}", ["x"], ["a", "b"]))(1, a, b)
    assert (a.value, b.value) == (3, 4)


@pytest.mark.parametrize(
    ("given", "made"),
    [("x", "x"), ("x", "results"), ("results", "results_"), ("lambda", "list"), ("_reference", "run")],
)
def test_no_name_of_an_input_or_output_meets_another_or_a_keyword(given: str, made: str) -> None:
    out = Output()
    source = eager_source("p", "def run(a):\n    return a + 1", [given], [made])
    run_of(source)(1, out)
    assert out.value == 2
    compile(compiled_source("p", "def run(a):\n    return a + 1", [given], [made]), "kernel.py", "exec")


def test_a_reference_may_start_with_its_docstring_and_future_imports() -> None:
    reference = '"""Doc."""\n\nfrom __future__ import annotations\n\n\ndef run(x: Absent):\n    return x + 1\n'
    out = Output()
    run_of(eager_source("p", reference, ["x"], ["y"]))(1, out)
    assert out.value == 2
    compile(compiled_source("p", reference, ["x"], ["y"]), "kernel.py", "exec")


def test_the_compiled_baseline_holds_the_reference_unchanged_and_compiles_for_every_shape() -> None:
    reference = "import torch\n\ndef run(x):\n    return x + 1"
    source = compiled_source("p", reference, ["x"], ["y"])
    assert reference in source
    assert 'mode="max-autotune-no-cudagraphs", dynamic=False' in source
    compile(source, "kernel.py", "exec")


def test_each_kind_comes_from_its_file_or_says_what_is_missing() -> None:
    problem = load_problem(ROOT / "problems" / "softmax_softcap")
    assert baseline_source(problem, BaselineKind.HAND) == (problem.root / "baseline.py").read_bytes()
    assert problem.reference.strip().encode() in baseline_source(problem, BaselineKind.EAGER)
    with pytest.raises(NoBaseline, match=r"no library\.py beside the problem"):
        baseline_source(problem, BaselineKind.LIBRARY)
    with pytest.raises(NoBaseline, match=r"empty: .*attempts/softmax_softcap/torch/baseline/agent"):
        baseline_source(problem, BaselineKind.AGENT)


def test_a_kind_is_known_by_the_slug_of_its_branch() -> None:
    assert [BaselineKind.of_slug(kind.slug) for kind in BaselineKind] == list(BaselineKind)
    assert BaselineKind.of_slug("compiled") is None

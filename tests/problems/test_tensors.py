from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from agentcore.problems import DTYPE_BYTES, Problem, ProblemError, find_problems, load_problem, missing_blobs
from agentcore.problems.tensors import InputFactory, input_specs, output_specs

CUSTOM = """
import torch

def make(axes_and_scalars, device):
    assert axes_and_scalars["cols"] == 8 and axes_and_scalars["scale"] == 2.0
    return {"x": torch.randn(axes_and_scalars["rows"], 8, device=device)WHAT}

def run(x, scale):
    return x * scale
"""


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_input(write_problem: Any, spec: dict[str, Any], source: dict[str, Any] | None = None, name: str = "x") -> Any:
    """Fresh content of a single input of the small problem, by seed."""

    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["inputs"] = {name: spec}
        definition["reference"] = f"def run({name}):\n    return {name}\n"
        workload["inputs"] = {name: source or {"type": "random"}}
        workload["axes"]["rows"] = 256

    problem = load_problem(write_problem(change))
    factory = InputFactory(problem, "cpu")
    return lambda seed: factory.make(problem.workloads[0], seeded(seed))[name]


def test_content_is_a_function_of_the_seed_and_new_every_time(write_problem: Any) -> None:
    problem = load_problem(write_problem())
    factory, workload = InputFactory(problem, "cpu"), problem.workloads[0]
    generator = seeded(1)
    first, second = factory.make(workload, generator), factory.make(workload, generator)
    again = factory.make(workload, seeded(1))
    assert list(first) == ["x", "scale"]
    assert torch.equal(first["x"], again["x"])
    assert not torch.equal(first["x"], second["x"])
    assert first["scale"] == 2.0
    assert isinstance(first["scale"], float)


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
def test_every_dtype_is_made_with_its_shape_and_varies(write_problem: Any, dtype: str) -> None:
    made = one_input(write_problem, {"shape": ["rows", 16], "dtype": dtype})
    values = made(5)
    assert values.dtype == getattr(torch, dtype)
    assert tuple(values.shape) == (256, 16)
    assert values.is_contiguous()
    as_bytes = values.view(torch.uint8) if values.element_size() == 1 else values
    assert as_bytes.unique().numel() >= 2
    if dtype.startswith(("float", "bfloat")) and "float4" not in dtype:
        assert torch.isfinite(values.float()).all()


def test_random_weights_are_scaled_by_their_fan_in(write_problem: Any) -> None:
    values = one_input(write_problem, {"shape": ["rows", 1024], "dtype": "bfloat16"}, name="weight")(3).float()
    assert values.std().item() == pytest.approx(1 / 32, rel=0.02)
    assert abs(values.mean().item()) < 1e-3


def test_norm_weights_lie_around_one(write_problem: Any) -> None:
    values = one_input(write_problem, {"shape": [4096], "dtype": "float32"}, name="norm_weight")(3)
    assert values.mean().item() == pytest.approx(1.0, abs=0.02)
    assert values.std().item() == pytest.approx(0.1, rel=0.1)


def test_activations_are_standard_normal(write_problem: Any) -> None:
    values = one_input(write_problem, {"shape": ["rows", 1024], "dtype": "bfloat16"})(3).float()
    assert values.mean().item() == pytest.approx(0.0, abs=0.01)
    assert values.std().item() == pytest.approx(1.0, rel=0.01)


def test_integers_stay_valid_indices_of_every_axis_unless_bounds_are_given(write_problem: Any) -> None:
    values = one_input(write_problem, {"shape": ["rows", "cols"], "dtype": "int64"})(3)
    assert (int(values.min()), int(values.max())) == (0, 3), "the smallest axis is half = 4"
    source = {"type": "random", "low": 10, "high": "rows * 2"}
    values = one_input(write_problem, {"shape": ["rows", "cols"], "dtype": "int32"}, source)(3)
    assert 10 <= int(values.min()) < int(values.max()) < 512


def test_zero_sized_and_zero_dimensional_tensors_are_made(write_problem: Any) -> None:
    empty = one_input(write_problem, {"shape": ["rows", 0], "dtype": "bfloat16"}, name="weight")(1)
    assert tuple(empty.shape) == (256, 0)
    single = one_input(write_problem, {"shape": [], "dtype": "float32"}, {"type": "scalar", "value": 3})(1)
    assert isinstance(single, torch.Tensor)
    assert single.shape == ()
    assert single.item() == 3.0


def test_a_scalar_fills_a_tensor(write_problem: Any) -> None:
    filled = one_input(write_problem, {"shape": ["rows", 2], "dtype": "float32"}, {"type": "scalar", "value": 3})(1)
    assert filled.shape == (256, 2) and filled.unique().tolist() == [3.0]


def test_scalars_are_python_numbers_of_the_declared_kind(write_problem: Any) -> None:
    three = {"type": "scalar", "value": 3}
    assert type(one_input(write_problem, {"shape": None, "dtype": "float32"}, three)(1)) is float
    assert type(one_input(write_problem, {"shape": None, "dtype": "int32"}, three)(1)) is int


def custom_problem(write_problem: Any, what: str = "", name: str = "x") -> Problem:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["custom_inputs_entrypoint"] = "make"
        definition["reference"] = CUSTOM.replace("WHAT", what).replace('"x":', f'"{name}":')
        workload["inputs"]["x"] = {"type": "custom"}

    return load_problem(write_problem(change))


def test_custom_inputs_come_from_the_references_own_generator_and_follow_the_seed(write_problem: Any) -> None:
    problem = custom_problem(write_problem)
    factory = InputFactory(problem, "cpu")
    first = factory.make(problem.workloads[0], seeded(7))["x"]
    assert torch.equal(first, factory.make(problem.workloads[0], seeded(7))["x"])
    assert not torch.equal(first, factory.make(problem.workloads[0], seeded(8))["x"])


@pytest.mark.parametrize(
    ("what", "name", "complaint"),
    [
        (".cfloat()", "x", "made 'x' as torch.complex64"),
        ("[:, :4]", "x", r"made 'x' as .* \(3, 4\)"),
        ("", "z", r"make\(\) made no 'x'"),
    ],
)
def test_a_generator_that_breaks_the_definition_is_named(
    write_problem: Any, what: str, name: str, complaint: str
) -> None:
    problem = custom_problem(write_problem, what, name)
    with pytest.raises(ProblemError, match=complaint):
        InputFactory(problem, "cpu").make(problem.workloads[0], seeded(1))


def test_a_generator_may_make_the_same_values_in_another_dtype(write_problem: Any) -> None:
    for what in (".double()", ".gt(0)", ".int()"):
        problem = custom_problem(write_problem, what)
        made = InputFactory(problem, "cpu").make(problem.workloads[0], seeded(1))["x"]
        assert made.dtype == torch.float32 and made.unique().numel() > 1


def with_reference(write_problem: Any, body: str) -> tuple[InputFactory, Problem]:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["reference"] = f"import torch\n\ndef run(x, scale):\n    {body}\n"

    problem = load_problem(write_problem(change))
    return InputFactory(problem, "cpu"), problem


@pytest.mark.parametrize(
    "body", ["return x * scale", "return (x * scale,)", "return {'y': x * scale}", "return (x * scale).double()"]
)
def test_the_reference_may_return_a_tensor_a_tuple_or_a_dict(write_problem: Any, body: str) -> None:
    factory, problem = with_reference(write_problem, body)
    inputs = factory.make(problem.workloads[0], seeded(1))
    outputs = factory.reference(inputs, problem.workloads[0])
    assert torch.equal(outputs["y"], inputs["x"] * 2.0)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return x, x", "returned 2 outputs; the definition has 1"),
        ("return x.int()", "int32 for output 'y'"),
        ("return x[:2]", r"shape \(2, 8\) for output 'y'; expected \(3, 8\)"),
        ("return None", "NoneType for output 'y'"),
    ],
)
def test_a_reference_that_breaks_the_definition_is_named(write_problem: Any, body: str, complaint: str) -> None:
    factory, problem = with_reference(write_problem, body)
    with pytest.raises(ProblemError, match=complaint):
        factory.reference(factory.make(problem.workloads[0], seeded(1)), problem.workloads[0])


def test_expanded_reference_outputs_come_back_contiguous(write_problem: Any) -> None:
    factory, problem = with_reference(write_problem, "return x[:, :1].expand(-1, 8)")
    outputs = factory.reference(factory.make(problem.workloads[0], seeded(1)), problem.workloads[0])
    assert outputs["y"].is_contiguous()


def test_a_reference_that_cannot_be_executed_is_named(write_problem: Any) -> None:
    with pytest.raises(ProblemError, match="cannot be executed: ZeroDivisionError"):
        with_reference(write_problem, "return x\n\n1 / 0")


def test_safetensors_are_read_checked_and_never_shared_between_calls(write_problem: Any) -> None:
    from safetensors.torch import save_file

    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        workload["inputs"]["x"] = {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}

    root = write_problem(change)
    problem = load_problem(root)
    with pytest.raises(ProblemError, match=r"inputs\.x: x\.safetensors is absent"):
        InputFactory(problem, "cpu").make(problem.workloads[0], seeded(1))
    content = torch.arange(24.0).reshape(3, 8)
    save_file({"x": content}, root / "x.safetensors")
    factory = InputFactory(problem, "cpu")
    first = factory.make(problem.workloads[0], seeded(1))["x"]
    first.zero_()
    assert torch.equal(factory.make(problem.workloads[0], seeded(1))["x"], content)
    save_file({"x": content[:2].clone()}, root / "x.safetensors")
    with pytest.raises(ProblemError, match=r"the definition says float32 \(3, 8\)"):
        InputFactory(problem, "cpu").make(problem.workloads[0], seeded(1))


def elements(problem: Problem, position: int) -> int:
    workload = problem.workloads[position]
    specs = (*input_specs(problem, workload).values(), *output_specs(problem, workload).values())
    return sum(math.prod(shape or ()) for shape, _ in specs)


def test_a_scalar_output_is_a_tensor_of_no_dimension(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["outputs"] = {"y": {"shape": None, "dtype": "float32"}}
        definition["reference"] = "def run(x, scale):\n    return x.sum().item()\n"

    problem = load_problem(write_problem(change))
    factory = InputFactory(problem, "cpu")
    inputs = factory.make(problem.workloads[0], seeded(1))
    made = factory.reference(inputs, problem.workloads[0])["y"]
    assert (made.shape, made.dtype) == (torch.Size([]), torch.float32)
    assert made.item() == pytest.approx(inputs["x"].sum().item())


def test_what_a_workload_sets_beyond_the_axes_reaches_its_generator(write_problem: Any) -> None:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["custom_inputs_entrypoint"] = "make"
        definition["reference"] = (
            "import torch\n\ndef make(axes, device):\n"
            "    return {'x': torch.full((3, 8), axes['level'] + axes['rows'])}\n"
            "\ndef run(x, scale):\n    return x\n"
        )
        definition["inputs"]["x"]["dtype"] = "int32"
        workload["axes"]["level"] = 4
        workload["inputs"]["x"] = {"type": "custom"}

    problem = load_problem(write_problem(change))
    made = InputFactory(problem, "cpu").make(problem.workloads[0], seeded(1))["x"]
    assert made.dtype == torch.int32 and made.unique().tolist() == [7]


@pytest.mark.slow
def test_references_of_the_public_sample_run_on_their_smallest_workload(sample: Path) -> None:
    ran = 0
    for path in find_problems(sample):
        problem = load_problem(path)
        smallest = min(range(len(problem.workloads)), key=lambda i: elements(problem, i))
        # NVFP4 products exist only on GPUs; the rest is bounded to keep this quick.
        if missing_blobs(problem) or "nvfp4" in problem.name or elements(problem, smallest) > 14_000_000:
            continue
        factory, workload = InputFactory(problem, "cpu"), problem.workloads[smallest]
        outputs = factory.reference(factory.make(workload, seeded(0)), workload)
        assert {n: (tuple(t.shape), t.dtype) for n, t in outputs.items()} == output_specs(problem, workload), path
        ran += 1
    assert ran >= 15

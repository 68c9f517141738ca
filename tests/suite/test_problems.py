"""The suite's problem directories: complete, loadable, and with inputs and tolerances that lazy kernels do not pass."""

import re
import runpy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from shortcuts import SHORTCUTS
from suite_kernels import KERNELS, PROBLEMS, ROOT, decoded, fresh_outputs, one_thread, problem, wrong_shares

from agentcore.judge.correctness import compare
from agentcore.problems import Problem, Workload
from agentcore.problems.tensors import InputFactory, input_specs, output_specs
from agentcore.vocabulary import HardwareName

Outputs = dict[str, torch.Tensor]
WRITTEN = [
    f"{name}/{file}" for name in PROBLEMS for file in ("baseline.py", "library.py")
    if (ROOT / "problems" / name / file).is_file()
]


def cpu_workloads(own: Problem) -> tuple[Workload, ...]:
    return (*own.workloads_for(HardwareName.CPU), *own.heldout_for(HardwareName.CPU))


def inputs_and_reference(own: Problem, workload: Workload) -> tuple[dict[str, torch.Tensor], Outputs]:
    factory = InputFactory(own, "cpu")
    inputs = factory.make(workload, torch.Generator().manual_seed(7))
    return inputs, factory.reference(inputs)


def test_every_directory_is_a_problem_of_its_own_name_and_every_starting_kernel_has_one() -> None:
    assert {path.name for path in (ROOT / "problems").iterdir()} == set(PROBLEMS)
    assert [problem(name).name for name in PROBLEMS] == list(PROBLEMS)
    assert {path.name for path in KERNELS.iterdir()} <= set(PROBLEMS)


@pytest.mark.parametrize("name", PROBLEMS)
def test_has_workloads_for_both_targets_and_held_out_ones(name: str) -> None:
    own = problem(name)
    assert len(own.workloads) >= 8
    assert len(own.cpu_workloads) >= 3
    for hardware in (HardwareName.H200, HardwareName.CPU):
        measured = {tuple(sorted(w.axes.items())) for w in own.workloads_for(hardware)}
        held_out = {tuple(sorted(w.axes.items())) for w in own.heldout_for(hardware)}
        assert len(held_out) >= 2
        assert not measured & held_out, "a held-out shape is also a measured one"


@pytest.mark.parametrize("name", PROBLEMS)
def test_brief_and_baseline_are_there(name: str) -> None:
    own = problem(name)
    assert own.brief.startswith("# ")
    assert re.search(r"^(The t|T)olerance", own.brief, re.MULTILINE), "the brief says why the tolerance is what it is"
    assert callable(runpy.run_path(str(own.root / "baseline.py"))["run"])


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_workload_takes_a_cpu_too_long_or_a_gpu_too_much_memory(name: str) -> None:
    own = problem(name)
    for workload in own.workloads:
        assert tensor_bytes(own, workload) <= 1 << 30, workload.axes
    for workload in own.cpu_workloads:
        assert tensor_bytes(own, workload) <= 16 << 20, workload.axes


def tensor_bytes(own: Problem, workload: Workload) -> int:
    values = own.definition.axis_values(workload.axes)
    total = 0
    for spec in (*own.definition.inputs.values(), *own.definition.outputs.values()):
        count = spec.itemsize
        for size in own.definition.shape(spec, values) or ():
            count *= size
        total += count
    return total


@pytest.mark.parametrize("written", WRITTEN)
def test_written_baseline_agrees_with_the_reference(written: str) -> None:
    one_thread()
    own = problem(written.partition("/")[0])
    run = runpy.run_path(str(own.root.parent / written))["run"]
    for workload in cpu_workloads(own):
        inputs, expected = inputs_and_reference(own, workload)
        outputs = fresh_outputs(own, workload)
        run(*inputs.values(), *outputs.values())
        found = compare(outputs, expected, workload.tolerance)
        assert found.ok, f"{workload.axes}: {found.message}"


@pytest.mark.parametrize("written", WRITTEN)
def test_the_gpu_path_of_a_written_baseline_takes_every_gpu_shape(written: str) -> None:
    """On tensors without content, so that operators' types and shapes are checked where there is no GPU."""
    own = problem(written.partition("/")[0])
    source = (own.root.parent / written).read_text()
    module: dict[str, Any] = {}
    exec(compile(source.replace(".is_cuda", ".is_meta"), written, "exec"), module)
    for workload in own.workloads:
        arguments = [
            torch.empty(shape, dtype=dtype, device="meta") if shape is not None
            else getattr(workload.inputs[name], "value", 1.0)
            for name, (shape, dtype) in input_specs(own, workload).items()
        ]
        outputs = [torch.empty(s, dtype=d, device="meta") for s, d in output_specs(own, workload).values()]
        module["run"](*arguments, *outputs)


def _values(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers an output stands for: packed 4-bit floats one by one, everything else as it is."""
    return decoded(tensor) if tensor.dtype == torch.float4_e2m1fn_x2 else tensor


def _zeros(inputs: dict[str, torch.Tensor], expected: Outputs) -> Outputs:
    return {name: torch.zeros_like(_values(value)) for name, value in expected.items()}


def _mean(inputs: dict[str, torch.Tensor], expected: Outputs) -> Outputs:
    """One number everywhere."""
    values = {name: _values(value) for name, value in expected.items()}
    return {name: value.float().mean().to(value.dtype).expand_as(value) for name, value in values.items()}


def _first_row(inputs: dict[str, torch.Tensor], expected: Outputs) -> Outputs:
    """The answer to the first row everywhere; of an output of one row, the mean of its values."""
    values = {name: _values(value) for name, value in expected.items()}
    means = _mean(inputs, expected)
    return {name: v[:1].expand_as(v) if v.shape[0] > 1 else means[name] for name, v in values.items()}


def _earlier_call(inputs: dict[str, torch.Tensor], expected: Outputs) -> Outputs:
    """The right rows in the wrong places."""
    values = {name: _values(value) for name, value in expected.items()}
    return {name: value.roll(1, 0) if value.shape[0] > 1 else (value.float() * 1.5).to(value.dtype)
            for name, value in values.items()}


@pytest.mark.parametrize("lazy", [_zeros, _mean, _first_row, _earlier_call])
@pytest.mark.parametrize("name", PROBLEMS)
def test_lazy_output_is_outside_the_tolerance(
    name: str, lazy: Callable[[dict[str, torch.Tensor], Outputs], Outputs]
) -> None:
    own = problem(name)
    workload = own.cpu_workloads[1]
    inputs, expected = inputs_and_reference(own, workload)
    wrong = wrong_shares(workload, lazy(inputs, expected), expected)
    # Integers and bools are compared exactly: one wrong element fails.
    exact = {output for output, value in expected.items() if not value.dtype.is_floating_point}
    allowed = 1 - workload.tolerance.required_matched_ratio
    assert set(wrong) == set(expected)
    assert all(output in exact or share > 10 * allowed for output, share in wrong.items())


@pytest.mark.parametrize("name", sorted(SHORTCUTS))
def test_leaving_out_a_part_of_the_work_is_outside_the_tolerance(name: str) -> None:
    own = problem(name)
    workload = own.cpu_workloads[1]
    inputs, expected = inputs_and_reference(own, workload)
    outputs = SHORTCUTS[name](inputs)
    wrong = wrong_shares(workload, outputs, {output: expected[output] for output in outputs})
    assert set(wrong) == set(outputs)
    assert min(wrong.values()) > 0.05


def test_a_gradient_of_the_loss_that_misses_its_targets_is_refused() -> None:
    """One element in 151936 per row: too few for the ratio, so the cap on a single error has to catch it."""
    own = problem("cross_entropy_backward_v151936")
    workload = own.cpu_workloads[1]
    inputs, expected = inputs_and_reference(own, workload)
    probs = torch.exp(inputs["logits"].float() - inputs["lse"][:, None]) * inputs["dloss"][:, None]
    found = compare({"dlogits": probs.bfloat16()}, expected, workload.tolerance)
    assert found.matched_ratio > workload.tolerance.required_matched_ratio
    assert "exceeds the cap" in found.message


def test_one_token_too_few_or_too_many_among_the_k_is_refused() -> None:
    own = problem("topk_softmax_v151936")
    workload = own.cpu_workloads[3]
    inputs, expected = inputs_and_reference(own, workload)
    row = int(inputs["top_k"].argmax())
    kept = expected["probs"][row]
    least = kept[kept > 0].min()
    for change in (0.0, float(least)):
        probs = expected["probs"].clone()
        at = (kept == (least if change == 0.0 else 0.0)).nonzero()[0]
        probs[row, at] = change
        assert "first mismatch" in compare({"probs": probs}, expected, workload.tolerance).message

"""The starting CPU kernels: built as the judge builds them, right for every tunable value, and worth tuning."""

import shutil
import time
from pathlib import Path

import pytest
import torch
from suite_kernels import (
    CPP_NAMES,
    Variant,
    call,
    compile_kernel,
    compile_variants,
    covering_settings,
    mismatches,
    one_thread,
    problem,
    resized,
)

from agentcore.problems.tensors import InputFactory, output_specs
from agentcore.vocabulary import HardwareName, Language

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ (package g++)")

# Lengths that leave a rest at every vector width.
RAGGED = {
    "softmax_softcap": [
        ({"rows": 3, "cols": 5}, {"scale": 6.0, "cap": 50.0}),
        ({"rows": 2, "cols": 77}, {"scale": -6.0, "cap": 90.0}),
    ],
    "gemm_bf16_llama8b": [({"m": 7, "n": 13, "k": 64}, None)],
}


@pytest.mark.parametrize("name", CPP_NAMES)
def test_agrees_with_the_reference_at_every_tunable_value(name: str, tmp_path: Path) -> None:
    one_thread()
    own = problem(name)
    asis, *others = covering_settings(name, Language.CPP)
    built = [Variant(asis, compile_kernel(name, Language.CPP, HardwareName.CPU, asis, tmp_path).ky_call)]
    built += compile_variants(name, others, tmp_path) if others else []
    for variant in built:
        workloads = [*own.workloads_for(HardwareName.CPU), *own.heldout_for(HardwareName.CPU)]
        workloads += [resized(name, axes, scalars) for axes, scalars in RAGGED.get(name, [])]
        for workload in workloads:
            assert not mismatches(name, variant, workload), f"{variant.settings} {workload.axes}"


def test_a_tuner_has_something_to_find(tmp_path: Path) -> None:
    one_thread()
    name = "swiglu_gate_i14336"
    start = _best_seconds(name, {}, tmp_path / "start")
    wide = _best_seconds(name, {"LANES": "8", "UNROLL": "2"}, tmp_path / "wide")
    assert wide < start


def _best_seconds(name: str, settings: dict[str, str], place: Path) -> float:
    own, library = problem(name), compile_kernel(name, Language.CPP, HardwareName.CPU, settings, place)
    workload = own.cpu_workloads[2]
    inputs = InputFactory(own, "cpu").make(workload, torch.Generator().manual_seed(3))
    outputs = {output: torch.empty(s, dtype=d) for output, (s, d) in output_specs(own, workload).items()}
    times = []
    for _ in range(50):
        begun = time.perf_counter()
        call(own, library, workload, inputs, outputs)
        times.append(time.perf_counter() - begun)
    return min(times)

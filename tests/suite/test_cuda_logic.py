"""The CUDA kernels' arithmetic, run on a CPU by the emulator: every path of every kernel, and every tunable value."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from suite_kernels import CUDA_NAMES, Variant, covering_settings, emulate_kernel, mismatches, resized

from agentcore.vocabulary import Language

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ (package g++)")
Variants = Callable[[str], list[Variant]]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of this file share what they built."""
    return tmp_path_factory.mktemp("emulated")


# Axes small enough for an emulator, chosen so that each kernel takes all of its paths, with ragged edges.
CASES = {
    "rmsnorm_h4096": [({"tokens": 3}, None)],
    "fused_add_rmsnorm_h4096": [({"tokens": 3}, None)],
    "swiglu_gate_i14336": [({"tokens": 2}, None)],
    "rmsnorm_backward_h4096": [({"tokens": 1}, None), ({"tokens": 5}, None)],
    "rope_gqa_h32_kv8_d128": [({"tokens": 3}, None)],
    "swiglu_backward_i14336": [({"tokens": 2}, None)],
    "layernorm_modulation_h3072": [({"batch": 2, "seq": 3}, None)],
    "cross_entropy_v128256": [({"tokens": 1}, None)],
    "softmax_softcap": [
        ({"rows": 5, "cols": 256}, {"scale": 6.0, "cap": 50.0}),
        ({"rows": 3, "cols": 1000}, {"scale": 40.0, "cap": 30.0}),
        ({"rows": 2, "cols": 4104}, {"scale": 6.0, "cap": 90.0}),
        ({"rows": 2, "cols": 777}, {"scale": 6.0, "cap": 50.0}),
        ({"rows": 1, "cols": 33000}, {"scale": 6.0, "cap": 50.0}),
    ],
    "gemm_bf16_llama8b": [
        ({"m": 1, "n": 24, "k": 832}, None),
        ({"m": 13, "n": 40, "k": 640}, None),
        ({"m": 12, "n": 136, "k": 1024}, None),
        ({"m": 21, "n": 136, "k": 192}, None),
        ({"m": 50, "n": 128, "k": 1088}, None),
        ({"m": 70, "n": 200, "k": 320}, None),
        ({"m": 300, "n": 136, "k": 128}, None),
        ({"m": 256, "n": 128, "k": 64}, None),
    ],
}
# What makes the larger kernel paths run at such sizes.
FORCED = {
    "rmsnorm_h4096": [{"SPREAD_UP_TO": "0"}],
    "fused_add_rmsnorm_h4096": [{"SPREAD_UP_TO": "0"}],
    "swiglu_gate_i14336": [{"SPREAD_UP_TO": "0"}],
    "rmsnorm_backward_h4096": [{"MOST_BLOCKS": "2", "ROWS_PER_BLOCK": "1"}],
    "rope_gqa_h32_kv8_d128": [{"SPREAD_UP_TO": "0"}],
    "swiglu_backward_i14336": [{"SPREAD_UP_TO": "0"}],
    "layernorm_modulation_h3072": [{"SPREAD_UP_TO": "0"}],
    "gemm_bf16_llama8b": [{"USE_WARPGROUPS": "0"}],
}


# Which of a kernel's variants show its paths; the others give each tunable its other values.
PATHS = {name: 1 + len(FORCED.get(name, [])) for name in CUDA_NAMES}


@pytest.fixture
def variants(emulated: Path) -> Variants:
    """``variants(name)``: the kernel as it is, forced to its other paths, and with every tunable value."""

    def make(name: str) -> list[Variant]:
        forced = FORCED.get(name, [])
        tuned = [settings | (forced or [{}])[0] for settings in covering_settings(name, Language.CUDA)[1:]]
        return emulate_kernel(name, [{}, *forced, *tuned], emulated)

    return make


def assert_agrees(name: str, variant: Variant) -> None:
    for axes, scalars in CASES[name]:
        wrong = mismatches(name, variant, resized(name, axes, scalars))
        assert not wrong, f"{variant.settings} {axes} {scalars}: {wrong}"


@pytest.mark.parametrize("name", CUDA_NAMES)
def test_every_path_agrees_with_the_reference(name: str, variants: Variants) -> None:
    for variant in variants(name)[:PATHS[name]]:
        assert_agrees(name, variant)


@pytest.mark.parametrize("processors", ["1", "3"])
def test_gemm_picks_other_tiles_and_splits_on_smaller_devices(
    processors: str, variants: Variants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMULATED_PROCESSORS", processors)
    assert_agrees("gemm_bf16_llama8b", variants("gemm_bf16_llama8b")[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", CUDA_NAMES)
def test_every_tunable_value_agrees_with_the_reference(name: str, variants: Variants) -> None:
    tuned = variants(name)[PATHS[name]:]
    assert tuned
    for variant in tuned:
        assert_agrees(name, variant)

"""The CUDA kernels compile for both architectures, without spilling a register."""

import shutil
from pathlib import Path

import pytest
from suite_kernels import CUDA_NAMES, kernel_dir, problem

from agentcore.build import build
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName, Language

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit 13)"),
]


@pytest.mark.parametrize("hardware", [HardwareName.H200, HardwareName.B200])
@pytest.mark.parametrize("name", CUDA_NAMES)
def test_compiles_without_spills(name: str, hardware: HardwareName, tmp_path: Path) -> None:
    built = build(
        kernel_dir(name, Language.CUDA),
        problem(name),
        Language.CUDA,
        hardware,
        cache_dir=tmp_path / "cache",
        sandbox=find_sandbox(),
    )
    assert built.report.ok, built.report.log
    assert built.report.resources, "the compiler reported no kernels"
    assert not [kernel for kernel in built.report.resources if kernel.spill_store_bytes or kernel.spill_load_bytes]

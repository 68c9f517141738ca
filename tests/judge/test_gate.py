"""The judge's own device code compiles for every GPU it is meant for; running it needs one (test_gpu)."""

from __future__ import annotations

import ast
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentcore.judge import cuda_region
from agentcore.judge.cuda_target import device_nodes
from agentcore.judge.gate import GATE_SOURCE, gate_cubin
from agentcore.judge.runner import pages
from agentcore.vocabulary import HardwareName


def of_the_runner(name: str) -> Any:
    """A constant of runner/device.py, which is no module of this process but a program of another."""
    tree = ast.parse((GATE_SOURCE.parent / "runner" / "device.py").read_text())
    assignments = [node for node in tree.body if isinstance(node, ast.Assign)]
    return next(ast.literal_eval(a.value) for a in assignments if getattr(a.targets[0], "id", "") == name)


needs_nvcc = pytest.mark.skipif(
    not (shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists()), reason="nvcc is not on this host"
)


@needs_nvcc
@pytest.mark.parametrize("hardware", [HardwareName.H200, HardwareName.B200])
def test_the_gate_compiles_into_a_cubin_with_every_kernel_the_runner_looks_for(
    tmp_path: Path, hardware: HardwareName
) -> None:
    made = gate_cubin(hardware, tmp_path)
    content = made.read_bytes()
    assert content.startswith(b"\x7fELF") and hardware.arch in made.name
    for name in (*of_the_runner("KERNELS"), "ky_sum", "ky_copy", "ky_glance"):
        assert name.encode() in content
    assert stat.S_IMODE(made.stat().st_mode) & 0o004 and stat.S_IMODE(made.parent.stat().st_mode) & 0o005
    before = made.stat().st_mtime_ns
    assert gate_cubin(hardware, tmp_path) == made and made.stat().st_mtime_ns == before
    assert [p.name for p in made.parent.iterdir()] == [made.name]


@needs_nvcc
def test_threads_that_compile_the_gate_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        made, same = pool.map(lambda _number: gate_cubin(HardwareName.H200, tmp_path), range(2))
    assert made == same and [p.name for p in made.parent.iterdir()] == [made.name]


def test_device_code_and_runner_agree_on_the_numbers_they_share() -> None:
    source = GATE_SOURCE.read_text()
    assert f"#define KY_MAX_OUTPUTS {of_the_runner('MAX_OUTPUTS')}" in source
    assert f"#define KY_STAMP_BYTES {pages.STAMP_BYTES} " in source
    assert f"#define KY_BLOCK {cuda_region.BLOCK}\n" in source
    assert of_the_runner("BLOCK") == cuda_region.BLOCK
    assert pages.PROOF_WORDS <= 1024 and pages.PROOF_WORDS % 32 == 0  # one block of ky_end


def test_only_device_files_that_exist_are_shown_to_a_runner() -> None:
    assert all(node.exists() for node in device_nodes(0))
    assert not any("nvidia7777" in str(node) for node in device_nodes(7777))

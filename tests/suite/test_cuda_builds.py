"""The CUDA kernels compile for both architectures, without spilling a register."""

import shutil
from pathlib import Path

import pytest
from suite_kernels import CUDA_NAMES, kernel_dir, problem

from agentcore.build import Build, build
from agentcore.build.source import read_source
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName, Language
from tests.build.device_half import compile_device_half
from tests.build.one_unit import Piece, unit_source, units

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit 13)"),
]


def assert_no_spills(built: Build) -> None:
    assert built.report.ok, built.report.log
    assert built.report.resources, "the compiler reported no kernels"
    spills = {kernel.name: (kernel.spill_store_bytes, kernel.spill_load_bytes) for kernel in built.report.resources}
    assert {name: found for name, found in spills.items() if found != (0, 0)} == {}


@pytest.mark.parametrize("name", CUDA_NAMES)
def test_builds_without_spills(name: str, tmp_path: Path) -> None:
    assert_no_spills(build(
        kernel_dir(name, Language.CUDA), problem(name), Language.CUDA, HardwareName.H200,
        cache_dir=tmp_path / "cache", sandbox=find_sandbox(),
    ))


def test_all_compile_without_spills_for_the_other_architecture(tmp_path: Path) -> None:
    """At once: the headers take most of the time. The host's half, and how the two are linked, are the same."""
    files = {name: read_source(kernel_dir(name, Language.CUDA), Language.CUDA) for name in CUDA_NAMES}
    pieces = [Piece.of(name, files[name], problem(name)) for name in CUDA_NAMES]
    for unit in units(pieces):
        source = {Language.CUDA.source_name: unit_source(unit).encode()}
        first = problem(unit[0].name)
        built = compile_device_half(source, first, HardwareName.B200, tmp_path / "cache", find_sandbox())
        assert_no_spills(built)
        compiled = "\n".join(kernel.name for kernel in built.report.resources)
        assert [piece.name for number, piece in enumerate(unit) if f"kernel_{number}::" not in compiled] == []

"""CuTe DSL kernels compiled in a sandbox without a GPU: what is compiled, what is said of it, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.build import Build
from agentcore.build.cute import compile_cute
from agentcore.build.frameworks import FrameworkMissing, framework_version
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import HardwareName, Language
from tests.judge.conftest import DOUBLE, workload, write_kernel, write_problem

KERNEL = """
import cuda.bindings.driver as cuda
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def twice(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = block * 128 + thread
    if at < x.shape[0]:
        y[at] = x[at] * 2.0

@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    twice(x, y).launch(grid=[cute.ceil_div(x.shape[0], 128), 1, 1], block=[128, 1, 1], stream=stream)

def run(x, y):
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    launch(from_dlpack(x), from_dlpack(y), stream)
"""


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    tmp_path.chmod(0o755)
    loads = [workload(), workload("w1", {"n": 64})]
    return load_problem(write_problem(tmp_path / "double_it", DOUBLE, loads, [workload("h0", {"n": 4321})]))


@pytest.fixture
def compiled(tmp_path: Path, problem: Problem, sandbox: Sandbox) -> Callable[..., Build]:
    try:
        framework_version(Language.CUTE)
    except FrameworkMissing as error:
        pytest.skip(str(error))

    def run(source: str, hardware: HardwareName = HardwareName.B200) -> Build:
        return compile_cute(write_kernel(tmp_path / "kernel", source, Language.CUTE), problem, hardware, sandbox)

    return run


@pytest.mark.parametrize(("hardware", "arch"), [(HardwareName.B200, "sm_100a"), (HardwareName.H100, "sm_90a")])
def test_a_kernel_is_compiled_once_for_every_shape_and_its_registers_are_counted(
    compiled: Callable[..., Build], hardware: HardwareName, arch: str
) -> None:
    built = compiled(KERNEL, hardware)
    assert built.report.ok, built.report.log
    assert built.artifact is None and built.report.arch == arch
    assert built.report.compiler.startswith("nvidia-cutlass-dsl ")
    kernels = built.report.resources
    assert len(kernels) == 2, "one for n=1000, one for n=64, none for the held-out shape"
    assert all("twice" in k.name and k.arch == arch and k.registers and not k.spill_store_bytes for k in kernels)
    assert "4321" not in built.report.log


def test_what_cute_compile_gives_may_be_called_too(compiled: Callable[..., Build]) -> None:
    made = "cute.compile(launch, from_dlpack(x), from_dlpack(y), stream)"
    assert compiled(KERNEL.replace("    launch(from_dlpack(x)", f"    {made}(from_dlpack(x)")).report.ok


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (KERNEL.replace("x[at] * 2.0", "absent[at]"), "absent"),
        (KERNEL.replace("def run(x, y):", "def run(x, y):\n    raise ValueError('mine')"), "ValueError: mine"),
        (KERNEL.replace("def run(x, y):", "def walk(x, y):"), "no function run"),
        ("def run(x, y):\n    pass\n", "compiled no kernel"),
        ("def run(x, y):\n    import os\n    os._exit(0)\n", "compiled no kernel"),
        ("def run(x, y:\n", "SyntaxError"),
        ("import nonsense\n", "No module named 'nonsense'"),
    ],
    ids=["undefined", "raises", "no run", "nothing", "leaves", "syntax", "import"],
)
def test_a_kernel_at_fault_is_told_in_its_own_lines(
    compiled: Callable[..., Build], tmp_path: Path, source: str, said: str
) -> None:
    report = compiled(source).report
    assert not report.ok and report.resources == []
    assert said in report.log and "error" in report.log.lower()
    assert "cute_main" not in report.log and str(tmp_path) not in report.log


def test_without_the_package_it_is_the_hosts_fault(
    tmp_path: Path, problem: Problem, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: Language) -> str:
        raise FrameworkMissing("cute kernels need it")

    monkeypatch.setattr("agentcore.build.cute.framework_version", missing)
    with pytest.raises(FrameworkMissing):
        compile_cute(write_kernel(tmp_path / "kernel", KERNEL, Language.CUTE), problem, HardwareName.B200, sandbox)

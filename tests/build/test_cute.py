"""CuTe DSL kernels compiled in a sandbox without a GPU: what is compiled, what is said of it, and what goes wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.build import Build
from agentcore.build.cute import compile_cute
from agentcore.build.frameworks import FrameworkMissing, framework_version
from agentcore.build.log import LOG_BYTES
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import Limits, Sandbox
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
        shutil.rmtree(tmp_path / "kernel", ignore_errors=True)
        kernel = write_kernel(tmp_path / "kernel", source, Language.CUTE)
        return compile_cute(kernel, problem, hardware, sandbox, cache_dir=tmp_path / "cache")

    return run


@pytest.mark.parametrize(("hardware", "arch"), [(HardwareName.B200, "sm_100a"), (HardwareName.H100, "sm_90a")])
def test_a_kernel_is_compiled_once_for_every_shape_and_its_registers_are_counted(
    compiled: Callable[..., Build], hardware: HardwareName, arch: str
) -> None:
    built = compiled(KERNEL, hardware)
    assert built.report.ok, built.report.log
    assert built.artifact is None and built.report.arch == arch and not built.report.cached
    assert built.report.compiler.startswith("nvidia-cutlass-dsl ")
    kernels = built.report.resources
    assert len(kernels) == 2, "one for n=1000, one for n=64, none for the held-out shape"
    assert all("twice" in k.name and k.arch == arch and k.registers and not k.spill_store_bytes for k in kernels)
    assert "4321" not in built.report.log
    again = compiled(KERNEL, hardware).report
    assert again.cached and again.resources == kernels and again.key == built.report.key


STAGED = KERNEL.replace(
    "    if at < x.shape[0]:\n        y[at] = x[at] * 2.0",
    """    staged = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(FLOATS))
    staged[thread] = x[at % x.shape[0]]
    cute.arch.sync_threads()
    if at < x.shape[0]:
        y[at] = staged[thread] * 2.0""",
).replace("import torch\n", "import cutlass\nimport torch\n")


def test_shared_memory_is_what_the_launch_asks_for_and_no_more_than_the_device_has(
    compiled: Callable[..., Build],
) -> None:
    report = compiled(STAGED.replace("FLOATS", "1024")).report
    assert report.ok, report.log
    assert [kernel.shared_bytes for kernel in report.resources] == [4096, 4096]
    report = compiled(STAGED.replace("FLOATS", "70000")).report
    assert not report.ok and "asks for 280000 bytes of shared memory; sm_100a has 232448" in report.log


def test_a_kernel_may_ask_for_the_device_compiled_for_and_allocate_on_it(compiled: Callable[..., Build]) -> None:
    made = "cute.compile(launch, from_dlpack(x), from_dlpack(y), stream)"
    asks = """
    import cutlass.utils
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    print("has", device.multi_processor_count, cutlass.utils.HardwareInfo().get_device_multiprocessor_count())
    assert torch.cuda.get_device_capability() == (10, 0)
    y = torch.empty(x.shape, dtype=x.dtype, device="cuda")
"""
    report = compiled(KERNEL.replace("def run(x, y):", f"def run(x, y):{asks}")
                      .replace("    launch(from_dlpack(x)", f"    {made}(from_dlpack(x)")).report
    assert report.ok, report.log
    assert "has 148 148" in report.log


def test_nothing_of_the_kernel_runs_outside_its_sandbox(compiled: Callable[..., Build], tmp_path: Path) -> None:
    secret, trace = tmp_path / "secret", tmp_path / "trace"
    secret.write_text("a host's own")
    reaches = f"""
import os, socket
for attempt in (lambda: open({str(secret)!r}).read(), lambda: open({str(trace)!r}, "w"),
                lambda: socket.create_connection(("1.1.1.1", 53), 1), lambda: os.kill({os.getpid()}, 0)):
    try:
        attempt()
        print("got out")
    except OSError as error:
        print("held back by", type(error).__name__)
"""
    report = compiled(reaches + KERNEL).report
    assert report.ok, report.log
    if report.sandbox != "none":
        assert report.log.count("held back by") == 4 and "got out" not in report.log
        assert not trace.exists()


def test_compiling_without_end_is_stopped_and_a_flood_of_output_is_cut(
    compiled: Callable[..., Build], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = compiled(KERNEL.replace("def run(x, y):", "def run(x, y):\n    print('x' * (8 << 20), flush=True)")).report
    assert report.ok and report.log_truncated and len(report.log) < LOG_BYTES + 100
    monkeypatch.setattr("agentcore.build.cute._LIMITS", Limits(wall_s=3))
    built = compiled("while True:\n    pass\n")
    assert built.timed_out and not built.report.ok and built.report.log.startswith("compiling was stopped after")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (KERNEL.replace("x[at] * 2.0", "absent[at]"), "name 'absent' is not defined (kernel.py:13)"),
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
    kernel = write_kernel(tmp_path / "kernel", KERNEL, Language.CUTE)
    with pytest.raises(FrameworkMissing):
        compile_cute(kernel, problem, HardwareName.B200, sandbox, cache_dir=tmp_path / "cache")

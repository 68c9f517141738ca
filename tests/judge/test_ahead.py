"""What is done while torch is imported: found finished afterwards, given up with whoever asked for it, and silent."""

from __future__ import annotations

import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentcore.build import build
from agentcore.judge import ahead
from agentcore.judge.ahead import build_ahead, device_ahead
from agentcore.judge.gate import gate_cubin
from agentcore.judge.request import EvaluationRequest
from agentcore.official import OfficialSolution
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import HardwareName, Language
from tests.build.kernels import DEFINITION, KERNEL_CU, problem_of
from tests.judge.conftest import write_kernel
from tests.official.conftest import solution

ROOT = Path(__file__).parents[2]
ENDLESS = """
template <int A, int B> struct U { static constexpr int v = U<A - 1, B>::v + U<A - 1, B + (1 << A)>::v; };
template <int B> struct U<0, B> { static constexpr int v = B & 1; };
static_assert(U<28, 0>::v >= 0);
"""

needs_nvcc = pytest.mark.skipif(
    not (shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists()), reason="nvcc is not on this host"
)


def request_of(root: Path, source: str, hardware: HardwareName = HardwareName.H200) -> EvaluationRequest:
    return EvaluationRequest(
        problem=problem_of(DEFINITION), kernel_dir=write_kernel(root / "kernel", source, Language.CUDA),
        language=Language.CUDA, hardware=hardware, cache_dir=root / "cache", progress=lambda _text: None,
    )


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@needs_nvcc
def test_what_was_built_ahead_is_found_by_the_evaluation(tmp_path: Path, sandbox: Sandbox) -> None:
    wanted = request_of(tmp_path, KERNEL_CU)
    with build_ahead(wanted):
        pass
    built = build(
        wanted.kernel_dir, wanted.problem, Language.CUDA, HardwareName.H200, cache_dir=tmp_path / "cache" / "builds",
        sandbox=sandbox,
    )
    assert built.report.ok and built.report.cached


@needs_nvcc
@pytest.mark.timeout(60)  # without end it would be stopped after minutes
def test_nobody_waits_for_a_build_whose_caller_failed_and_nothing_of_it_is_left(
    tmp_path: Path, sandbox: Sandbox, capfd: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "cache" / "builds" / "work"

    def fail() -> None:
        with build_ahead(request_of(tmp_path, ENDLESS + KERNEL_CU)):
            wait_for(lambda: list(work.glob("*/out")))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(work.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@needs_nvcc
@pytest.mark.timeout(60)
def test_a_build_ends_with_the_process_that_it_is_for(tmp_path: Path, sandbox: Sandbox) -> None:
    wanted = tmp_path / "request"
    wanted.write_bytes(pickle.dumps(ahead.silent(request_of(tmp_path, ENDLESS + KERNEL_CU))))
    program = f"""
import pickle, sys, time
from pathlib import Path
from agentcore.judge.ahead import build_ahead
with build_ahead(pickle.loads(Path({str(wanted)!r}).read_bytes())):
    time.sleep(600)
"""
    work = tmp_path / "cache" / "builds" / "work"
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    wait_for(lambda: list(work.glob("*/out")))
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_for(lambda: not list(work.iterdir()))


def test_a_kernel_at_fault_and_a_host_without_a_way_to_build_say_nothing_ahead(
    tmp_path: Path, sandbox: Sandbox, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with build_ahead(request_of(tmp_path / "wrong", "#error no\n")):
        pass
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with build_ahead(request_of(tmp_path / "nothing", KERNEL_CU)):
        pass
    assert capfd.readouterr() == ("", "")


def test_an_official_solution_can_be_asked_for_in_another_process(tmp_path: Path) -> None:
    official = OfficialSolution.model_validate(
        solution({"k.cu": "//"}, languages=["cuda_cpp"], entry_point="k.cu::run")
    )
    asked = ahead.silent(EvaluationRequest(
        problem=problem_of(DEFINITION), kernel_dir=tmp_path, language=Language.CUDA, hardware=HardwareName.H200,
        cache_dir=tmp_path, official=official, progress=lambda _text: None,
    ))
    assert pickle.loads(pickle.dumps(asked)) == asked


@needs_nvcc
def test_the_judges_device_code_is_compiled_ahead_for_a_gpu_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "is_here", lambda hardware: hardware is HardwareName.H200)
    with device_ahead(HardwareName.B200, tmp_path), device_ahead(HardwareName.CPU, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    with device_ahead(HardwareName.H200, tmp_path):
        pass
    (made,) = (tmp_path / "gate").iterdir()
    before = made.stat().st_mtime_ns
    assert gate_cubin(HardwareName.H200, tmp_path) == made and made.stat().st_mtime_ns == before


def test_device_code_that_cannot_be_compiled_is_told_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ahead, "is_here", lambda _hardware: True)
    (tmp_path / "gate").write_text("no directory")
    with device_ahead(HardwareName.H200, tmp_path):
        pass
    assert capfd.readouterr() == ("", "")
    with pytest.raises(OSError, match="gate"):
        gate_cubin(HardwareName.H200, tmp_path)


def test_the_driver_is_begun_ahead_for_a_gpu_of_this_host_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def library(name: str) -> SimpleNamespace:
        return SimpleNamespace(cuInit=lambda flags: done.append(f"{name} {flags}"))

    monkeypatch.setattr(ahead, "is_here", lambda hardware: hardware is HardwareName.H200)
    monkeypatch.setattr(ahead, "gate_cubin", lambda *_: None)
    monkeypatch.setattr(ahead.ctypes, "CDLL", library)
    for hardware in HardwareName:
        with device_ahead(hardware, tmp_path):
            pass
    assert done == ["libcuda.so.1 0"]

"""The GPU target: the device, its calibration, and fresh runners on it. The batches themselves are in cuda_batches."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agentcore.judge.cuda_buffers import CudaBuffers
from agentcore.judge.device_page import DevicePage
from agentcore.judge.layout import Layout, Parameter
from agentcore.judge.measurement import Effort
from agentcore.judge.result import EnvironmentStamp
from agentcore.judge.session import RunnerSession
from agentcore.judge.stamp import gpu_stamp
from agentcore.judge.statistics import interquartile_mean
from agentcore.judge.telemetry import Telemetry
from agentcore.sandbox import GIB, Limits, Sandbox
from agentcore.vocabulary import HardwareName, Language

GATE_SOURCE = Path(__file__).resolve().parent / "gate.cu"
CALIBRATION_CALLS = 48
TOUCHED_BYTES = (1 << 16, 1 << 20, 1 << 23, 1 << 25, 1 << 27)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the marks cost without a candidate, µs, measured in a runner that never loaded one.

    ``empty_us``: begin to end mark with nothing between; ``nothing_us``: with one empty kernel between;
    ``gaps_us``: from an end mark to the next call's begin mark after a call that wrote so many bytes: (without a flush
    between, with one).
    """

    empty_us: float
    nothing_us: float
    gaps_us: dict[int, tuple[float, float]]

    def gaps_after(self, output_bytes: int) -> tuple[float, float]:
        """The gaps to expect after a call that wrote ``output_bytes``: those of the next larger size measured."""
        larger = [size for size in self.gaps_us if size >= output_bytes]
        return self.gaps_us[min(larger) if larger else max(self.gaps_us)]


class CudaTarget:
    """One GPU (the first visible to this process) as the judge uses it. Needs torch with CUDA, and nvcc once."""

    torch_device = "cuda"
    builds_disturb = False

    def __init__(self, hardware: HardwareName, cache_dir: Path) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError(f"{hardware} needs an NVIDIA GPU and a torch built with CUDA; this host has none")
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.hardware = hardware
        self.index = int(os.environ.get("KERNELYARD_GPU_INDEX", "0"))
        self.telemetry = Telemetry(self.index)
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.flush_bytes = 2 * self.l2_bytes
        self._flush = torch.zeros(self.flush_bytes // 4, dtype=torch.float32, device="cuda")
        self.gate = gate_cubin(hardware, cache_dir)
        self._calibrations: dict[str, Calibration] = {}

    @property
    def device_uuid(self) -> str:
        return self.telemetry.device["device_uuid"]

    def flush(self) -> None:
        """Read twice the L2 through from the judge's own context: what it has just written leaves the cache."""
        self._flush.sum()
        torch.cuda.synchronize()

    def canary_us(self) -> float:
        """A fixed read of device memory, timed by events: slow means throttled or shared. Best of twenty."""
        best = float("inf")
        for _ in range(20):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            begin.record()
            self._flush.sum()
            end.record()
            torch.cuda.synchronize()
            best = min(best, begin.elapsed_time(end) * 1e3)
        return best

    def stamp(self, sandbox: str, compiler: str, canary_us: list[float]) -> EnvironmentStamp:
        return gpu_stamp(
            self.hardware, sandbox, compiler, self.telemetry.device, self.telemetry.stop(), canary_us
        )

    def session(self, sandbox: Sandbox, language: str, artifact: Path | None, page: DevicePage) -> RunnerSession:
        """A runner that has made its context and mapped the page, and has not loaded anything yet."""
        readable = [self.gate.parent]
        if artifact is not None:
            readable.append(artifact if artifact.is_dir() else artifact.parent)
        session = RunnerSession(
            sandbox, "gpu", readable=readable, devices=device_nodes(self.index), env=runner_environment(),
            limits=Limits(memory_bytes=None, processes=512, file_bytes=GIB, cpu_s=1200, wall_s=1800, tmp_bytes=2 * GIB),
            isolated=language in ("cuda", "none"),
        )
        try:
            session.request(
                {"op": "hello", "gate": str(self.gate), "flush_bytes": self.flush_bytes}, "ready", timeout_s=60,
                descriptors=[page.descriptor],
            )
        except BaseException:
            session.close()
            raise
        return session

    def start(self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort) -> Any:
        """A fresh sandboxed runner with the candidate loaded. Raises RunnerFailure."""
        from agentcore.judge.cuda_batches import CudaRunner

        calibration = self.calibration(sandbox)
        self.telemetry.start()
        return CudaRunner(self, sandbox, language, artifact, effort, calibration)

    def calibration(self, sandbox: Sandbox) -> Calibration:
        """Measured once per judge and sandbox kind, in a clean runner."""
        if sandbox.kind not in self._calibrations:
            expected: dict[int, tuple[float, float]] = {}
            for size in TOUCHED_BYTES:
                with _clean_runner(self, sandbox, size) as (session, page):
                    if size == TOUCHED_BYTES[0]:
                        empty, _, _ = _marks(self, session, page, "none")
                        nothing, _, _ = _marks(self, session, page, "nothing")
                    _, *gaps = _marks(self, session, page, "touch")
                    expected[size] = (gaps[0], gaps[1])
            self._calibrations[sandbox.kind] = Calibration(empty, nothing, expected)
        return self._calibrations[sandbox.kind]


@contextmanager
def _clean_runner(target: CudaTarget, sandbox: Sandbox, size: int) -> Iterator[tuple[RunnerSession, DevicePage]]:
    page = DevicePage()
    layout = Layout([Parameter("x", "output", (size // 4,), torch.float32, "float32")], CALIBRATION_CALLS)
    buffers = CudaBuffers(layout)
    try:
        with target.session(sandbox, "none", None, page) as session:
            session.request({"op": "load", "language": "none"}, "loaded", timeout_s=30)
            indices, sizes, descriptors = buffers.descriptors()
            session.request(
                {"op": "buffers", "slots": layout.slots, "parameters": layout.describe(indices, sizes, False)},
                "mapped", timeout_s=30, descriptors=descriptors,
            )
            yield session, page
    finally:
        buffers.close()
        page.close()


def _marks(target: CudaTarget, session: RunnerSession, page: DevicePage, kind: str) -> tuple[float, float, float]:
    """(begin→end, end→next begin without a flush, the same with one), µs, over fifteen batches."""
    inside: list[float] = []
    between: list[float] = []
    flushed: list[float] = []
    for token in range(1, 17):
        page.reset()
        session.request(
            {
                "op": "enqueue", "slots": list(range(CALIBRATION_CALLS)), "kind": kind, "token": token,
                "flush": [index % 2 == 0 for index in range(CALIBRATION_CALLS)],
            },
            "enqueued", timeout_s=30,
        )
        target.flush()
        page.open_gates(CALIBRATION_CALLS)
        seen = page.watch(range(CALIBRATION_CALLS), token, 10)
        session.request({"op": "idle"}, "idle", timeout_s=30)
        if seen is None:
            raise RuntimeError("calibration: the device did not answer within 10 s")
        begins, ends, _ = seen
        if token == 1:
            continue  # the first batch loads the kernels
        inside += [(e - b) / 1e3 for b, e in zip(begins, ends, strict=True)][0::2]
        between += [(b - e) / 1e3 for e, b in zip(ends[0::2], begins[1::2], strict=True)]
        flushed += [(b - e) / 1e3 for e, b in zip(ends[1:-1:2], begins[2::2], strict=True)]
    return interquartile_mean(inside), interquartile_mean(between), interquartile_mean(flushed)


def gate_cubin(hardware: HardwareName, cache_dir: Path) -> Path:
    """The judge's device code compiled for ``hardware``, kept in the cache. Needs nvcc the first time."""
    key = hashlib.sha256(GATE_SOURCE.read_bytes()).hexdigest()[:16]
    directory = cache_dir / "gate"
    target = directory / f"{hardware.arch}-{key}.cubin"
    if target.is_file():
        return target
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    temporary = directory / f".{target.name}.{os.getpid()}"
    arch = hardware.arch.removeprefix("sm_")
    subprocess.run(
        [nvcc, "-cubin", "-O3", f"-gencode=arch=compute_{arch},code=sm_{arch}", str(GATE_SOURCE), "-o", str(temporary)],
        check=True, capture_output=True,
    )
    temporary.chmod(0o644)
    temporary.replace(target)
    return target


def device_nodes(index: int) -> list[Path]:
    """The device files a CUDA process needs for GPU ``index``, those that exist here."""
    names = [f"/dev/nvidia{index}", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    return [Path(name) for name in names if Path(name).exists()]


def runner_environment() -> dict[str, str]:
    """What a CUDA process needs to find the driver and scratch space inside the sandbox."""
    env = {"CUDA_CACHE_PATH": "/tmp/cuda", "TRITON_CACHE_DIR": "/tmp/triton", "HOME": "/tmp"}  # noqa: S108  private there
    if path := os.environ.get("LD_LIBRARY_PATH"):
        env["LD_LIBRARY_PATH"] = path
    with contextlib.suppress(IndexError):
        env.setdefault("CUDA_HOME", sorted(glob.glob("/usr/local/cuda*"))[0])  # noqa: PTH207
    return env

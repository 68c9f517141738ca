"""The environment stamp: which device, software and sandbox a number came from."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

import torch

from agentcore.judge.result import EnvironmentStamp, HostLoad
from agentcore.judge.version import HARNESS_VERSION
from agentcore.sandbox import memory_mechanism
from agentcore.sanitizer.tools import present
from agentcore.vocabulary import HardwareName


def cpu_model() -> str:
    """The processor's name as the kernel reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def host_uuid() -> str:
    """A stable name for this host as a CPU device: a digest, so that the machine id itself is not published."""
    identity = ""
    for file in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        if Path(file).is_file():
            identity = Path(file).read_text().strip()
            break
    return "CPU-" + hashlib.sha256(f"{identity}|{platform.node()}|{cpu_model()}".encode()).hexdigest()[:16]


def host_stamp(
    sandbox: str, compiler: str, threads: int, canary_us: list[float], load: HostLoad | None
) -> EnvironmentStamp:
    """The stamp of an evaluation on the CPU target; ``load`` is what others did meanwhile (see host_load.py)."""
    return EnvironmentStamp(
        hardware=HardwareName.CPU, device_uuid=host_uuid(), device_name=cpu_model(), threads=threads,
        canary_us=canary_us, host_load=load, **_software(HardwareName.CPU, sandbox, compiler),
    )


def gpu_stamp(
    hardware: HardwareName, sandbox: str, compiler: str, device: dict[str, Any], telemetry: dict[str, Any],
    canary_us: list[float],
) -> EnvironmentStamp:
    """The stamp of an evaluation on a GPU; ``device`` and ``telemetry`` come from NVML (see telemetry.py)."""
    return EnvironmentStamp(
        hardware=hardware, cuda=torch.version.cuda or "", canary_us=canary_us, **device, **telemetry,
        **_software(hardware, sandbox, compiler),
    )


def _software(hardware: HardwareName, sandbox: str, compiler: str) -> dict[str, Any]:
    return {
        "host": platform.node(), "torch": torch.__version__, "python": platform.python_version(),
        "compiler": compiler, "sandbox": sandbox, "memory_limit": memory_mechanism()[0],
        "harness_version": HARNESS_VERSION,
        "sanitizers": [tool.value for tool in present(hardware)],
    }

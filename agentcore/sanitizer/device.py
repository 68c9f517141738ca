"""The device a sanitizer runs on: which one it is, what its program may open, and the stamp.

Makes no CUDA context.
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcore.judge.result import EnvironmentStamp
from agentcore.judge.version import HARNESS_VERSION
from agentcore.sanitizer.tools import SanitizerMissing, present
from agentcore.vocabulary import HardwareName

if TYPE_CHECKING:
    from agentcore.sanitizer.run import Program


def device_uuid(hardware: HardwareName) -> str:
    """The device's name, as the judge locks it. Raises SanitizerMissing where this host has no such device."""
    from agentcore.judge.devices import is_here
    from agentcore.judge.stamp import host_uuid

    if not hardware.is_gpu:
        return host_uuid()
    if not is_here(hardware):
        raise SanitizerMissing(f"there is no {hardware} on this host, and a sanitizer runs the kernel")
    return _gpu()["device_uuid"]


def on_device(program: Program) -> Program:
    """The program with the device nodes and the environment that CUDA needs."""
    from agentcore.judge.cuda_target import device_nodes, runner_environment

    return replace(
        program, devices=tuple(device_nodes(_index())), environment=tuple(sorted(runner_environment().items()))
    )


def stamp(hardware: HardwareName, compiler: str, sandbox: str) -> EnvironmentStamp:
    """Where it ran. Where the device is missing, the stamp says so by having none."""
    from agentcore.judge.devices import is_here
    from agentcore.judge.stamp import cpu_model, host_uuid

    if not hardware.is_gpu:
        device = {"device_uuid": host_uuid(), "device_name": cpu_model()}
    else:
        device = _gpu() if is_here(hardware) else {}
    return EnvironmentStamp(
        hardware=hardware, device_uuid=device.get("device_uuid", ""), device_name=device.get("device_name", ""),
        driver=device.get("driver", ""), host=platform.node(), python=platform.python_version(), compiler=compiler,
        sandbox=sandbox, harness_version=HARNESS_VERSION, sanitizers=[tool.value for tool in present(hardware)],
    )


def _gpu() -> dict[str, str]:
    from agentcore.judge.telemetry import Telemetry

    return Telemetry(_index()).device


def _index() -> int:
    return int(os.environ.get("KERNELYARD_GPU_INDEX", "0"))

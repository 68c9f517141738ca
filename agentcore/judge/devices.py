"""What this host can measure on: GPUs by NVML, and the CPU. Makes no CUDA context."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from agentcore.sandbox import SandboxUnavailable, find_sandbox, memory_mechanism
from agentcore.vocabulary import HardwareName, Language

_NAMES = (("B200", HardwareName.B200), ("H200", HardwareName.H200), ("H100", HardwareName.H100))


def gpus() -> list[dict[str, str]]:
    """Every NVIDIA GPU NVML shows: {hardware, uuid, name, driver}; hardware is '' for one without a rate table."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no library or no driver: simply no GPU here
        return []
    found = []
    driver = str(pynvml.nvmlSystemGetDriverVersion())
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name = str(pynvml.nvmlDeviceGetName(handle))
        hardware = next((h.value for part, h in _NAMES if part in name), "")
        found.append({
            "hardware": hardware, "uuid": str(pynvml.nvmlDeviceGetUUID(handle)), "name": name, "driver": driver,
        })
    return found


def is_here(hardware: HardwareName) -> bool:
    """Whether this host has a device of this class."""
    return not hardware.is_gpu or any(gpu["hardware"] == hardware for gpu in gpus())


def refuse_another(hardware: HardwareName) -> None:
    """Raises RuntimeError where this host has GPUs, but none of the class whose numbers are asked for."""
    found = gpus()
    if found and not any(gpu["hardware"] == hardware for gpu in found):
        names = ", ".join(gpu["name"] for gpu in found)
        raise RuntimeError(f"{hardware} is not on this host, which has: {names}; nothing measured here would be true")


def local_hardware() -> HardwareName:
    """The hardware class of the first GPU with a rate table, else the CPU."""
    for gpu in gpus():
        if gpu["hardware"]:
            return HardwareName(gpu["hardware"])
    return HardwareName.CPU


def toolchains() -> dict[str, str]:
    """By language, the version of what it is compiled by or written in; without those that this host lacks."""
    from agentcore.build.frameworks import FrameworkMissing, framework_version
    from agentcore.build.toolchain import ToolMissing, compiler

    found = {Language.TORCH.value: f"torch {metadata.version('torch')}"}
    for language in Language:
        try:
            version = compiler(language).version if language.is_compiled else framework_version(language)
        except (FrameworkMissing, ToolMissing):
            continue
        found.setdefault(language.value, version)
    return dict(sorted(found.items()))


def describe_host() -> dict[str, Any]:
    """Devices, toolchains, sandbox kind and missing tools of this host, for ``kernelyard devices``."""
    from agentcore.build.toolchain import missing_tools
    from agentcore.judge.stamp import cpu_model, host_uuid  # imports torch, which looking for a device need not

    try:
        sandbox = find_sandbox().kind
    except SandboxUnavailable as error:
        sandbox = f"unavailable: {error}"
    here = gpus()
    cpu = {"hardware": "cpu", "uuid": host_uuid(), "name": cpu_model(), "driver": ""}
    missing = [f"{tool} ({why}); install {package}" for tool, package, why in missing_tools(cuda=bool(here))]
    mechanism, why = memory_mechanism()
    memory = f"{mechanism} ({why})" if mechanism == "cgroup" else f"{mechanism} (no cgroup: {why})"
    return {
        "devices": [*here, cpu], "toolchains": toolchains(), "sandbox": sandbox, "memory_limit": memory,
        "missing": missing,
    }

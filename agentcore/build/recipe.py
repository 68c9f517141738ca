"""How each compiled language is compiled: fixed flags, limits, and what they depend on. One function a language.

Not for running the compiler. The author of a kernel chooses nothing here: there are no flags in a kernel's tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentcore.build.toolchain import Compiler, compiler, cuobjdump_version, host_cpu
from agentcore.sandbox import GIB, MIB, Limits
from agentcore.vocabulary import HardwareName, Language

ENTRY = {Language.CPP: "ky_entry.cpp", Language.CUDA: "ky_entry.cpp"}
"""The generated entry is host code in either language: as a .cu file it would take the device compiler as long as the
kernel does."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A compiler call without its files. ``depends`` names whatever else changes the result, for the cache's key."""

    compiler: Compiler
    arch: str
    flags: tuple[str, ...]
    limits: Limits
    depends: tuple[str, ...] = ()


def recipe(language: Language, hardware: HardwareName) -> Recipe:
    """The recipe of a language for a hardware. Raises ToolMissing; ValueError if the two do not go together."""
    if language is Language.CPP and hardware is HardwareName.CPU:
        return _cpp()
    if language is Language.CUDA and hardware.is_gpu:
        return _cuda(hardware)
    raise ValueError(f"{language} kernels are not compiled for {hardware}")


# In the limits below CPU time is the kernel's; wall time is generous, for a busy host.
# Shared by both: an unresolved symbol is an error now, not when the runner loads the kernel; and problem.h is always
# seen first, so that a kernel_launch of another signature is an error too.
_LINK = "-z,defs,-z,noexecstack,--as-needed"


def _cpp() -> Recipe:
    flags = (
        "-O3",
        "-march=native",
        "-std=c++20",
        "-fopenmp",
        "-shared",
        "-fPIC",
        "-fdiagnostics-color=never",
        "-fmax-errors=50",
        f"-Wl,{_LINK}",
        "-I.",
        "-include",
        "problem.h",
    )
    limits = Limits(
        memory_bytes=4 * GIB, address_bytes=4 * GIB, processes=64, file_bytes=256 * MIB, cpu_s=60, wall_s=180,
        tmp_bytes=256 * MIB,
    )
    return Recipe(compiler(Language.CPP), "native", flags, limits, (host_cpu(),))


def _cuda(hardware: HardwareName) -> Recipe:
    virtual = hardware.arch.replace("sm_", "compute_")
    flags = (
        "-O3",
        "-std=c++20",
        f"-gencode=arch={virtual},code={hardware.arch}",
        "-shared",
        "--threads=2",  # the kernel and the entry side by side
        "-Xcompiler=-fPIC,-fopenmp,-fdiagnostics-color=never",
        "-Xptxas=-v",
        # Static, so that the host that runs the kernel needs the driver and nothing of the toolkit.
        "-cudart=static",
        f"-Xlinker={_LINK}",
        "-I.",
        "-include",
        "problem.h",
    )
    limits = Limits(
        memory_bytes=16 * GIB, address_bytes=16 * GIB, processes=128, file_bytes=GIB, cpu_s=120, wall_s=300,
        tmp_bytes=GIB,
    )
    return Recipe(compiler(Language.CUDA), hardware.arch, flags, limits, (cuobjdump_version(),))

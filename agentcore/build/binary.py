"""What each device function of a built CUDA kernel uses, read from the binary itself by NVIDIA's cuobjdump.

A kernel's source can print lines like the compiler's, so what the log says of registers and memory is a claim; what
stands in the binary is what the device will be asked for. The binary is hostile data: cuobjdump reads it in the
sandbox, bounded in time and output. Other GPU code that a source pastes into the compiler's section is read like the
compiler's own. Not for running anything of it, and not for judging what it uses.
"""

from __future__ import annotations

import re
from pathlib import Path

from agentcore.build.files import write_tree
from agentcore.build.log import clean_log
from agentcore.build.resources import MAX_KERNELS, MAX_NAME, demangle, parse_ptxas
from agentcore.build.toolchain import ToolMissing, cuobjdump
from agentcore.judge.result import BuildReport, KernelResources
from agentcore.sandbox import GIB, Limits, Sandbox, SandboxError
from agentcore.sandbox.view import host_view

_LIMITS = Limits(memory_bytes=2 * GIB, processes=8, cpu_s=20, wall_s=60, output_bytes=1 << 20)
_NAME = "kernel.so"

# cuobjdump --dump-resource-usage: an "arch" line per binary (none for a bare cubin), then two lines a function.
_ARCH = re.compile(r"arch = (sm_\w{1,12})")
_FUNCTION = re.compile(r" Function (.+):")
_USES = re.compile(r"  REG:.*")
_NUMBER = re.compile(r"\b([A-Z]+)(?:\[\d+\])?:(\d{1,12})\b")
_RESERVED_BYTES = 1024
"""Of a block's shared memory CUDA keeps this for itself (CUDA C++ Programming Guide, compute capability 9.0 and 10.0);
cuobjdump counts it to every function that has shared memory of its own."""


def with_resources(report: BuildReport, artifact: bytes, log: str, place: Path, sandbox: Sandbox) -> BuildReport:
    """``report`` with what the device functions in ``artifact`` use, under their C++ names.

    cuobjdump says nothing of spills and barriers: they come from ``log``, the compiler's. Where the binary cannot be
    read all of it does, and the report says why. ``place`` is a directory to work in.
    """
    claimed = parse_ptxas(log)
    try:
        kernels, note = _dumped(artifact, report.arch, place, sandbox)
    except (ToolMissing, SandboxError) as error:
        kernels, note = None, str(error)
    if kernels == [] and claimed:
        # What is pasted before the compiler's own code can keep cuobjdump from reading that.
        kernels, note = None, "cuobjdump finds no device function in what was built, and the compiler's log names some"
    if kernels is None:
        return report.model_copy(
            update={"resources": demangle(claimed, sandbox), "resources_from": "log", "resources_note": note}
        )
    said = {kernel.name: kernel for kernel in claimed}
    found = [_and_claims(kernel, said.get(kernel.name)) for kernel in kernels]
    return report.model_copy(
        update={"resources": demangle(found, sandbox), "resources_from": "binary", "resources_note": note}
    )


def _dumped(artifact: bytes, arch: str, place: Path, sandbox: Sandbox) -> tuple[list[KernelResources] | None, str]:
    """The functions in the binary, or None; and what there is to say of that."""
    tool = cuobjdump().path
    built = place / "built"
    write_tree(built, {_NAME: artifact})
    seen = host_view(False).paths
    done = sandbox.run(
        [str(tool), "--dump-resource-usage", _NAME],
        readable=[built, *([] if any(tool.is_relative_to(tree) for tree in seen) else [tool])],
        cwd=built, limits=_LIMITS, python=False, merge_stderr=True,
    )
    text = clean_log(done.stdout).replace(f"{built}/", "")
    if done.timed_out or done.returncode != 0:
        ended = "took too long" if done.timed_out else f"ended with status {done.returncode}"
        return None, f"cuobjdump {ended} on what was built: {' '.join(text.split())[:300]}".rstrip(": ")
    kernels = parse_usage(text, arch)
    cut = done.truncated or len(kernels) > MAX_KERNELS
    return kernels[:MAX_KERNELS], "there are more functions than are listed" if cut else ""


def parse_usage(text: str, arch: str) -> list[KernelResources]:
    """The functions in what ``cuobjdump --dump-resource-usage`` printed, in its order, with mangled names.

    ``arch`` is that of a bare cubin, of which cuobjdump names none. Spills are unknown.
    """
    found: dict[KernelResources, None] = {}
    name = ""
    for line in text.splitlines():
        if match := _ARCH.fullmatch(line):
            arch = match[1]
        elif match := _FUNCTION.fullmatch(line):
            name = match[1][:MAX_NAME]
        elif name and _USES.fullmatch(line):
            used: dict[str, int] = {}
            for what, number in _NUMBER.findall(line):
                used[what] = used.get(what, 0) + int(number)
            found[KernelResources(
                name=name, arch=arch, registers=used.get("REG"), spill_store_bytes=None, spill_load_bytes=None,
                stack_bytes=used.get("STACK", 0) + used.get("LOCAL", 0),
                shared_bytes=max(0, used.get("SHARED", 0) - _RESERVED_BYTES),
                constant_bytes=used.get("CONSTANT", 0), barriers=None,
            )] = None
            name = ""
            if len(found) > MAX_KERNELS:
                break
    return list(found)


def _and_claims(kernel: KernelResources, claimed: KernelResources | None) -> KernelResources:
    if claimed is None:
        return kernel
    return kernel.model_copy(update={
        "spill_store_bytes": claimed.spill_store_bytes, "spill_load_bytes": claimed.spill_load_bytes,
        "barriers": claimed.barriers,
    })

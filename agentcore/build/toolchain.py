"""The compilers and tools of this host: where they are, which version, and which package brings a missing one.

Not for running them on anybody's source; see ``compile``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from agentcore.sandbox.view import cuda_toolkit
from agentcore.vocabulary import Language


class ToolMissing(RuntimeError):
    """A tool is not on this host; the message names the package that brings it and what it is for."""

    def __init__(self, tool: str, package: str, why: str) -> None:
        super().__init__(f"{tool} is not on PATH ({why}); install {package}")
        self.tool = tool
        self.package = package
        self.why = why


_PACKAGES = {
    "git": ("the Debian package git", "attempts and solutions are kept in it"),
    "g++": ("the Debian package g++", "it compiles C++ kernels, and the host part of CUDA kernels"),
    "bwrap": ("the Debian package bubblewrap", "it confines compilers and kernels"),
    "setpriv": ("the Debian package util-linux", "it gives sandboxed programs a user of their own"),
    "prlimit": ("the Debian package util-linux", "it limits what sandboxed programs use"),
    "nvcc": ("NVIDIA's cuda-toolkit 13.0 or newer, or set CUDA_HOME", "it compiles CUDA kernels"),
    "cuobjdump": (
        "cuda-cuobjdump of NVIDIA's toolkit, or pip install nvidia-cuda-cuobjdump",
        "it reads what a built CUDA kernel uses",
    ),
}
_NEEDED = ("git", "g++", "bwrap", "setpriv", "prlimit")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler of this host. ``version`` goes into every build's key and report."""

    path: Path
    version: str


def find_tool(tool: str) -> Path:
    """Where a tool is. Raises ToolMissing."""
    found = shutil.which(tool)
    if found is None and tool in ("nvcc", "cuobjdump"):
        toolkit = cuda_toolkit()
        found = shutil.which(toolkit / "bin" / tool) if toolkit else None
    if found is None and tool == "cuobjdump":
        found = _in_package(f"nvidia-cuda-{tool}", tool)
    if found is None:
        package, why = _PACKAGES[tool]
        raise ToolMissing(tool, package, why)
    return Path(found)


def _in_package(package: str, tool: str) -> str | None:
    """Where a Python package has put a program; NVIDIA's put theirs in no directory of PATH."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    places = (shutil.which(file.locate()) for file in files if file.name == tool)
    return next(filter(None, places), None)


def missing_tools(*, cuda: bool = False) -> list[tuple[str, str, str]]:
    """The tools this host lacks, as (tool, package that brings it, why it is needed); with ``cuda``, nvcc too.

    Root can do without bubblewrap, so there it is not counted as missing while util-linux is complete.
    """
    absent: list[tuple[str, str, str]] = []
    for tool in (*_NEEDED, *(("nvcc",) if cuda else ())):
        if tool == "bwrap" and os.geteuid() == 0:
            continue
        try:
            find_tool(tool)
        except ToolMissing as error:
            absent.append((error.tool, error.package, error.why))
    return absent


def compiler(language: Language) -> Compiler:
    """The compiler of a compiled language. Raises ToolMissing; ValueError for a language that has none."""
    if language is Language.CPP:
        return _identify("g++", find_tool("g++"), "")
    if language is Language.CUDA:
        host = _identify("g++", find_tool("g++"), "")
        return _identify("nvcc", find_tool("nvcc"), f" with {host.version}")
    raise ValueError(f"{language} has no compiler here; only {Language.CUDA} and {Language.CPP} have")


def cuobjdump() -> Compiler:
    """What reads built CUDA kernels; not in every installation of the toolkit. Raises ToolMissing."""
    return _identify("cuobjdump", find_tool("cuobjdump"), "")


def cuobjdump_version() -> str:
    """Its version, '' where it is missing: a build made without it says less."""
    try:
        return cuobjdump().version
    except ToolMissing:
        return ""


@cache
def _identify(name: str, path: Path, suffix: str) -> Compiler:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=30)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode != 0 or not lines:
        raise ToolMissing(name, _PACKAGES[name][0], f"{path} --version failed: {done.stderr.strip()[:200]}")
    # g++ names itself in the first line, NVIDIA's tools their build in the last.
    version = lines[0] if name == "g++" else lines[-1]
    return Compiler(path, f"{version.removeprefix('Build ')}{suffix}")


@cache
def host_cpu() -> str:
    """What ``-march=native`` depends on, as a short digest: the CPU's model and its feature flags."""
    wanted: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key in ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part"):
            wanted.setdefault(key, value)
    return hashlib.sha256(repr(sorted(wanted.items())).encode()).hexdigest()[:16]

"""Which sanitizers a target has, whether this host has them, and where compute-sanitizer is.

Not for running any of them.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.sandbox.view import cuda_toolkit
from agentcore.sanitizer.report import Tool
from agentcore.vocabulary import HardwareName, Language

HOST_TOOLS = (Tool.ADDRESS, Tool.UNDEFINED, Tool.THREAD)
DEVICE_TOOLS = (Tool.MEMCHECK, Tool.RACECHECK, Tool.INITCHECK, Tool.SYNCCHECK)


class SanitizerMissing(RuntimeError):
    """No sanitizer can look at this language on this hardware here; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class ComputeSanitizer:
    """compute-sanitizer of this host. ``root`` holds the program and the libraries it injects."""

    path: Path
    root: Path
    version: str


def tools_for(language: Language, hardware: HardwareName) -> tuple[Tool, ...]:
    """The tools that look at a language on a hardware; empty where there are none."""
    if language is Language.CPP and not hardware.is_gpu:
        return HOST_TOOLS
    if language is Language.CUDA and hardware.is_gpu:
        return DEVICE_TOOLS
    return ()


def why_missing(language: Language, hardware: HardwareName) -> str:
    """Why a kernel of this language cannot be sanitized for this hardware on this host; empty where it can."""
    if not tools_for(language, hardware):
        return f"there is no sanitizer for {language} kernels on {hardware}; there are for cpp on cpu and cuda on GPUs"
    try:
        find_tool("g++")
        if hardware.is_gpu:
            find_tool("nvcc")
            find_compute_sanitizer()
        elif gxx_library("libasan.so") is None:
            return "g++ has no libasan on this host; install the Debian package libgcc-12-dev (or your g++'s)"
    except (ToolMissing, SanitizerMissing) as error:
        return str(error)
    return ""


def present(hardware: HardwareName) -> tuple[Tool, ...]:
    """The tools this host has for a hardware, by their files alone: nothing is started but g++, once."""
    language = Language.CUDA if hardware.is_gpu else Language.CPP
    return () if why_missing(language, hardware) else tools_for(language, hardware)


@cache
def gxx_library(name: str) -> Path | None:
    """Where g++ finds one of its own libraries, or None."""
    done = subprocess.run(
        [find_tool("g++"), f"-print-file-name={name}"], capture_output=True, text=True, check=False, timeout=30
    )
    path = Path(done.stdout.strip())
    return path if path.is_absolute() and path.exists() else None


def find_compute_sanitizer() -> Path:
    """Where compute-sanitizer is, on PATH or in the CUDA toolkit. Raises SanitizerMissing."""
    found = shutil.which("compute-sanitizer")
    if found is not None:
        return Path(found)
    toolkit = cuda_toolkit()
    if toolkit is not None:
        for place in ("bin", "compute-sanitizer"):
            candidate = toolkit / place / "compute-sanitizer"
            if candidate.exists():
                return candidate
    raise SanitizerMissing(
        "compute-sanitizer is neither on PATH nor in the CUDA toolkit; install NVIDIA's package cuda-sanitizer-13-0"
        " (or your toolkit's)"
    )


@cache
def compute_sanitizer() -> ComputeSanitizer:
    """compute-sanitizer of this host, with its version. Raises SanitizerMissing."""
    found = find_compute_sanitizer()
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=60)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    version = next((line for line in lines if line.startswith("Version")), "")
    if done.returncode != 0 or not version:
        raise SanitizerMissing(f"{found} --version failed: {(done.stderr or done.stdout).strip()[:200]}")
    # NVIDIA's bin/ holds a script that starts the program beside its libraries, one directory up.
    path = found.resolve()
    return ComputeSanitizer(path, path.parent.parent, f"compute-sanitizer {version.removeprefix('Version ')}"[:120])

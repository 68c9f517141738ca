"""The libcuda for hosts without a GPU (fakecuda): compiled once, and loaded into this process."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from agentcore.judge.cuda_target import GATE_SOURCE
from agentcore.judge.runner.driver import Driver

FAKE = Path(__file__).resolve().parent / "fakecuda"


def compile_into(root: Path, compiler: str) -> None:
    """Make ``root`` a directory with the fake libcuda and something to read as its cubin."""
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-Wno-unknown-pragmas",
         f'-DGATE_SOURCE="{GATE_SOURCE}"', str(FAKE / "libcuda.cpp"), "-o", str(root / "libcuda.so.1")],
        check=True,
    )
    (root / "gate.cubin").write_bytes(b"not read by the fake")


def driver_of(root: Path) -> Driver:
    """The judge's side of the driver, with the fake in its place and a context."""
    driver = Driver.__new__(Driver)
    driver.library = ctypes.CDLL(str(root / "libcuda.so.1"))
    driver.call("cuInit", ctypes.c_uint(0))
    driver.use_primary_context()
    return driver

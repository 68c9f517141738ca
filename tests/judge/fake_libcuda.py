"""The libcuda for hosts without a GPU (fakecuda): compiled once, and loaded into this process."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

from agentcore.judge.cuda_copies import Copier
from agentcore.judge.gate import GATE_SOURCE
from agentcore.judge.runner.driver import Driver

FAKE = Path(__file__).resolve().parent / "fakecuda"
CASES = Path(__file__).resolve().parents[1] / "hacks" / "cuda"


def compile_into(root: Path, compiler: str) -> None:
    """Make ``root`` a directory with the fake libcuda and something to read as its cubin."""
    (root / "imitation.h").write_text(_imitation())
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-Wno-unknown-pragmas",
         f'-DGATE_SOURCE="{GATE_SOURCE}"', f'-DIMITATION="{root / "imitation.h"}"',
         str(FAKE / "libcuda.cpp"), "-o", str(root / "libcuda.so.1")],
        check=True,
    )
    (root / "gate.cubin").write_bytes(b"not read by the fake")


def _imitation() -> str:
    """The grid that the case flush_warms launches in the place of ky_clear, but for how it reads."""
    source = (CASES / "flush_warms.cu").read_text()
    hold, kernel = (re.search(pattern, source, re.DOTALL | re.MULTILINE) for pattern in (
        r"^struct Hold \{.*?^\};", r"^__global__ void __launch_bounds__\(1024, 2\)\s+imitation\(.*?^\}",
    ))
    assert hold and kernel
    policy = re.compile(r"u64 drop;\s+asm\(.*?\);", re.DOTALL)
    plain, policies = policy.subn("", kernel[0].replace("passing_by(region + i, drop)", "__ldcg(region + i)"))
    assert policies == 1
    return hold[0] + "\n" + plain


def copier_of(root: Path) -> Copier:
    """The judge's copier over the fake."""
    driver = driver_of(root)
    return Copier(driver, driver.functions((root / "gate.cubin").read_bytes(), ("ky_copy",))["ky_copy"])


def driver_of(root: Path) -> Driver:
    """The judge's side of the driver, with the fake in its place and a context."""
    driver = Driver.__new__(Driver)
    driver.library = ctypes.CDLL(str(root / "libcuda.so.1"))
    driver.call("cuInit", ctypes.c_uint(0))
    driver.use_primary_context()
    return driver

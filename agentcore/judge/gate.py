"""The judge's own device code, compiled once for a GPU class. Imports no torch: compiling can begin before it does."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from agentcore.vocabulary import HardwareName

GATE_SOURCE = Path(__file__).resolve().parent / "gate.cu"


def gate_cubin(hardware: HardwareName, cache_dir: Path) -> Path:
    """The judge's device code compiled for ``hardware``, kept in the cache. Needs nvcc the first time.

    Safe to call from several threads and processes at once. Raises OSError and subprocess.CalledProcessError.
    """
    target = _place(hardware, cache_dir)
    if target.is_file():
        return target
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.parent.chmod(0o755)
    arch = hardware.arch.removeprefix("sm_")
    with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as work:
        made = Path(work) / target.name
        subprocess.run(
            [nvcc, "-cubin", "-O3", f"-gencode=arch=compute_{arch},code=sm_{arch}", str(GATE_SOURCE), "-o", str(made)],
            check=True, capture_output=True,
        )
        made.chmod(0o644)
        made.replace(target)
    return target


def _place(hardware: HardwareName, cache_dir: Path) -> Path:
    key = hashlib.sha256(GATE_SOURCE.read_bytes()).hexdigest()[:16]
    return cache_dir / "gate" / f"{hardware.arch}-{key}.cubin"

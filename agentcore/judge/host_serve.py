"""The native loop in which CPU runners serve calls (runner/serve.c), compiled once per host and kept in the cache.

It is the judge's own code: compiled outside any sandbox, like the device code of gate.cu.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.judge.session import RUNNER_DIR

SOURCE = RUNNER_DIR / "serve.c"
_FLAGS = ("-x", "c", "-O2", "-std=gnu11", "-shared", "-fPIC", "-Wl,-z,defs,-z,noexecstack")


def serve_library(cache_dir: Path) -> Path | None:
    """The shared object, or None on a host without g++, where no compiled kernel can be judged either."""
    try:
        compiler = find_tool("g++")
    except ToolMissing:
        return None
    key = hashlib.sha256(SOURCE.read_bytes() + repr((str(compiler), _FLAGS)).encode()).hexdigest()[:16]
    directory = cache_dir.absolute() / "serve"
    target = directory / f"serve-{key}.so"
    if target.is_file():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)  # the runner's user maps it
    temporary = directory / f".{target.name}.{os.getpid()}"
    subprocess.run([compiler, *_FLAGS, str(SOURCE), "-o", str(temporary)], check=True, capture_output=True, timeout=120)
    temporary.chmod(0o755)
    temporary.replace(target)
    return target

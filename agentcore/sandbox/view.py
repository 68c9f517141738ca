"""What every sandbox shows of the host: programs, libraries, Python and the CUDA toolkit, and nothing about its users.

Not for mounting: bubblewrap and the plain-namespace jail both take this list.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NODES = ("null", "zero", "full", "random", "urandom")
"""The device nodes every program has."""
_SYSTEM = ("/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/module")
_TREES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class HostView:
    """Directories and files to show read-only at their own place, and symbolic links to make."""

    paths: tuple[Path, ...]
    links: tuple[tuple[str, Path], ...]


@cache
def host_view(python: bool) -> HostView:
    """The read-only view of this host, with the prefixes of the running Python if asked."""
    paths: list[Path] = []
    links: list[tuple[str, Path]] = []
    for tree in map(Path, _TREES):
        if tree.is_symlink():
            links.append((str(tree.readlink()), tree))
        elif tree.is_dir():
            paths.append(tree)
    paths += [path for path in map(Path, _FILES) if path.exists()]
    extra: list[Path] = []
    if python:
        extra += python_prefixes()
    toolkit = cuda_toolkit()
    if toolkit is not None:
        extra += [toolkit, toolkit.resolve()]
    for path in extra:
        if path.is_dir() and path != Path("/") and not any(path.is_relative_to(seen) for seen in paths):
            paths.append(path)
    return HostView(tuple(paths), tuple(links))


def system_trees() -> list[Path]:
    """What the CUDA driver looks its devices up in; not /sys/fs, /sys/kernel and others that it has no business in."""
    return [tree for tree in map(Path, _SYSTEM) if tree.is_dir()]


def python_prefixes() -> tuple[Path, ...]:
    """Where the running Python lives; a venv's interpreter is a link into its base prefix, maybe in a home."""
    return Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent


def cuda_toolkit() -> Path | None:
    """The CUDA toolkit directory: CUDA_HOME, CUDA_PATH or /usr/local/cuda, whichever first holds an nvcc."""
    for candidate in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if candidate and (Path(candidate) / "bin" / "nvcc").exists():
            return Path(candidate)
    return None


def environment(extra: Mapping[str, str] | None, home: str = "/tmp") -> dict[str, str]:  # noqa: S108 (private /tmp)
    """The whole environment of a sandboxed program: a fixed base and what the caller adds, nothing inherited."""
    base = {
        "PATH": _PATH,
        "HOME": home,
        "TMPDIR": home,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    base.update(extra or {})
    return base


def missing(paths: Iterable[Path]) -> list[Path]:
    """Those of the paths that do not exist."""
    return [path for path in paths if not path.exists()]

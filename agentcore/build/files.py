"""What goes into a build and comes out of it, as files: trees that the sandbox can read, artefacts taken with care.

Not for deciding what is in them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

MAX_ARTIFACT_BYTES = 64 << 20


def write_tree(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files readable to the sandbox's user, whatever the umask and the modes they came with."""
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    for name, content in files.items():
        path = root / name
        for parent in reversed(path.relative_to(root).parents):
            directory = root / parent
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        path.write_bytes(content)
        path.chmod(0o644)


def empty_file(path: Path) -> Path:
    """A file for a sandboxed compiler to write. Given the directory instead, it could fill the disk with others."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    return path


def read_artifact(path: Path) -> tuple[bytes | None, str]:
    """The shared object a sandboxed compiler left at ``path``, or None and the reason it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return None, f"the compiler left no shared object ({error.strerror})"
    with os.fdopen(fd, "rb") as stream:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None, "the compiler left something that is not a file"
        if status.st_size > MAX_ARTIFACT_BYTES:
            return None, f"the shared object has {status.st_size} bytes; at most {MAX_ARTIFACT_BYTES} are taken"
        content = stream.read(MAX_ARTIFACT_BYTES + 1)
    if not content:
        return None, "the compiler left no shared object"
    if not content.startswith(b"\x7fELF") or len(content) > MAX_ARTIFACT_BYTES:
        return None, "the compiler left something that is not a shared object"
    return content, ""

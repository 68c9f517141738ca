"""Reading a kernel's source tree: regular files only, bounded in number and size.

Not for judging what is in them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from agentcore.vocabulary import Language

MAX_FILES = 64
MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 4 << 20
MAX_DEPTH = 8
_GENERATED_HEADER = "problem.h"
_PRECOMPILED = (".gch", ".pch")
"""A file of such a name, or any file in a directory of one, compilers read in the place of the header: the kernel would
not be built from its source."""


class SourceError(ValueError):
    """The tree cannot be built from; the message names the file and the rule."""


def read_source(directory: Path, language: Language) -> dict[str, bytes]:
    """Every file of a kernel by its path relative to ``directory``, in sorted order.

    Raises SourceError as :func:`read_tree` does, and if the language's own source file
    (``kernel.cu``, ``kernel.cpp``, ``kernel.py``) is missing.
    """
    files = read_tree(directory)
    if language.source_name not in files:
        present = ", ".join(sorted(files)) or "nothing"
        raise SourceError(
            f"{language.source_name} is missing: a {language} kernel starts there (found: {present[:500]})"
        )
    return files


def read_tree(directory: Path) -> dict[str, bytes]:
    """Every file under ``directory`` by its path relative to it, in sorted order.

    Raises SourceError for a link or special file, for a directory in the place of the generated ``problem.h``, for a
    precompiled header, and for a tree that is too large.
    """
    files: dict[str, bytes] = {}
    total = 0
    pending = [PurePosixPath()]
    while pending:
        place = pending.pop()
        for entry in sorted(os.scandir(directory / place), key=lambda found: found.name):
            relative = place / entry.name
            if relative.suffix in _PRECOMPILED:
                raise SourceError(f"{relative}: a precompiled header; a kernel is built from its source")
            if entry.is_dir(follow_symlinks=False):
                if entry.name == _GENERATED_HEADER:
                    raise SourceError(f"{relative}/: {_GENERATED_HEADER} is the generated header; rename the directory")
                if len(relative.parts) >= MAX_DEPTH:
                    raise SourceError(f"{relative}: more than {MAX_DEPTH} directories deep")
                if entry.name != "__pycache__":
                    pending.append(relative)
                continue
            content = _read(directory / relative, relative)
            total += len(content)
            files[str(relative)] = content
            if len(files) > MAX_FILES:
                raise SourceError(f"more than {MAX_FILES} files; a kernel is one source and a few headers")
            if total > MAX_TOTAL_BYTES:
                raise SourceError(f"more than {MAX_TOTAL_BYTES >> 20} MiB of source")
    return dict(sorted(files.items()))


def _read(path: Path, relative: PurePosixPath) -> bytes:
    try:
        # Not blocking, so that a pipe put in a file's place cannot hold the build.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SourceError(f"{relative}: not a regular file ({error.strerror})") from None
    with os.fdopen(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SourceError(f"{relative}: not a regular file")
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise SourceError(f"{relative}: larger than {MAX_FILE_BYTES >> 20} MiB")
    return content

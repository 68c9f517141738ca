"""Which paths and files a kernel may consist of. One rule for pushing, publishing and solution.json; pure text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

MAX_FILES = 64
MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 4 << 20
MAX_PATH_BYTES = 400
MAX_DEPTH = 8
FILE_MODE = "100644"
# Written beside a published kernel, and generated beside a built one.
RECORD_NAMES = ("result.json", "solution.json")
GENERATED_HEADER = "problem.h"
SUFFIXES = frozenset(
    ".c .cc .cpp .cu .cuh .h .hpp .inc .inl .json .md .ptx .py .toml .txt".split()  # noqa: SIM905
)
_UNPORTABLE = re.compile(r'[\\:*?"<>|]')
_FORBIDDEN_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "an invisible formatting character",
    "Cs": "an unpaired surrogate",
    "Co": "a private-use character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def shown(path: str) -> str:
    """A path fit for a terminal: quoted, hostile characters escaped, bounded."""
    return ascii(path if len(path) <= 120 else path[:117] + "...")


def path_fault(path: str, suffixes: frozenset[str] | None = SUFFIXES) -> str | None:
    """What is wrong with a path inside a kernel directory, with what to do; None if nothing is.

    ``suffixes`` are the accepted kinds of file, None for any.
    """
    for character in path:
        if kind := _FORBIDDEN_CATEGORIES.get(unicodedata.category(character)):
            return f"its name holds {kind} (U+{ord(character):04X}); rename the file"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"its path is longer than {MAX_PATH_BYTES} bytes; shorten it"
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        return f"it lies more than {MAX_DEPTH} directories deep; move it up"
    for part in parts:
        if part in ("", ".", ".."):
            return "its path is not a plain path; name each directory and the file"
        folded = unicodedata.normalize("NFKC", part).casefold()
        if folded.startswith((".git", "git~")):
            return "names starting with .git have a meaning for git and are not accepted; remove it (git rm)"
        if part != part.strip() or part.endswith(".") or part.startswith("-"):
            return "a name may not start with '-' nor start or end with a space, nor end with '.'; rename it"
        if match := _UNPORTABLE.search(part):
            return f"its name holds {match.group()!r}, which some systems cannot store; rename it"
    if suffixes is not None and PurePosixPath(path).suffix not in suffixes:
        return f"only these kinds of file belong to a kernel: {' '.join(sorted(suffixes))}; remove or rename it"
    return None


def kernel_path_fault(path: str) -> str | None:
    """As `path_fault`, and with the names that a kernel directory may not use because others write them."""
    parts = [unicodedata.normalize("NFKC", part).casefold() for part in path.split("/")]
    if parts[0] in RECORD_NAMES:
        return f"the name {parts[0]} is taken by the record of the evaluation; rename it"
    if GENERATED_HEADER in parts[:-1]:
        return f"{GENERATED_HEADER} is the generated header and cannot be a directory; rename the directory"
    return path_fault(path)


def clashes(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of paths, files or directories, that some file systems cannot tell apart."""
    seen: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for path in paths:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            folded = unicodedata.normalize("NFKC", name).casefold()
            other = seen.setdefault(folded, name)
            if other != name:
                found.append((other, name))
                break
    return found

"""The parameters a kernel declares for a tuner: parse the declarations, put other values in their place.

A declaration is one line of the kernel's source, the value first and the values worth trying after ``tune:``::

    #define ROWS_PER_BLOCK 4  // tune: 1 2 4 8          C, C++, CUDA
    ROWS_PER_BLOCK = 4  # tune: 1 2 4 8                 Python

Not for choosing values (``search.py``), nor for anything that runs the source: text in, text out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

MAX_TUNABLES = 32
MAX_CHOICES = 64
MAX_VALUE_LENGTH = 64

_C_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inl"})
_MARK = {"c": re.compile(r"//\s*tune:"), "python": re.compile(r"#\s*tune:")}
_DECLARATION = {
    "c": re.compile(
        r"(?P<before>\s*#\s*define\s+(?P<name>[A-Za-z_]\w*)\s+)(?P<value>\S+)(?P<after>\s*//\s*tune:(?P<choices>.*))"
    ),
    "python": re.compile(
        r"(?P<before>(?P<name>[A-Za-z_]\w*)\s*=\s*)(?P<value>[^\s#]+)(?P<after>\s*#\s*tune:(?P<choices>.*))"
    ),
}
_SHAPE = {"c": "#define NAME VALUE  // tune: V1 V2 …", "python": "NAME = VALUE  # tune: V1 V2 …"}
_VALUE = re.compile(r"[A-Za-z0-9_.+-]+\Z")


class TunableError(ValueError):
    """A declaration is malformed. The message names the file, the line and what to write instead."""


@dataclass(frozen=True, slots=True)
class Tunable:
    """One declared parameter. ``value`` is always among ``choices``; both are source text, not numbers."""

    name: str
    value: str
    choices: tuple[str, ...]
    file: str
    line: int


Configuration = tuple[tuple[str, str], ...]
"""Chosen values as (name, value) pairs in the order of the names: hashable, comparable, printable."""


def configuration(values: Mapping[str, str]) -> Configuration:
    """The canonical form of a choice of values."""
    return tuple(sorted(values.items()))


def parse(text: str, file: str) -> list[Tunable]:
    """The declarations of one source file, in order. ``file`` is its name, which also says its comment syntax.

    Raises TunableError for a line that has the ``tune:`` mark but is not a declaration, a value that is not among
    its choices, a repeated choice or name, or too many of either.
    """
    found: list[Tunable] = []
    for number, match in _declarations(text, file):
        where = f"{file} line {number}"
        name, value, choices = match["name"], match["value"], tuple(match["choices"].split())
        if not choices:
            raise TunableError(f"{where}: {name} lists no values; write them after 'tune:', separated by spaces")
        if len(choices) > MAX_CHOICES:
            raise TunableError(f"{where}: {name} lists {len(choices)} values; at most {MAX_CHOICES} are tried")
        for choice in (value, *choices):
            if len(choice) > MAX_VALUE_LENGTH or not _VALUE.match(choice):
                raise TunableError(
                    f"{where}: {name} has the value {choice[:MAX_VALUE_LENGTH]!r}; "
                    "use numbers or identifiers (letters, digits, '_', '.', '+', '-')"
                )
        if len(set(choices)) != len(choices):
            raise TunableError(f"{where}: {name} lists a value twice")
        if value not in choices:
            raise TunableError(f"{where}: {name} is {value}, which is not among its values: {' '.join(choices)}")
        if earlier := next((t for t in found if t.name == name), None):
            raise TunableError(f"{where}: {name} is already declared on line {earlier.line}")
        found.append(Tunable(name, value, choices, file, number))
    if len(found) > MAX_TUNABLES:
        raise TunableError(f"{file}: {len(found)} parameters are declared; at most {MAX_TUNABLES} are searched")
    return found


def replace(text: str, file: str, values: Mapping[str, str]) -> str:
    """``text`` with the declared parameters named in ``values`` set to those values; nothing else changes.

    Names that this file does not declare are left alone (they may belong to another file of the kernel).
    Raises TunableError as ``parse`` does, or when a value is not among the declared ones.
    """
    declared = {tunable.line: tunable for tunable in parse(text, file)}
    lines = text.splitlines(keepends=True)
    for number, tunable in declared.items():
        chosen = values.get(tunable.name, tunable.value)
        if chosen not in tunable.choices:
            raise TunableError(
                f"{file} line {number}: {tunable.name} cannot be {chosen!r}; its values: {' '.join(tunable.choices)}"
            )
        match = _DECLARATION[_syntax(file) or "c"].match(lines[number - 1])
        assert match is not None  # parse() has just matched this very line
        start, end = match.span("value")
        lines[number - 1] = lines[number - 1][:start] + chosen + lines[number - 1][end:]
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class TunableKernel:
    """A kernel's files with everything its declarations say."""

    files: Mapping[str, bytes]
    tunables: tuple[Tunable, ...]

    @classmethod
    def read(cls, files: Mapping[str, bytes]) -> TunableKernel:
        """Parse every source file of a kernel (path within the kernel's directory → content).

        Raises TunableError as ``parse`` does, or when two files declare one name.
        """
        tunables: list[Tunable] = []
        for file, content in sorted(files.items()):
            if _syntax(file) is None:
                continue
            for tunable in parse(content.decode("utf-8", "replace"), file):
                if earlier := next((t for t in tunables if t.name == tunable.name), None):
                    raise TunableError(
                        f"{file} line {tunable.line}: {tunable.name} is already declared in {earlier.file} "
                        f"line {earlier.line}"
                    )
                tunables.append(tunable)
        return cls(dict(files), tuple(tunables))

    @property
    def current(self) -> Configuration:
        """The values the source has now."""
        return configuration({tunable.name: tunable.value for tunable in self.tunables})

    @property
    def size(self) -> int:
        """How many configurations the declarations span."""
        total = 1
        for tunable in self.tunables:
            total *= len(tunable.choices)
        return total

    @property
    def skeleton(self) -> str:
        """A digest of everything but the chosen values: two kernels with one skeleton differ only in them."""
        blank = self.with_values({tunable.name: tunable.choices[0] for tunable in self.tunables})
        digest = hashlib.sha256()
        for file, content in sorted(blank.items()):
            digest.update(f"{file}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def with_values(self, values: Mapping[str, str]) -> dict[str, bytes]:
        """The kernel's files with those values in place. Raises TunableError for a value that is not declared."""
        known = {tunable.name for tunable in self.tunables}
        for name in values:
            if name not in known:
                raise TunableError(f"{name} is not declared; declared: {', '.join(sorted(known)) or 'nothing'}")
        changed = dict(self.files)
        for file in {tunable.file for tunable in self.tunables}:
            text = self.files[file].decode("utf-8", "surrogateescape")
            changed[file] = replace(text, file, values).encode("utf-8", "surrogateescape")
        return changed


def _syntax(file: str) -> str | None:
    suffix = PurePosixPath(file).suffix.lower()
    if suffix == ".py":
        return "python"
    return "c" if suffix in _C_SUFFIXES else None


def _declarations(text: str, file: str) -> Iterator[tuple[int, re.Match[str]]]:
    syntax = _syntax(file)
    if syntax is None:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not _MARK[syntax].search(line):
            continue
        match = _DECLARATION[syntax].match(line)
        if match is None:
            raise TunableError(f"{file} line {number}: a line with 'tune:' must read `{_SHAPE[syntax]}`")
        yield number, match

"""A unified diff, parsed and made safe to show, line by line or side by side.

Not for making diffs: that is agentcore.gitstore. Everything in a diff is an agent's text, so every count is bounded
and every line is revealed (see text.py) and escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from portal.pages import text

MAX_LINES = 2_500
LINE_CHARACTERS = 300
MARKED_TOKENS = 60
"""Longer lines are shown without marked words: comparing two lines costs the product of their tokens, or more."""
MARKING_BUDGET = 600_000
"""Token products spent on marking in one diff; what comes after is shown without marks. Some tenths of a second."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(slots=True)
class Line:
    """``sign`` is ``+``, ``-`` or a space; ``html`` is the text, escaped, with the changed words marked."""

    sign: str
    old: int | None
    new: int | None
    text: str
    html: SafeString = field(default=SafeString(""))

    @property
    def css(self) -> str:
        return {"+": "added", "-": "removed"}.get(self.sign, "kept")


@dataclass(slots=True)
class Hunk:
    header: str
    lines: list[Line] = field(default_factory=list)

    def pairs(self) -> Iterator[tuple[Line | None, Line | None]]:
        """Old and new side by side; a line without a counterpart faces None."""
        removed: list[Line] = []
        added: list[Line] = []
        for line in [*self.lines, None]:
            if line is not None and line.sign == "-" and not added:
                removed.append(line)
                continue
            if line is not None and line.sign == "+":
                added.append(line)
                continue
            for position in range(max(len(removed), len(added))):
                yield (removed[position] if position < len(removed) else None,
                       added[position] if position < len(added) else None)
            removed, added = [], []
            if line is not None and line.sign == "-":
                removed.append(line)
            elif line is not None:
                yield line, line


@dataclass(slots=True)
class FileDiff:
    path: str
    note: str = ""
    hunks: list[Hunk] = field(default_factory=list)
    added: int = 0
    removed: int = 0


@dataclass(slots=True)
class Diff:
    """``trouble`` says why there is nothing to show when that is not because nothing changed."""

    files: list[FileDiff] = field(default_factory=list)
    truncated: bool = False
    trouble: str = ""

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)


def _name(header: str) -> str:
    """The path in a ``---``/``+++`` line, without git's a/ or b/ and quotes."""
    name = header.split("\t")[0].strip()
    if name.startswith('"') and name.endswith('"'):
        name = name[1:-1]
    return name[2:] if name[:2] in ("a/", "b/") else name


def parse(unified: str, *, strip: str = "", max_lines: int = MAX_LINES) -> Diff:
    """Parse ``git diff`` output. ``strip`` is a directory prefix to leave out of the shown paths."""
    diff = Diff()
    file: FileDiff | None = None
    hunk: Hunk | None = None
    old = new = shown = 0
    source = unified.split("\n")
    if source and not source[-1]:
        source.pop()
    for raw in source:
        if raw.startswith("diff --git "):
            file, hunk = FileDiff(_short(_name(raw.rpartition(" ")[2]), strip)), None
            diff.files.append(file)
        elif hunk is None and raw.startswith(("--- ", "+++ ")):
            name = _name(raw[4:])
            if file is None or (raw.startswith("--- ") and file.hunks):
                file = FileDiff("")
                diff.files.append(file)
            if name != "/dev/null":
                file.path = _short(name, strip)
            elif file is not None:
                file.note = "new file" if raw.startswith("---") else "deleted"
        elif found := _HUNK.match(raw):
            if file is None:
                file = FileDiff("")
                diff.files.append(file)
            old, new = int(found[1]), int(found[2])
            hunk = Hunk(text.label(found[3], 120))
            file.hunks.append(hunk)
        elif file is not None and raw.startswith(("Binary files", "GIT binary patch")):
            file.note = "binary file changed"
        elif file is not None and hunk is None and raw.startswith(("rename from", "rename to", "similarity")):
            file.note = "renamed"
        elif hunk is not None and file is not None and raw[:1] in ("+", "-", " "):
            if shown >= max_lines:
                diff.truncated = True
                break
            shown += 1
            sign = raw[:1]
            line = Line(sign, old if sign != "+" else None, new if sign != "-" else None,
                        text.cut_line(text.reveal(raw[1:]).replace("\n", "⏎"), LINE_CHARACTERS))
            line.html = mark_safe(escape(line.text))  # noqa: S308 - escaped here
            old, new = old + (sign != "+"), new + (sign != "-")
            file.added += sign == "+"
            file.removed += sign == "-"
            hunk.lines.append(line)
        elif raw.startswith("\\") and hunk is not None:
            continue  # "No newline at end of file"
        elif raw.startswith("…"):
            diff.truncated = True
    budget = MARKING_BUDGET
    for parsed in diff.files:
        for each in parsed.hunks:
            budget = _mark_words(each, budget)
    return diff


def _short(path: str, strip: str) -> str:
    path = text.label(path, 200)
    return path.removeprefix(strip.rstrip("/") + "/") if strip else path


def _mark_words(hunk: Hunk, budget: int) -> int:
    """Mark the words that differ in lines that replaced one another, where most of the line stayed.

    Spends at most ``budget`` token products; returns what is left of it.
    """
    for left, right in hunk.pairs():
        if left is None or right is None or left is right or left.sign != "-" or right.sign != "+":
            continue
        old, new = _WORDS.findall(left.text), _WORDS.findall(right.text)
        if max(len(old), len(new)) > MARKED_TOKENS:
            continue
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        if matcher.quick_ratio() < 0.5:  # an upper bound of the ratio, in linear time
            continue
        budget -= len(old) * len(new)
        if budget < 0:
            return 0
        if matcher.ratio() < 0.5:
            continue
        left_parts, right_parts = [], []
        for kind, a, b, c, d in matcher.get_opcodes():
            before, after = "".join(old[a:b]), "".join(new[c:d])
            if kind == "equal":
                left_parts.append(escape(before))
                right_parts.append(escape(after))
            else:
                if before:
                    left_parts.append(format_html("<del>{}</del>", before))
                if after:
                    right_parts.append(format_html("<ins>{}</ins>", after))
        left.html = mark_safe("".join(left_parts))  # noqa: S308 - every part escaped above
        right.html = mark_safe("".join(right_parts))  # noqa: S308
    return budget

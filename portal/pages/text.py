"""Makes text written by strangers fit to show: bounded, without terminal codes, nothing invisible.

Not for HTML escaping: templates and ``format_html`` do that. What leaves this module is still plain text.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

LOG_CHARACTERS = 60_000
LOG_LINES = 1_200
LINE_CHARACTERS = 600
LABEL_CHARACTERS = 300

# CSI, OSC (ended by BEL or ST), two-character escapes: what a terminal would have swallowed.
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[PX^_][^\x1b]{0,4096}(?:\x1b\\)?|[@-Z\\-_])?"
)
_NEWLINES = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Controls, bidirectional overrides, zero-width characters, tags and surrogates: they hide or reorder what a
# reviewer reads, so they are shown by their number instead.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """Text ready to be escaped and shown, and how much of the original it is."""

    text: str
    truncated: bool
    characters: int
    lines: int

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def notice(self) -> str:
        """What the reader is not seeing; empty when everything is shown."""
        if not self.truncated:
            return ""
        return f"cut: the original has {self.characters:,} characters in {self.lines:,} lines"


def reveal(text: str) -> str:
    """Drop terminal codes and write every invisible or reordering character as ``⟨U+202E⟩``."""
    text = _ANSI.sub("", _NEWLINES.sub("\n", text))
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def cut_line(line: str, limit: int = LINE_CHARACTERS) -> str:
    """The line, or its first ``limit`` characters and how many follow."""
    if len(line) <= limit:
        return line
    return f"{line[:limit]} … {len(line) - limit:,} more characters"


def block(text: object, *, characters: int = LOG_CHARACTERS, lines: int = LOG_LINES, keep: str = "start") -> Shown:
    """Bound and reveal a log or message. ``keep`` is ``start``, or ``end`` for logs whose last lines matter."""
    original = text if isinstance(text, str) else str(text or "")
    total_lines = original.count("\n") + (1 if original else 0)
    part = original[-characters:] if keep == "end" else original[:characters]
    shown = reveal(part).split("\n")
    truncated = len(part) < len(original) or len(shown) > lines
    shown = shown[-lines:] if keep == "end" else shown[:lines]
    truncated = truncated or any(len(line) > LINE_CHARACTERS for line in shown)
    return Shown("\n".join(cut_line(line) for line in shown).strip("\n"), truncated, len(original), total_lines)


def label(text: object, limit: int = LABEL_CHARACTERS) -> str:
    """One line for a heading, a link or a cell: revealed, whitespace collapsed, at most ``limit`` characters."""
    original = str(text or "")
    line = " ".join(reveal(original[: limit * 4]).split())
    stacked = 0
    kept = []
    for character in line:
        # A pile of combining marks grows over the neighbouring rows.
        stacked = stacked + 1 if unicodedata.combining(character) else 0
        if stacked <= 2:
            kept.append(character)
    line = "".join(kept)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def decoded(content: bytes, *, limit: int) -> Shown | None:
    """A file as text, or None when it is binary (holds NUL, or is not UTF-8 for the most part)."""
    head = content[:limit]
    if b"\0" in head:
        return None
    text = head.decode("utf-8", errors="replace")
    if text.count("�") > max(8, len(text) // 50):
        return None
    return Shown(reveal(text), len(content) > limit, len(content), content.count(b"\n") + 1)


def lines_as_spans(lines: list[SafeString], anchor: str = "") -> SafeString:
    """Each line in its own span, for line numbers by CSS counter; ``anchor`` makes ids of it and the line's number."""
    if anchor:
        return format_html_join(
            "", '<span class="line" id="{}-{}">{}\n</span>',
            ((anchor, number, line) for number, line in enumerate(lines, 1)),
        )
    return format_html_join("", '<span class="line">{}\n</span>', ((line,) for line in lines))

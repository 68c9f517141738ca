"""Making a compiler's output safe to keep and to show in a terminal: text, without control characters.

Not for escaping HTML; whoever shows a log does that.
"""

from __future__ import annotations

import re

LOG_BYTES = 64 * 1024
"""What is kept of a log: its head and its tail."""

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # operating-system commands (titles, links, clipboard)
    r"|\x1b\[[0-?]*[ -/]*[@-~]?"  # colours and cursor movement
    r"|\x1b[PX^_][^\x1b]{0,4096}(?:\x1b\\)?"  # device control strings
    r"|\x1b[ -/]*[0-~]?"
)
# Control characters but tab and newline, and the marks that reorder text around them.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def clean_log(raw: bytes) -> str:
    """The text of a log: invalid UTF-8 replaced, line ends made ``\\n``, escape sequences and controls removed."""
    return clean_text(raw.decode("utf-8", "replace")).strip("\n")


def clean_text(text: str) -> str:
    """``text`` with line ends made ``\n`` and without what a terminal would obey: escape sequences, controls."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def bounded_log(text: str) -> tuple[str, bool]:
    """The head and tail of a log, in LOG_BYTES characters."""
    if len(text) <= LOG_BYTES:
        return text, False
    half = LOG_BYTES // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}", True

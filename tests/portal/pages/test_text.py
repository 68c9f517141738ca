"""Strangers' text: what a terminal or a browser would have hidden is gone or visible, and nothing is unbounded."""

from __future__ import annotations

import pytest

from portal.pages import text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1b[2K\x1b[1Gb", "ab"),
        ("\x1b", ""),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("tab\tkept", "tab\tkept"),
    ],
)
def test_terminal_codes_are_dropped(raw: str, shown: str) -> None:
    assert text.reveal(raw) == shown


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u2066", "\u200b", "\ufeff", "\x00", "\x08", "\u00ad", "\U000e0041", "\ud800"]
)
def test_invisible_and_reordering_characters_are_shown_by_number(hidden: str) -> None:
    assert text.reveal(f"a{hidden}b") == f"a⟨U+{ord(hidden):04X}⟩b"


def test_a_megabyte_log_is_cut_and_says_so() -> None:
    shown = text.block("x" * 10 + "\n" + "line\n" * 300_000)
    assert len(shown.text) <= text.LOG_CHARACTERS
    assert shown.text.count("\n") < text.LOG_LINES
    assert shown.truncated
    assert "1,500,011 characters" in shown.notice


def test_a_log_may_keep_its_end() -> None:
    shown = text.block("\n".join(f"line {n}" for n in range(5_000)), keep="end", lines=3)
    assert shown.text == "line 4997\nline 4998\nline 4999"


def test_one_endless_line_is_cut() -> None:
    shown = text.block("y" * 50_000)
    assert len(shown.text) < 2 * text.LINE_CHARACTERS
    assert shown.truncated


def test_an_unterminated_terminal_code_does_not_swallow_the_log() -> None:
    assert "the end" in text.reveal("\x1b]0;" + "t" * 5_000 + "\nthe end")


def test_a_label_is_one_bounded_line_without_piled_up_marks() -> None:
    label = text.label("a\nb\t" + "e" + "\u0301" * 50 + "z" * 1_000, 40)
    assert "\n" not in label
    assert len(label) <= 40
    assert label.count("\u0301") == 2


def test_binary_content_is_recognised() -> None:
    assert text.decoded(b"\x7fELF\0\0", limit=100) is None
    assert text.decoded(bytes(range(128, 256)) * 20, limit=10_000) is None
    shown = text.decoded("int µ;\n".encode(), limit=100)
    assert shown is not None
    assert shown.text == "int µ;\n"

"""Unified diffs from git, parsed for showing: numbers, sides, words, bounds."""

from __future__ import annotations

import random
import time

import pytest

from portal.pages import diffs

PATCH = """diff --git a/kernels/p/cpp/kernel.cpp b/kernels/p/cpp/kernel.cpp
index 1111111..2222222 100644
--- a/kernels/p/cpp/kernel.cpp
+++ b/kernels/p/cpp/kernel.cpp
@@ -6,4 +6,5 @@ static int f()
 same
-#define UNROLL 4
+#define UNROLL 8
+extra
 end
diff --git a/kernels/p/cpp/new.h b/kernels/p/cpp/new.h
new file mode 100644
--- /dev/null
+++ b/kernels/p/cpp/new.h
@@ -0,0 +1,2 @@
+--- a/looks/like/a/header
++++ b/so/does/this
\\ No newline at end of file
"""


def test_lines_carry_the_numbers_of_both_sides() -> None:
    diff = diffs.parse(PATCH, strip="kernels/p/cpp")
    lines = diff.files[0].hunks[0].lines
    assert [(line.sign, line.old, line.new) for line in lines] == [
        (" ", 6, 6), ("-", 7, None), ("+", None, 7), ("+", None, 8), (" ", 8, 9),
    ]
    assert [file.path for file in diff.files] == ["kernel.cpp", "new.h"]
    assert (diff.added, diff.removed) == (4, 1)


def test_content_that_looks_like_a_header_stays_content() -> None:
    new = diffs.parse(PATCH).files[1]
    assert new.note == "new file"
    assert [line.text for line in new.hunks[0].lines] == ["--- a/looks/like/a/header", "+++ b/so/does/this"]


def test_replaced_lines_face_each_other_and_the_changed_words_are_marked() -> None:
    pairs = list(diffs.parse(PATCH).files[0].hunks[0].pairs())
    assert [(left and left.text, right and right.text) for left, right in pairs] == [
        ("same", "same"), ("#define UNROLL 4", "#define UNROLL 8"), (None, "extra"), ("end", "end"),
    ]
    assert pairs[1][0].html == "#define UNROLL <del>4</del>"
    assert pairs[1][1].html == "#define UNROLL <ins>8</ins>"


def test_hostile_lines_are_escaped_revealed_and_cut() -> None:
    added = ["<script>alert(1)</script>", "if (a\u202e) {\x1b[31m", "z" * 9_000]
    patch = "--- a/x\n+++ b/x\n@@ -1 +1,3 @@\n" + "".join(f"+{line}\n" for line in added)
    lines = diffs.parse(patch).files[0].hunks[0].lines
    assert lines[0].html == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert lines[1].text == "if (a⟨U+202E⟩) {"
    assert len(lines[2].html) < 400


def test_a_huge_diff_is_bounded_and_says_so() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -0,0 +1,90000 @@\n" + "+line\n" * 90_000
    diff = diffs.parse(patch)
    assert sum(len(hunk.lines) for file in diff.files for hunk in file.hunks) == diffs.MAX_LINES
    assert diff.truncated


def test_a_binary_file_is_named_not_shown() -> None:
    diff = diffs.parse("diff --git a/x.bin b/x.bin\nBinary files a/x.bin and b/x.bin differ\n")
    assert diff.files[0].note == "binary file changed"
    assert not diff.files[0].hunks


def test_nonsense_gives_an_empty_diff() -> None:
    assert diffs.parse("not a diff\n@@ nonsense @@\n+x\n").files == []


def replaced(count: int, old, new) -> str:
    """A patch that replaces ``count`` lines; ``old`` and ``new`` make each of them."""
    lines = [f"-{old()}\n" for _ in range(count)] + [f"+{new()}\n" for _ in range(count)]
    return f"--- a/x\n+++ b/x\n@@ -1,{count} +1,{count} @@\n{''.join(lines)}"


@pytest.mark.parametrize("words", [24, 30, 49])
def test_a_diff_made_to_be_slow_is_not(words: int) -> None:
    draw = random.Random(words)

    def line() -> str:
        return " ".join(draw.choice("ab") for _ in range(words))

    hostile = replaced(1_200, line, line)
    began = time.process_time()
    diff = diffs.parse(hostile)
    assert time.process_time() - began < 10  # such a page took half a minute once
    assert (diff.added, diff.removed) == (1_200, 1_200)


def test_lines_beyond_the_budget_are_shown_without_marks() -> None:
    patch = replaced(1_200, lambda: "a " * 25 + "x", lambda: "a " * 25 + "y")
    lines = diffs.parse(patch).files[0].hunks[0].lines
    added = [line for line in lines if line.sign == "+"]
    assert "<ins>y</ins>" in added[0].html
    assert added[-1].html == added[-1].text == "a " * 25 + "y"


def test_lines_with_little_in_common_and_very_long_ones_are_not_marked() -> None:
    for old, new in (("alpha beta", "x=1"), ("a " * 40 + "x", "a " * 40 + "y")):
        lines = diffs.parse(replaced(1, lambda old=old: old, lambda new=new: new)).files[0].hunks[0].lines
        assert [line.html for line in lines] == [old, new]

"""Declarations of tunable parameters: what parses, what is refused and where the message points."""

from __future__ import annotations

import pytest

from agentcore.agents.tunables import TunableError, TunableKernel, configuration, parse, replace

SOURCE = """\
#include "problem.h"
#define ROWS 4  // tune: 1 2 4 8
  # define  UNROLL  2// tune: 1 2
#define PLAIN 7
int f() { return ROWS * UNROLL; }
"""


def test_declarations_are_read_with_their_values_and_lines() -> None:
    rows, unroll = parse(SOURCE, "kernel.cpp")
    assert (rows.name, rows.value, rows.choices, rows.line) == ("ROWS", "4", ("1", "2", "4", "8"), 2)
    assert (unroll.name, unroll.value, unroll.choices, unroll.line) == ("UNROLL", "2", ("1", "2"), 3)


def test_replacing_changes_the_value_and_not_one_byte_more() -> None:
    assert replace(SOURCE, "kernel.cpp", {"ROWS": "8"}) == SOURCE.replace("ROWS 4 ", "ROWS 8 ")
    changed = replace(SOURCE, "kernel.cpp", {"UNROLL": "1", "ELSEWHERE": "3"})
    assert changed == SOURCE.replace("UNROLL  2/", "UNROLL  1/")


def test_line_endings_survive_replacement() -> None:
    text = "#define A 1 // tune: 1 2\r\nint x;\r\n"
    assert replace(text, "kernel.h", {"A": "2"}) == "#define A 2 // tune: 1 2\r\nint x;\r\n"


def test_python_kernels_declare_with_an_assignment() -> None:
    text = "BLOCK = 128  # tune: 64 128 256\n\ndef run(x, y):\n    pass\n"
    (block,) = parse(text, "kernel.py")
    assert block.choices == ("64", "128", "256")
    assert replace(text, "kernel.py", {"BLOCK": "64"}).startswith("BLOCK = 64  # tune")


def test_files_of_other_kinds_declare_nothing() -> None:
    assert parse("#define A 1 // tune: 1 2", "notes.md") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int a = 3; // tune: 1 2 3", "kernel.cpp line 2: a line with 'tune:' must read"),
        ("#define A 1 // tune:", "A lists no values"),
        ("#define A 3 // tune: 1 2", "A is 3, which is not among its values: 1 2"),
        ("#define A 1 // tune: 1 2 2", "A lists a value twice"),
        ("#define A 1 // tune: 1 $(reboot)", "use numbers or identifiers"),
        ("#define A (1) // tune: (1) 2", "use numbers or identifiers"),
        ("#define A 1 // tune: 1\n#define A 2 // tune: 2", "line 3: A is already declared on line 2"),
    ],
)
def test_a_malformed_declaration_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(TunableError, match=r"line [23]") as caught:
        parse("// a kernel\n" + text, "kernel.cpp")
    assert said in str(caught.value)


def test_a_value_that_is_not_declared_is_refused() -> None:
    with pytest.raises(TunableError, match="ROWS cannot be '3'"):
        replace(SOURCE, "kernel.cpp", {"ROWS": "3"})


def kernel(**files: str) -> TunableKernel:
    return TunableKernel.read({name.replace("_", "."): text.encode() for name, text in files.items()})


def test_a_kernel_collects_the_declarations_of_all_its_files() -> None:
    both = kernel(kernel_cpp=SOURCE, tile_h="#define TILE 16 // tune: 8 16\n")
    assert both.current == (("ROWS", "4"), ("TILE", "16"), ("UNROLL", "2"))
    assert both.size == 4 * 2 * 2
    changed = both.with_values({"TILE": "8", "ROWS": "1"})
    assert TunableKernel.read(changed).current == configuration({"ROWS": "1", "TILE": "8", "UNROLL": "2"})


def test_two_files_cannot_declare_one_name() -> None:
    with pytest.raises(TunableError, match=r"tile\.h line 1: ROWS is already declared in kernel\.cpp line 2"):
        kernel(kernel_cpp=SOURCE, tile_h="#define ROWS 1 // tune: 1 2\n")


def test_the_skeleton_forgets_the_chosen_values_and_nothing_else() -> None:
    base = kernel(kernel_cpp=SOURCE)
    assert kernel(kernel_cpp=SOURCE.replace("ROWS 4 ", "ROWS 8 ")).skeleton == base.skeleton
    assert kernel(kernel_cpp=SOURCE.replace("PLAIN 7", "PLAIN 8")).skeleton != base.skeleton
    assert kernel(kernel_cpp=SOURCE.replace("tune: 1 2 4 8", "tune: 1 2 4")).skeleton != base.skeleton


def test_bytes_that_are_not_utf8_come_through_untouched() -> None:
    raw = b"// \xff\xfe\n#define A 1 // tune: 1 2\n"
    changed = TunableKernel.read({"kernel.cpp": raw}).with_values({"A": "2"})
    assert changed["kernel.cpp"] == raw.replace(b"A 1", b"A 2")

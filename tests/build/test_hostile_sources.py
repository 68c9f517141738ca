"""What a source can try on the compiler: reading the host, taking its memory, time or disk, flooding its log."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from agentcore.build import compile as compile_module
from agentcore.build.log import LOG_BYTES, clean_log
from agentcore.build.recipe import recipe
from agentcore.sandbox import GIB, memory_mechanism
from agentcore.vocabulary import HardwareName, Language
from tests.build.kernels import KERNEL_CPP

ROOT = Path(compile_module.__file__).parents[2]


def limited(monkeypatch, **changes):
    """Tighten the limits of every recipe for one test."""

    def tightened(language, hardware):
        made = recipe(language, hardware)
        return dataclasses.replace(made, limits=dataclasses.replace(made.limits, **changes))

    monkeypatch.setattr(compile_module, "recipe", tightened)


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        '#include "/etc/shadow"',
        '#include "{checkout}/pyproject.toml"',
        '#include "../../../../../../../../etc/passwd"',
        '#include "../../secret.h"',
        '#include "{secret}"',
        'asm(".incbin \\"/etc/passwd\\"");',
        'asm(".incbin \\"{secret}\\"");',
        'asm(".include \\"{secret}\\"");',
    ],
)
def test_files_of_the_host_cannot_be_read_while_compiling(compiled, tmp_path, line):
    secret = tmp_path / "secret.h"
    secret.write_text("a_token_of_the_host\n")
    secret.chmod(0o644)
    line = line.replace("{secret}", str(secret)).replace("{checkout}", str(ROOT))
    built = compiled(line + "\n" + KERNEL_CPP)
    assert not built.report.ok
    assert any(words in built.report.log for words in ("No such file", "can't open", "file not found"))
    assert "a_token_of_the_host" not in built.report.log and "root:" not in built.report.log


def test_the_compilers_environment_holds_no_secrets(compiled, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    for line in ('#include "/proc/self/environ"', 'asm(".incbin \\"/proc/self/environ\\"");'):
        built = compiled(line + "\n" + KERNEL_CPP)
        assert "hunter2" not in built.report.log
        assert built.artifact is None or b"hunter2" not in built.artifact.read_bytes()


def test_a_compile_without_end_is_stopped(compiled, monkeypatch):
    limited(monkeypatch, wall_s=1.5)
    source = """
template <int N> struct T { using L = typename T<N * 2>::X; using R = typename T<N * 2 + 1>::X; using X = int; };
template <int A, int B> struct U { static constexpr int v = U<A - 1, B>::v + U<A - 1, B + (1 << A)>::v; };
template <int B> struct U<0, B> { static constexpr int v = B & 1; };
static_assert(U<28, 0>::v >= 0);
"""
    began = time.monotonic()
    built = compiled(source + KERNEL_CPP)
    assert time.monotonic() - began < 30  # without end it would be stopped after minutes
    assert built.timed_out and not built.report.ok
    assert built.report.log.startswith("the compiler was stopped after 2 s")


@pytest.mark.parametrize("limits", [{"address_bytes": GIB // 4}, {"memory_bytes": GIB // 4, "address_bytes": None}])
def test_memory_for_compiling_is_bounded(compiled, monkeypatch, limits):
    limited(monkeypatch, **limits)
    source = """
template <int A, int B> struct U { static constexpr int v = U<A - 1, B>::v + U<A - 1, B + (1 << A)>::v; };
template <int B> struct U<0, B> { static constexpr int v = B & 1; };
static_assert(U<22, 0>::v >= 0);
"""
    built = compiled(source + KERNEL_CPP)
    assert not built.report.ok and not built.timed_out
    assert "memory" in built.report.log.lower()
    if "memory_bytes" in limits:
        assert built.report.log.startswith("error: the compiler ran out of memory: ")
    assert built.report.memory_limit == memory_mechanism()[0]


def test_a_compiler_can_write_its_artefact_and_nothing_beside_it(compiled, monkeypatch):
    """A plugin or a response file that had the compiler write elsewhere would fill the host's disk."""
    actual = recipe(Language.CPP, HardwareName.CPU)
    flags = (*actual.flags, "-save-temps=obj", "-dumpdir", "../out/")
    monkeypatch.setattr(compile_module, "recipe", lambda *_: dataclasses.replace(actual, flags=flags))
    built = compiled(KERNEL_CPP)
    assert not built.report.ok
    assert any(words in built.report.log for words in ("Permission denied", "Read-only file system"))


def test_an_enormous_artefact_is_refused(compiled):
    built = compiled(KERNEL_CPP + "\n__attribute__((used)) char ballast[100 << 20] = {1};\n")
    assert not built.report.ok and built.artifact is None
    assert "bytes; at most" in built.report.log


def test_megabytes_of_messages_keep_their_head_and_tail(compiled):
    lines = "".join(f"#warning message number {number} {'x' * 200}\n" for number in range(3000))
    built = compiled(f"#warning the first\n{lines}#error the last\n")
    assert not built.report.ok
    assert built.report.log_truncated and len(built.report.log) < LOG_BYTES + 200
    assert "the first" in built.report.log and "the last" in built.report.log
    assert "left out" in built.report.log


def test_control_characters_in_messages_are_removed(compiled):
    built = compiled('#error \x1b[31mred\x1b[0m \x1b]0;title\x07 \x08\u202eturned\nint x = "\x1b[2J";\n')
    assert not built.report.ok
    assert "red" in built.report.log and "turned" in built.report.log
    assert not [c for c in built.report.log if (ord(c) < 32 and c not in "\n\t") or c in "\x7f\u202e"]


def test_clean_log_keeps_text_and_drops_what_moves_the_cursor():
    raw = b"a\x1b[1;31mb\x1b[0m\r\nc\x1b]8;;http://x\x1b\\d\xff\x00\x07\te\r"
    assert clean_log(raw) == "ab\ncd\ufffd\te"

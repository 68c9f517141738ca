"""The native loop of the CPU runner: what it answers on the pages, and that a host without a compiler does without."""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path

import pytest

from agentcore.build.toolchain import ToolMissing
from agentcore.judge import host_serve
from agentcore.judge.host_serve import serve_library
from agentcore.judge.runner import pages
from agentcore.vocabulary import Language
from tests.judge.conftest import DOUBLE_KERNEL, Bench, failing

ANSWER = 7
Entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Loop:
    """serve.c in a thread of this process, on pages of ordinary memory."""

    def __init__(self, library: Path, entry: object | None, first: int = 1, slots: int = 3) -> None:
        self.command, self.reply = (ctypes.c_uint64 * 8)(), (ctypes.c_int64 * 8)()
        self.arguments = (ctypes.c_void_p * slots)(*range(100, 100 + slots))
        serve = ctypes.CDLL(str(library)).ky_serve
        serve.restype, serve.argtypes = None, [ctypes.c_void_p] * 4 + [ctypes.c_uint64]
        address = ctypes.cast(entry, ctypes.c_void_p) if entry else None
        values = (self.command, self.reply, address, self.arguments, first)
        self.thread = threading.Thread(target=serve, args=values, daemon=True)
        self.thread.start()

    def post(self, sequence: int, slot: int = 0) -> None:
        self.command[pages.COMMAND_SLOT] = slot
        self.command[pages.COMMAND_SEQUENCE] = sequence

    def wait(self, word: int, value: int) -> None:
        deadline = time.monotonic() + 10
        while self.reply[word] != value:
            assert time.monotonic() < deadline, list(self.reply)

    def end(self, sequence: int) -> None:
        self.post(sequence)
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = serve_library(tmp_path_factory.mktemp("serve"))
    assert made is not None
    return made


def test_every_call_is_echoed_made_on_its_slot_and_answered(library: Path) -> None:
    seen: list[tuple[int, int]] = []

    def kernel(arguments: int, _stream: int) -> int:
        seen.append((arguments, loop.reply[pages.REPLY_ARMED]))
        time.sleep(0.002)
        return ANSWER

    entry = Entry(kernel)
    loop = Loop(library, entry, first=5)
    for sequence, slot in ((5, 2), (6, 0), (7, 1)):
        assert loop.reply[pages.REPLY_SEQUENCE] < sequence
        loop.post(sequence, slot)
        loop.wait(pages.REPLY_SEQUENCE, sequence)
        assert loop.reply[pages.REPLY_STATUS] == ANSWER
        assert 2_000_000 <= loop.reply[pages.REPLY_CLAIMED_NS] < 5_000_000_000
    # Armed before the call is made, with the call's own number.
    assert seen == [(102, 5), (100, 6), (101, 7)]
    loop.end(1 << 20)
    assert loop.reply[pages.REPLY_SEQUENCE] == 7, "jumping ahead ends the series and answers nothing"


def test_without_a_kernel_it_echoes_and_answers_all_the_same(library: Path) -> None:
    loop = Loop(library, None)
    for sequence in (1, 2):
        loop.post(sequence)
        loop.wait(pages.REPLY_SEQUENCE, sequence)
        assert loop.reply[pages.REPLY_ARMED] == sequence and loop.reply[pages.REPLY_STATUS] == 0
    loop.end(100)


def test_it_is_compiled_once_and_readable_to_the_runners_user(tmp_path: Path) -> None:
    first = serve_library(tmp_path)
    assert first is not None
    written = first.stat().st_mtime_ns
    assert serve_library(tmp_path) == first and first.stat().st_mtime_ns == written
    assert first.stat().st_mode & 0o005 == 0o005 and first.parent.stat().st_mode & 0o005 == 0o005


def test_another_source_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = serve_library(tmp_path)
    changed = tmp_path / "serve.c"
    changed.write_text(host_serve.SOURCE.read_text() + "/* changed */\n")
    monkeypatch.setattr(host_serve, "SOURCE", changed)
    assert serve_library(tmp_path) != first


def test_a_host_without_a_compiler_serves_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    def none(tool: str) -> Path:
        raise ToolMissing(tool, "g++", "gone")

    with monkeypatch.context() as patch:
        patch.setattr(host_serve, "find_tool", none)
        assert serve_library(tmp_path) is None
    problem = bench.problem()
    target = bench.judge.target
    target.close()  # companions started with the library
    monkeypatch.setattr(target, "serve", None)
    for language, source in ((Language.TORCH, "def run(x, y):\n    y.copy_(x * 2)\n"), (Language.CPP, DOUBLE_KERNEL)):
        result = bench.judge_kernel(source, problem, language)
        assert result.passed, (language, failing(result), result.message)
    target.close()  # and those started without it

"""A runner that dies, lies or keeps silent, against a real one in a real sandbox."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import agentcore.judge.session as session_module
from agentcore.judge.runner import channel
from agentcore.judge.session import LOG_BYTES, RunnerFailure, RunnerSession
from agentcore.sandbox import Limits, Sandbox, SandboxProcess, tree
from tests.judge.conftest import wait_until

LIMITS = Limits(wall_s=60)

IMPOSTOR = '''
import json, os, signal, socket, sys, time
sock = socket.socket(fileno=int(sys.argv[1]))
def say(raw):
    sock.send(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
'''
"""A runner whose behaviour a test adds: it has the channel as ``sock``."""

Start = Callable[[str], RunnerSession]


@pytest.fixture
def start(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a session whose runner runs the given lines instead of the real loop."""
    opened: list[RunnerSession] = []

    def begin(behaviour: str) -> RunnerSession:
        directory = tmp_path / f"impostor{len(opened)}"
        directory.mkdir()
        for path in (tmp_path, directory):
            path.chmod(0o755)
        (directory / "__main__.py").write_text(IMPOSTOR + behaviour)
        monkeypatch.setattr(session_module, "RUNNER_DIR", directory)
        opened.append(RunnerSession(sandbox, "cpu", readable=[], limits=LIMITS))
        return opened[-1]

    yield begin
    for session in opened:
        session.close()


def failure(session: RunnerSession, timeout_s: float = 10) -> RunnerFailure:
    with pytest.raises(RunnerFailure) as caught:
        session.request({"op": "hello"}, "ready", timeout_s=timeout_s)
    return caught.value


def test_the_real_runner_answers_each_request_once_and_ends_when_asked(sandbox: Sandbox) -> None:
    with RunnerSession(sandbox, "cpu", readable=[], limits=LIMITS) as session:
        with pytest.raises(RunnerFailure) as caught:
            session.request({"op": "nothing_of_this_name"}, "x", timeout_s=10)
        assert caught.value.kind == "error" and session.alive() and not session.pending()
        session.post({"op": "quit"})
        assert session.process.wait(10) == 0


@pytest.mark.parametrize("code", [0, 1, 42, 127])
def test_an_exit_is_reported_with_its_status(start: Start, code: int) -> None:
    found = failure(start(f"os._exit({code})"))
    assert (found.kind, found.message) == ("died", f"the runner exited with status {code}")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"])
def test_a_death_by_signal_is_reported_by_name(start: Start, name: str) -> None:
    found = failure(start(f"os.kill(os.getpid(), signal.{name})"))
    assert found.kind == "died" and f"signal {signal.Signals[name].value} ({name})" in found.message


def test_silence_is_a_timeout_that_says_what_was_awaited(start: Start) -> None:
    found = failure(start("time.sleep(60)"), timeout_s=0.3)
    assert found.kind == "timeout" and "'ready'" in found.message


def test_a_closed_channel_of_a_living_runner_is_a_violation(start: Start) -> None:
    found = failure(start("sock.close(); time.sleep(60)"))
    assert found.kind == "violation" and "still running" in found.message


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("say(b'junk')", "not JSON"),
        ("say([1, 2])", "not a message"),
        ("say({'op': 'mapped'})", "expected 'ready', the runner sent 'mapped'"),
        ("say({'op': '\\ud800' * 5000})", "expected 'ready'"),
        ("sock.setsockopt(1, 7, 1 << 20); say(b'x' * 200_000)", "longer than"),
        ("say({'op': 'error', 'message': 17})", "expected 'ready'"),
    ],
)
def test_speaking_anything_but_the_protocol_is_a_violation(start: Start, behaviour: str, said: str) -> None:
    found = failure(start(f"{behaviour}\ntime.sleep(60)"))
    assert found.kind == "violation" and said in found.message and len(found.message) <= 500


def test_an_error_is_passed_on_within_bounds(start: Start) -> None:
    found = failure(start("say({'op': 'error', 'message': 'm' * 50_000})\ntime.sleep(60)"))
    assert found.kind == "error" and found.message == "m" * 2000


def test_a_message_nobody_asked_for_is_pending(start: Start) -> None:
    session = start("sock.recv(100)\nsay({'op': 'one'})\nsay({'op': 'two'})\ntime.sleep(60)")
    assert not session.pending()
    session.request({"op": "go"}, "one", timeout_s=10)
    deadline = time.monotonic() + 5
    while not session.pending() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert session.pending()
    session.answer("two", timeout_s=1)  # looking did not take it


def test_a_runner_that_left_by_itself_is_told_from_one_that_was_killed(start: Start) -> None:
    left = start("os._exit(0)")
    killed = start("os.kill(os.getpid(), signal.SIGKILL)")
    stays = start("time.sleep(60)")
    for session in (left, killed):
        session.process.wait(10)
    assert left.left_unasked() and not killed.left_unasked() and not stays.left_unasked()


def test_the_log_keeps_head_and_tail_of_what_was_printed(start: Start) -> None:
    session = start("sys.stdout.write('HEAD' + 'x' * 1_000_000); sys.stderr.write('TAIL'); os._exit(0)")
    session.process.wait(10)
    log = session.log()
    assert log.startswith("HEAD") and log.endswith("TAIL") and len(log) < 2 * LOG_BYTES + 100
    assert f"{1_000_008 - 2 * LOG_BYTES} bytes left out" in log


def test_a_runner_sees_nothing_of_the_judges_environment(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELYARD_SECRET_KEY", "KERNELYARD_DATABASE_URL", "DATABASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "the-secret")
    session = start(
        "sock.recv(100)\n"
        "say({'op': 'ready', 'env': dict(os.environ), 'fds': os.listdir('/proc/self/fd')})\n"
        "time.sleep(60)"
    )
    answer = session.request({"op": "hello"}, "ready", timeout_s=10)
    assert "the-secret" not in answer["env"].values()
    # stdin, stdout, stderr, the channel, and the one that lists them
    assert len(answer["fds"]) == 5


def test_freezing_stops_the_tree_and_thawing_lets_it_go_on(start: Start) -> None:
    session = start("n = 0\nsock.setblocking(False)\nwhile True:\n    n += 1\n    try:\n        sock.recv(100)\n"
                    "        say({'op': 'count', 'n': n})\n    except BlockingIOError:\n        pass\n")
    session.request({"op": "?"}, "count", timeout_s=10)
    assert session.freeze() and session.process.is_frozen()
    with pytest.raises(RunnerFailure):
        session.request({"op": "?"}, "count", timeout_s=0.2)
    session.thaw()
    assert session.answer("count", timeout_s=10)["n"] > 0


KEPT = """
import threading
os.mkfifo("/tmp/nobody-writes")
def spawn():
    sock.recv(100)
    opening = [(os.POSIX_SPAWN_OPEN, 5, "/tmp/nobody-writes", os.O_RDONLY, 0)]
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=opening)
threading.Thread(target=spawn).start()
time.sleep(60)
"""
"""A thread of it waits for the child of a vfork, which waits for ever: uninterruptible, as in a driver's call."""


def test_a_runner_that_the_kernel_does_not_let_stop_is_no_cheat(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "FREEZE_S", 0.3)
    session = start(KEPT)
    session.post({"op": "hello"})
    assert wait_until(lambda: any(" D " in stat.read_text() for pid in session.process.host_pids()
                                  for stat in Path(f"/proc/{pid}/task").glob("*/stat")))
    assert session.freeze()
    session.thaw()
    monkeypatch.setattr(tree, "_in_vfork", lambda *_: False)  # then it is what keeps a process from being stopped
    assert not session.freeze()
    found = session.unstoppable()
    assert found.kind == "host" and "kept the runner's processes from being stopped" in found.message


LEADERLESS = """
import ctypes, threading
sock.recv(100)
def go_on():
    sock.close()
    BESIDES
    time.sleep(60)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""
"""Its first thread has ended, and /proc shows the whole as a zombie."""


def test_a_runner_is_not_ending_while_a_thread_of_it_goes_on(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the host's trouble, for which a kernel is measured again."""
    monkeypatch.setattr(session_module, "SAY_GOODBYE_S", 0.3)
    monkeypatch.setattr(session_module, "LEAVE_S", 3.0)
    session = start(LEADERLESS.replace("BESIDES", ""))
    with pytest.raises(RunnerFailure, match="closed its channel but is still running") as raised:
        session.request({"op": "hello"}, "ready", timeout_s=10)
    assert raised.value.kind == "violation"


def test_a_runner_whose_first_thread_has_ended_is_told_to_stop_as_any_other(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "FREEZE_S", 0.1)
    monkeypatch.setattr(SandboxProcess, "_signal", lambda *_: None)
    session = start(LEADERLESS.replace("BESIDES", "while True: pass"))
    session.post({"op": "hello"})
    assert wait_until(session.ended)
    assert not session.freeze() and session.unstoppable().kind == "violation"


def test_a_runner_that_runs_although_it_was_told_to_stop_is_one(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no known way: here it is not told."""
    monkeypatch.setattr(session_module, "FREEZE_S", 0.1)
    monkeypatch.setattr(SandboxProcess, "_signal", lambda *_: None)
    session = start("say({'op': 'ready'})\nwhile True: pass")
    session.answer("ready", timeout_s=10)
    assert not session.freeze() and session.unstoppable().kind == "violation"


def test_an_end_that_takes_very_long_is_no_violation(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SAY_GOODBYE_S", "LEAVE_S"):
        monkeypatch.setattr(session_module, name, 0.2)
    session = start("sock.close(); time.sleep(60)")
    monkeypatch.setattr(session.process, "ending", lambda: True)
    found = failure(session)
    assert found.kind == "host" and "takes longer than" in found.message


def test_closing_kills_the_whole_tree(start: Start) -> None:
    session = start("[os.fork() for _ in range(4)]\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)")
    deadline = time.monotonic() + 10
    while len(pids := session.process.host_pids()) < 16 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(pids) >= 16
    session.close()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_the_channel_takes_a_request_as_large_as_the_protocol_allows(start: Start) -> None:
    session = start("data = sock.recv(1 << 20)\nsay({'op': 'ready', 'size': len(data)})\ntime.sleep(60)")
    filler = "x" * (channel.MAX_MESSAGE_BYTES - 50)
    answer = session.request({"op": "hello", "f": filler}, "ready", timeout_s=10)
    assert answer["size"] == len(filler) + len('{"op":"hello","f":""}')

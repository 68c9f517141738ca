"""A runner process in its sandbox, as the judge sees it: requests with deadlines, and findings instead of trust."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from agentcore.build.prebuilt import hidden
from agentcore.judge.libraries import mapped_files
from agentcore.judge.runner import channel
from agentcore.sandbox import Exceeded, Limits, Sandbox, SandboxProcess

if TYPE_CHECKING:
    from agentcore.judge.buffers import SlotBuffers

RUNNER_DIR = Path(__file__).resolve().parent / "runner"
LOG_BYTES = 16 * 1024
FREEZE_S = 5.0
SAY_GOODBYE_S, LEAVE_S = 2.0, 30.0
"""How long a runner may keep running without its channel, and how long its end may take."""


class RunnerFailure(Exception):
    """The runner did not do what was asked. ``kind`` says how, ``message`` is safe to show (bounded)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind  # error | died | violation | timeout | memory | stays | host (ours to mend)
        self.message = message


class RunnerSession:
    """One fresh runner for one candidate. A context manager: leaving it kills the whole tree."""

    def __init__(
        self,
        sandbox: Sandbox,
        target: str,
        *,
        readable: Sequence[Path],
        devices: Sequence[Path] = (),
        env: dict[str, str] | None = None,
        limits: Limits,
        isolated: bool = True,
    ) -> None:
        self._known: set[int] = set()
        self.left_behind = False
        """Whether something of it could not be killed when it was closed."""
        self._printed = ""
        self.mapped_before: frozenset[str] = frozenset()
        """The files the runner had mapped just before it was asked to load the candidate: ours, every one."""
        self._sock, theirs = channel.pair()
        self._log: BinaryIO = tempfile.TemporaryFile(prefix="runner-log-")  # noqa: SIM115  closed in close()
        # -S keeps site-packages out: a compiled kernel's runner is standard library only and starts in 30 ms. Nor does
        # it see the libraries that its language may not call.
        flags = ["-I", "-u", "-S"] if isolated else ["-I", "-u"]  # -u: what it prints outlives its being killed
        try:
            self.process: SandboxProcess = sandbox.popen(
                [sys.executable, *flags, "-B", str(RUNNER_DIR), str(theirs.fileno()), target],
                readable=[RUNNER_DIR, *readable, *(hidden(sandbox, python=True) if isolated else ())],
                devices=devices,
                env={"OMP_PROC_BIND": "false", **(env or {})},
                pass_fds=[theirs.fileno()],
                limits=limits,
                stdin=subprocess.DEVNULL,
                stdout=self._log.fileno(),
                stderr=self._log.fileno(),
            )
        except BaseException:
            self._sock.close()
            self._log.close()
            raise
        finally:
            theirs.close()

    def __enter__(self) -> RunnerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self, message: dict[str, Any], expect: str, *, timeout_s: float, descriptors: list[int] | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its one answer. Raises RunnerFailure."""
        self.post(message, descriptors)
        return self.answer(expect, timeout_s=timeout_s)

    def share(self, buffers: SlotBuffers, *, writable_inputs: bool, timeout_s: float) -> None:
        """Have the runner map a workload's buffers. Raises RunnerFailure."""
        layout = buffers.layout
        indices, sizes, descriptors = buffers.descriptors()
        self.request(
            {"op": "buffers", "slots": layout.slots, "parameters": layout.describe(indices, sizes, writable_inputs)},
            "mapped", timeout_s=timeout_s, descriptors=descriptors,
        )

    def post(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        """Send a request without waiting."""
        if message["op"] == "load":
            self.mapped_before = frozenset(self.mapped_files())
        try:
            channel.send(self._sock, message, descriptors)
        except (channel.ChannelClosed, OSError) as error:
            raise self._died() from error

    def answer(self, expect: str, *, timeout_s: float) -> dict[str, Any]:
        self._sock.settimeout(timeout_s)
        try:
            reply, _ = channel.receive(self._sock)
        except TimeoutError:
            raise RunnerFailure("timeout", f"no answer within {timeout_s:g} s while waiting for {expect!r}") from None
        except channel.ChannelClosed:
            raise self._died() from None
        except (channel.ChannelViolation, OSError) as error:
            raise RunnerFailure("violation", f"the runner broke the protocol: {error}"[:500]) from error
        if reply["op"] == "error" and isinstance(reply.get("message"), str):
            raise RunnerFailure("error", reply["message"][:2000])
        if reply["op"] != expect:
            raise RunnerFailure("violation", f"expected {expect!r}, the runner sent {reply['op']!r:.100}")
        return reply

    def pending(self) -> bool:
        """Whether a message lies in the channel that nobody asked for."""
        return bool(self._peek())

    def ended(self) -> bool:
        """Whether the runner is gone: reaped, or its end of the channel closed."""
        return not self.alive() or self._peek() == b""

    def _peek(self) -> bytes | None:
        """The first byte of what waits in the channel; empty at its end, None where nothing waits."""
        self._sock.setblocking(False)
        try:
            return self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def left_unasked(self) -> bool:
        """Whether the runner exited by itself, not by a signal: a reply before that was forged, or its loop patched."""
        if self._peek() is None:
            return False
        deadline = time.monotonic() + 0.5
        while (code := self.process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return code is not None and 0 <= code < 128

    def mapped_files(self) -> dict[str, bool]:
        """The files mapped in the sandbox's processes right now; see libraries.mapped_files."""
        return mapped_files(self.process.host_pids())

    def remember_processes(self) -> None:
        """Note which processes the sandbox holds now; see :meth:`new_processes`."""
        self._known = set(self.process.host_pids())

    def new_processes(self) -> list[str]:
        """Names (bounded) of processes that were started since and are still there."""
        names = []
        for pid in self.process.host_pids():
            if pid not in self._known:
                with contextlib.suppress(OSError):
                    names.append(Path(f"/proc/{pid}/comm").read_text().strip()[:40])
        return names

    def alive(self) -> bool:
        return self.process.poll() is None

    def freeze(self) -> bool:
        """Stop the whole tree. False where it could not be within seconds; see :meth:`unstoppable`."""
        return self.process.freeze(FREEZE_S)

    def unstoppable(self) -> RunnerFailure:
        """What it means that :meth:`freeze` has failed. A driver's call that does not end is no honest candidate's
        doing, nor that of a process which takes long to end.
        """
        if self.process.is_kept_running():
            return RunnerFailure(
                "host", f"the kernel or a driver kept the runner's processes from being stopped for {FREEZE_S:g} s"
            )
        return RunnerFailure("violation", "the runner's processes could not be stopped")

    def thaw(self) -> None:
        self.process.thaw()

    def log(self) -> str:
        """What the candidate printed: bounded (head and tail), undecodable bytes replaced. Known after the end too."""
        if self._log.closed:
            return self._printed
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), LOG_BYTES, 0)
        if size > 2 * LOG_BYTES:
            data += f"\n... {size - 2 * LOG_BYTES} bytes left out ...\n".encode()
        if size > LOG_BYTES:
            data += os.pread(self._log.fileno(), LOG_BYTES, max(LOG_BYTES, size - LOG_BYTES))
        return data.decode("utf-8", "replace").replace("\x00", "\ufffd")

    def close(self) -> bool:
        """Kill the runner's whole tree. False if something of it is still there, which takes a device that hangs."""
        gone = self.process.kill_tree()
        self.left_behind = not gone
        self._printed = self.log()
        self._sock.close()
        self._log.close()
        return gone

    def _died(self) -> RunnerFailure:
        begun = time.monotonic()
        # What is on its way out can take long about it, with much memory or a device to give back.
        while (code := self.process.poll()) is None and (
            (waited := time.monotonic() - begun) < SAY_GOODBYE_S or (waited < LEAVE_S and self.process.ending())
        ):
            time.sleep(0.01)
        if self.process.exceeded is Exceeded.HOST_MEMORY:
            return RunnerFailure("host", self.process.memory_message())
        if self.process.exceeded is Exceeded.MEMORY:
            return RunnerFailure("memory", self.process.memory_message())
        if code is None and self.process.ending():
            return RunnerFailure("host", f"the end of the runner's processes takes longer than {LEAVE_S:g} s")
        if code is None:
            return RunnerFailure("violation", "the runner closed its channel but is still running")
        if code > 128 or code < 0:
            number = code - 128 if code > 128 else -code
            return RunnerFailure("died", f"the runner was killed by signal {number} ({_signal_name(number)})")
        return RunnerFailure("died", f"the runner exited with status {code}")


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"

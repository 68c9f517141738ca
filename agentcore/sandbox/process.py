"""A running sandbox: waiting, killing it whole, and stopping every thread in it at once.

Not for starting one. Everything here reads ``/proc`` and signals by pidfd, from outside the sandbox.
"""

# ruff: noqa: PTH116, PTH208
# (freeze is measured in microseconds, and Path objects are not free)

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import threading
import time
from typing import IO

_STOPPED = frozenset(b"TZXx")
_GONE = (ProcessLookupError, FileNotFoundError)


class SandboxProcess:
    """One sandboxed program and everything it started.

    ``pid`` is the monitor: a process of the host that the program cannot see. With namespaces, ``init_pid`` is the
    first process of the sandbox's pid namespace, whose end is the end of everything inside.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        uid: int,
        wall_s: float | None = None,
        status_fd: int | None = None,
    ) -> None:
        self._process = process
        self.uid = uid
        """The uid the program has on the host."""
        self.timed_out = False
        self.started = time.monotonic()
        self._ended = 0.0
        self._status_fd = status_fd
        self._status = b""
        self._exit_reported = False
        self._exit_expected = status_fd is not None
        self._killed = False
        self.init_pid: int | None = None
        self._init_fd: int | None = None
        self._pid_namespace: int | None = None
        self._pidfds: dict[int, int] = {}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        if status_fd is not None:
            self._learn_init()
        if wall_s is not None:
            self._timer = threading.Timer(wall_s, self._out_of_time)
            self._timer.daemon = True
            self._timer.start()

    # -- what subprocess.Popen also has

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._process.stderr

    @property
    def returncode(self) -> int | None:
        """None while running; then the exit status, or 128 + the signal that ended the program."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def poll(self) -> int | None:
        """The return code if the program has ended, else None. Never waits."""
        if self._process.poll() is not None:
            self._settle()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the program and of everything it started. Raises subprocess.TimeoutExpired."""
        self._process.wait(timeout)
        self._settle()
        code = self.returncode
        assert code is not None
        return code

    @property
    def setup_failed(self) -> bool:
        """True if the sandbox could not be made, so that the program never started. Meaningful once it has ended."""
        ended_by_itself = self.returncode is not None and self.returncode < 128 and not self._killed
        return ended_by_itself and self._exit_expected and not self._exit_reported

    # -- ending it

    def kill_tree(self, timeout: float = 10.0) -> bool:
        """Kill everything in the sandbox and wait until it is gone. False if something is still there (device hang)."""
        self._killed = True
        deadline = time.monotonic() + timeout
        if self.init_pid is not None:
            with self._lock:
                if self._init_fd is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        elif self._process.returncode is None:
            for pid in [*self.host_pids(), self.pid]:
                with contextlib.suppress(*_GONE):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(*_GONE, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        # The monitor ends by itself once the namespace is gone; kill it only after, so that it is not left behind.
        if not self._wait_for_init(deadline):
            self._process.kill()
            return False
        self._process.kill()
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()) + 0.1)
        except subprocess.TimeoutExpired:
            return False
        self._settle()
        return True

    def _out_of_time(self) -> None:
        if self._process.poll() is None:
            self.timed_out = True
            self.kill_tree()

    def _settle(self) -> None:
        """After the monitor's end: nothing of the namespace may be left, and the descriptors are closed."""
        with self._lock:
            self._ended = self._ended or time.monotonic()
            if self._timer is not None:
                self._timer.cancel()
            if self._init_fd is not None:
                if not self._wait_for_init(time.monotonic() + 0.05):
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
                    self._wait_for_init(time.monotonic() + 10.0)
                os.close(self._init_fd)
                self._init_fd = None
            if self._status_fd is not None:
                self._read_status(0.0)
                os.close(self._status_fd)
                self._status_fd = None
            for fd in self._pidfds.values():
                os.close(fd)
            self._pidfds.clear()

    def _wait_for_init(self, deadline: float) -> bool:
        with self._lock:
            if self._init_fd is None:
                return True
            fd = os.dup(self._init_fd)
        try:
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            return bool(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
        finally:
            os.close(fd)

    # -- the status descriptor: {"child-pid": n} once the namespace exists, {"exit-code": n} if the program ran

    def _learn_init(self) -> None:
        self._read_status(5.0, until=b"\n")
        first = self._status.partition(b"\n")[0]
        with contextlib.suppress(ValueError, KeyError, *_GONE):
            pid = int(json.loads(first)["child-pid"])
            self._init_fd = os.pidfd_open(pid)
            self.init_pid = pid
            self._pid_namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino

    def _read_status(self, timeout: float, until: bytes | None = None) -> None:
        fd = self._status_fd
        if fd is None:
            return
        deadline = time.monotonic() + timeout
        while until is None or until not in self._status:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            chunk = os.read(fd, 4096)
            if not chunk:
                break
            self._status += chunk
        self._exit_reported = b'"exit-code"' in self._status

    # -- stopping it

    def host_pids(self) -> list[int]:
        """The host's pids of every process in the sandbox, without the monitor and the namespace's first process.

        An orphan is adopted by the namespace's first process, so walking the children from there finds everything.
        Without namespaces an orphan is adopted by the host and lost from view.
        """
        if self._process.returncode is not None:
            return []
        if self.init_pid is None:
            return _descendants([self.pid])
        roots = _children(self.init_pid)
        while True:
            found = _descendants(roots)
            # A process whose parent died during the walk has moved to where the walk began.
            roots = _children(self.init_pid)
            if set(roots) <= set(found):
                return found

    def freeze(self, timeout: float = 0.25) -> bool:
        """Stop every thread of every process in the sandbox; True once all of them are seen stopped.

        The processes known from the last call are signalled first, before any search, so that a late thread has
        a few microseconds at most. Nothing inside can continue them once all have stopped: only ``thaw`` does.
        """
        with self._lock:
            deadline = time.perf_counter() + timeout
            for pid in list(self._pidfds):
                self._signal(pid, signal.SIGSTOP)
            while True:
                pids = self.host_pids()
                running = [pid for pid in pids if not _is_stopped(pid)]
                # The second look is for a child that one of them started just before it stopped.
                if not running and self.host_pids() == pids:
                    for pid in set(self._pidfds).difference(pids):
                        os.close(self._pidfds.pop(pid))
                    return True
                for pid in running:
                    if pid in self._pidfds or self._adopt(pid):
                        self._signal(pid, signal.SIGSTOP)
                if time.perf_counter() > deadline:
                    return False
                # A thread that waits for this very core cannot stop before it gets it.
                time.sleep(1e-6)

    def cpu_ns(self) -> int:
        """The CPU time that every thread in the sandbox has used, by the kernel's own account, nanoseconds.

        Between two looks at a stopped sandbox it must not change.
        """
        total = 0
        for pid in self.host_pids():
            with contextlib.suppress(*_GONE):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    total += int(_read_proc(f"/proc/{pid}/task/{thread}/schedstat").split()[0])
        return total

    def is_frozen(self) -> bool:
        """True if every thread in the sandbox is stopped right now. Ask again after reading their memory."""
        return all(map(_is_stopped, self.host_pids()))

    def thaw(self) -> None:
        """Continue everything that ``freeze`` stopped."""
        with self._lock:
            for pid in list(self._pidfds):
                self._signal(pid, signal.SIGCONT)

    def _adopt(self, pid: int) -> bool:
        """Hold a process by pidfd, so that a reused pid is never signalled. False if it is not of this sandbox."""
        try:
            fd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno in (errno.ESRCH, errno.EINVAL):
                return False
            raise
        if self._pid_namespace is not None:
            try:
                same = os.stat(f"/proc/{pid}/ns/pid").st_ino == self._pid_namespace
            except OSError:
                same = False
            if not same:
                os.close(fd)
                return False
        self._pidfds[pid] = fd
        return True

    def _signal(self, pid: int, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._pidfds[pid], number)
        except ProcessLookupError:
            os.close(self._pidfds.pop(pid))

    @property
    def seconds(self) -> float:
        """Seconds from the start to the end, or to now."""
        return (self._ended or time.monotonic()) - self.started

    def __enter__(self) -> SandboxProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.poll() is None:
            self.kill_tree()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _read_proc(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _descendants(roots: list[int]) -> list[int]:
    pending = list(roots)
    found: list[int] = []
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except _GONE:
        return found
    for thread in threads:
        with contextlib.suppress(*_GONE):
            # Longer lists than one read are completed by the caller's next walk, after these have been stopped.
            found += map(int, _read_proc(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _is_stopped(pid: int) -> bool:
    """True if every thread of the process is stopped, dead or a zombie."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(*_GONE):
                stat = _read_proc(f"/proc/{pid}/task/{thread}/stat")
                if stat[stat.rindex(b")") + 2] not in _STOPPED:
                    return False
    except _GONE:
        return True
    return True

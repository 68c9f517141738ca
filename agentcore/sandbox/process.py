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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from agentcore.sandbox import tree
from agentcore.sandbox.contract import Exceeded
from agentcore.sandbox.memory import MemoryLimit
from agentcore.sandbox.tree import GONE, CpuTimes

_LOOK_FOR_S, _TAKES_A_SIGNAL_S = 1.0, 0.01
_WAIT = {"x86_64": b"61", "aarch64": b"260"}.get(os.uname().machine)


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
        memory: MemoryLimit | None = None,
    ) -> None:
        self._process = process
        self.uid = uid
        """The uid the program has on the host."""
        self.exceeded: Exceeded | None = None
        """The limit for which the tree was killed; known once it has ended."""
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
        self._memory = memory
        if memory is not None:
            memory.attach(self.init_pid or self.pid, namespaced=self.init_pid is not None)
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
        if self._memory is not None:
            self._memory.kill()
        deadline = time.monotonic() + timeout
        if self.init_pid is not None:
            with self._lock:
                if self._init_fd is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        elif self._process.returncode is None:
            tree.kill([*self.host_pids(), self.pid], group=self.pid)
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
            self.exceeded = Exceeded.TIME
            self.kill_tree()

    @property
    def timed_out(self) -> bool:
        return self.exceeded is Exceeded.TIME

    # -- its memory

    def wait_watching(self) -> int:
        """Wait for the end, and see to it meanwhile that the tree keeps to its memory: for a caller with time."""
        fd = os.pidfd_open(self.pid)
        try:
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            while not poller.poll(tree.LOOK_EVERY_S * 1000 if self._memory is not None else None):
                self.check_memory()
        finally:
            os.close(fd)
        return self.wait()

    def check_memory(self) -> bool:
        """Look now, not more often than every 50 ms, and kill the tree if it holds too much. True if it was killed.

        Only needed while ``unwatched``.
        """
        found = self._memory.look() if self._memory is not None else None
        if found is None or self.poll() is not None:
            return False
        self.exceeded = found
        self.kill_tree()
        return True

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """While microseconds count: nobody looks at the tree's memory but whoever calls ``check_memory``."""
        memory = self._memory
        if memory is not None:
            memory.pause()
        try:
            yield
        finally:
            if memory is not None:
                memory.resume()

    def memory_message(self) -> str:
        """What to tell about a tree that was killed for its memory; empty otherwise."""
        if self._memory is None or self.exceeded not in (Exceeded.MEMORY, Exceeded.HOST_MEMORY):
            return ""
        return self._memory.message(self.exceeded)

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
            if self._memory is not None:
                self.exceeded = self._memory.detach() or self.exceeded

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
        with contextlib.suppress(ValueError, KeyError, *GONE):
            pid = int(json.loads(first)["child-pid"])
            self._init_fd = os.pidfd_open(pid)
            self.init_pid = pid
            self._pid_namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino

    def init_settled(self, held_fd: int, timeout: float = 5.0) -> bool:
        """Wait until the namespace's first process does nothing but reap, so that it is bound to end with its parent.

        ``held_fd`` is one it gives up just before. False if it never came so far.
        """
        deadline = time.monotonic() + timeout
        while self.init_pid is not None and not self._wait_for_init(0.0) and time.monotonic() < deadline:
            if _reaps(self.init_pid, held_fd):
                return True
            time.sleep(2e-4)
        return False

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
        """The host's pids of every process in the sandbox, without the monitor and the namespace's first process."""
        if self._process.returncode is not None:
            return []
        if self.init_pid is None:
            return tree.descendants([self.pid])
        return tree.members(self.init_pid)

    def ending(self) -> bool:
        """True if every process in the sandbox is on its way out, however long that takes."""
        return all(map(tree.is_ending, self.host_pids()))

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
                # One that waits for the child of a vfork counts as stopped. Signalled it must be all the same: it could
                # be killed meanwhile, which has the kernel continue what is stopped in its process group.
                for pid in pids:
                    if pid not in self._pidfds and self._adopt(pid):
                        self._signal(pid, signal.SIGSTOP)
                running = [pid for pid in pids if not tree.is_stopped(pid)]
                # The second look is for a child that one of them started just before it stopped.
                if not running and self.host_pids() == pids:
                    for pid in set(self._pidfds).difference(pids):
                        os.close(self._pidfds.pop(pid))
                    return True
                for pid in running:
                    if pid in self._pidfds:
                        self._signal(pid, signal.SIGSTOP)
                if time.perf_counter() > deadline:
                    return False
                # A thread that waits for this very core cannot stop before it gets it.
                time.sleep(1e-6)

    def is_kept_running(self) -> bool:
        """After ``freeze`` has given up: True if nothing of the program itself runs, only calls that the kernel, or a
        driver, does not let it leave. False if it runs although it was told to stop.
        """
        with self._lock:
            deadline = time.perf_counter() + _LOOK_FOR_S
            while time.perf_counter() < deadline:
                pids = self.host_pids()
                running = [pid for pid in pids if not tree.is_stopped(pid)]
                for pid in running:
                    if pid in self._pidfds or self._adopt(pid):
                        self._signal(pid, signal.SIGSTOP)
                time.sleep(_TAKES_A_SIGNAL_S)
                kept = all(tree.is_stopped(pid) or tree.is_told_to_stop(pid) for pid in running)
                if kept and self.host_pids() == pids:
                    return True
            return False

    def cpu_times(self) -> CpuTimes:
        """The CPU time that each thread in the sandbox has used, by the kernel's own account.

        Between two looks at a stopped sandbox it must not change.
        """
        return {
            (pid, thread): used_ns
            for pid in self.host_pids() for thread, used_ns in tree.cpu_times_ns(pid).items()
        }

    def is_frozen(self) -> bool:
        """True if every thread in the sandbox is stopped right now. Ask again after reading their memory."""
        return all(map(tree.is_stopped, self.host_pids()))

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


def _reaps(init_pid: int, held_fd: int) -> bool:
    """Whether it sits in wait(); where the kernel does not tell, whether it has a child and shed its descriptors."""
    try:
        return tree.read_proc(f"/proc/{init_pid}/syscall").split()[0] == _WAIT
    except OSError:
        pass
    if not tree.children(init_pid):
        return False
    try:
        shed = str(held_fd) not in os.listdir(f"/proc/{init_pid}/fd")
    except OSError:
        return True
    time.sleep(1e-3)  # the one step that is left
    return shed

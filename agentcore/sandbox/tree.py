"""A tree of processes as ``/proc`` shows it: who is in it, whether it is stopped, how much memory it holds.

Run as a program it is the watcher of one sandbox where no cgroup can hold it: ``python -I -S tree.py SPEC`` looks every
50 ms, and kills the tree once it holds more than it may. A program of its own, because a thread of the judge would
disturb its clock, and a candidate could choose when. Standard library only, and nothing of this package.
"""

# ruff: noqa: PTH116, PTH123, PTH208
# (stopping a tree is measured in microseconds, and Path objects are not free)

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

GONE = (ProcessLookupError, FileNotFoundError)
_STOPPED = frozenset(b"TZXx")
_DEAD = frozenset(b"ZXx")
LEAVE_CORE_S = 0.25
_UNINTERRUPTIBLE = ord("D")
_VFORK, _CLONE = {"x86_64": (b"58", b"56"), "aarch64": (None, b"220")}.get(os.uname().machine, (None, None))
_CLONE_VFORK = 0x00004000
_PF_EXITING = 4
_KIB = 1024
LOOK_EVERY_S = 0.05
LOOKS = 4
HOST_RESERVE_SHARE, HOST_RESERVE_BYTES = 0.03, 512 << 20
"""A host with less than this left, the smaller of the two, is about to kill somebody itself."""
_PRIVATE_MOUNTS = ("tmp", "dev/shm")


def read_proc(path: str, size: int = 4096) -> bytes:
    """The first ``size`` bytes of a small file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started or adopted."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except GONE:
        return found
    for thread in threads:
        with contextlib.suppress(*GONE):
            # Longer lists than one read are completed by the caller's next walk, after these have been stopped.
            found += map(int, read_proc(f"/proc/{pid}/task/{thread}/children").split())
    return found


def descendants(roots: list[int]) -> list[int]:
    """The roots and everything below them."""
    pending = list(roots)
    found: list[int] = []
    while pending:
        pid = pending.pop()
        found.append(pid)
        pending += children(pid)
    return found


def members(init_pid: int) -> list[int]:
    """Everything in a pid namespace but its first process, which adopts orphans, so that walking from it misses none.

    Without a namespace of its own an orphan is adopted by the host and lost from view: walk ``descendants`` there.
    """
    roots = children(init_pid)
    while True:
        found = descendants(roots)
        # A process whose parent died during the walk has moved to where the walk began.
        roots = children(init_pid)
        if set(roots) <= set(found):
            return found


def is_stopped(pid: int) -> bool:
    """True if every thread of the process is stopped, dead, a zombie, or waits for the child of a vfork.

    Such a thread takes no signal but one that kills it before its child, which is in the tree too, has run on; nor does
    it run before that.
    """
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(*GONE):
                stat = read_proc(f"/proc/{pid}/task/{thread}/stat")
                state = stat[stat.rindex(b")") + 2]
                if state not in _STOPPED and not (state == _UNINTERRUPTIBLE and _in_vfork(pid, thread)):
                    return False
    except GONE:
        return True
    return True


def _in_vfork(pid: int, thread: str) -> bool:
    try:
        call = read_proc(f"/proc/{pid}/task/{thread}/syscall").split()
    except OSError:
        return False
    if call[0] == _VFORK:
        return True
    return call[0] == _CLONE and bool(int(call[1], 16) & _CLONE_VFORK)


def is_told_to_stop(pid: int) -> bool:
    """True if a SIGSTOP lies before the process that none of its threads has taken, or if it is on its way out.

    Whatever runs a program's own code takes it at once: nothing of such a process does. Its threads are stopped, or in
    a call that the kernel, or a driver, does not let them leave (state D, or busy there).
    """
    if is_ending(pid):
        return True
    try:
        return _is_pending(f"/proc/{pid}/status", b"ShdPnd:", signal.SIGSTOP)
    except OSError:
        return True


CpuTimes = dict[tuple[int, int], int]
"""By process and thread: the CPU time used, ns."""


def cpu_times_ns(pid: int) -> dict[int, int]:
    """The CPU time of every living thread of a stopped process, by thread, ns. Empty for a process that is gone."""
    found: dict[int, int] = {}
    with contextlib.suppress(*GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(*GONE):
                at = f"/proc/{pid}/task/{thread}"
                stat = read_proc(f"{at}/stat")
                if stat[stat.rindex(b")") + 2] not in _DEAD:
                    _let_leave_its_core(f"{at}/syscall")
                    found[int(thread)] = int(read_proc(f"{at}/schedstat").split()[0])
    return found


def _let_leave_its_core(syscall: str) -> None:
    """Until the thread is off its core. It is shown as stopped a moment before that, and its last time is added only
    then: on a machine that takes our core away just there, much later. To read where it waits, the kernel waits for it.
    """
    deadline = time.perf_counter() + LEAVE_CORE_S
    with contextlib.suppress(PermissionError):
        while read_proc(syscall).startswith(b"running") and time.perf_counter() < deadline:
            pass


def is_ending(pid: int) -> bool:
    """True if the process is gone or on its way out (giving back much memory, or a device, can take seconds).

    That is, if every thread is. A process whose first thread has ended by itself is shown as a zombie, but goes on.
    """
    seen: list[str] = []
    try:
        while (threads := os.listdir(f"/proc/{pid}/task")) and not set(threads) <= set(seen):
            if not all(_is_thread_ending(f"/proc/{pid}/task/{thread}") for thread in threads):
                return False
            seen = threads  # one of them may have started another before it ended
    except GONE:
        pass
    return True


def _is_thread_ending(place: str) -> bool:
    """Never to run a program's code again: dead, on its way out, or killed while the kernel holds it."""
    try:
        stat = read_proc(f"{place}/stat")
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0][0] in _DEAD or int(fields[6]) & _PF_EXITING:
            return True
        return _is_pending(f"{place}/status", b"SigPnd:", signal.SIGKILL)
    except OSError:
        return True


def _is_pending(status: str, line: bytes, number: signal.Signals) -> bool:
    """Whether a signal waits to be taken by a thread (``SigPnd:``) or any of its process (``ShdPnd:``). Raises OSError.
    """
    lines = read_proc(status, 8192).splitlines()
    pending = next((int(each.split()[1], 16) for each in lines if each.startswith(line)), 0)
    return bool(pending >> (number - 1) & 1)


class MemoryGauge:
    """How much memory a tree holds, in two steps: a sum that is never too small, and where it is too large, the truth.

    Counted: anonymous memory and swap by proportional share, shared memory and memory files whether mapped or not,
    page tables, what lies in the private ``/tmp`` and ``/dev/shm``. Not seen from here, other than by the host running
    out: memory files that are nowhere but in a socket's queue, what a device driver pins, other kernel memory.
    """

    def __init__(self, root: int, *, namespaced: bool, limit_bytes: int, caller: int) -> None:
        self.root, self.namespaced, self.limit_bytes = root, namespaced, limit_bytes
        self.caller = caller
        """Whose open memory files are its own, and count by share."""
        fd = os.memfd_create("gauge", os.MFD_CLOEXEC)
        self._shared_device = os.fstat(fd).st_dev
        os.close(fd)
        self._available_at_start = available_bytes()

    def pids(self) -> list[int]:
        """Every process of the tree."""
        return members(self.root) if self.namespaced else descendants([self.root])

    def exceeded(self) -> tuple[str, int] | None:
        """(``memory`` or ``host memory``, bytes) where a limit is passed: held by the tree, or left on the host."""
        if self._at_most(self.pids()) > self.limit_bytes and (held := self._surely()) > self.limit_bytes:
            return "memory", held
        left = available_bytes()
        if left < host_reserve_bytes() and self._available_at_start - left > self.limit_bytes:
            return "host memory", left
        return None

    def _surely(self) -> int:
        """The least of a few looks, up to one during which nobody came or went: who forks between two processes' turns
        has what both share counted by different shares, and so twice.
        """
        least: int | None = None
        for _ in range(LOOKS):
            pids = self.pids()
            held = self._exactly(pids)
            least = held if least is None else min(least, held)
            if least <= self.limit_bytes or self.pids() == pids:
                break
        return least or 0

    def _at_most(self, pids: list[int]) -> int:
        held = sum(self._files(pids).values()) + self._private_mounts()[0]
        for pid in pids:
            with contextlib.suppress(OSError):
                for line in read_proc(f"/proc/{pid}/status", 8192).splitlines():
                    if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")):
                        held += int(line.split()[1]) * _KIB
        return held

    def _exactly(self, pids: list[int]) -> int:
        files = self._files(pids)
        for inode in self._files([self.caller]):
            files.pop(inode, None)
        held, mounts = self._private_mounts()
        held += sum(files.values())
        shared = _device_name(self._shared_device)
        for pid in pids:
            with contextlib.suppress(OSError):
                held += self._mapped(pid, shared, {str(inode) for inode in files}, mounts)
        return held

    def _mapped(self, pid: int, shared: str, counted: set[str], mounts: set[str]) -> int:
        """What a process has mapped and nothing else has counted yet."""
        held, skip, of_file = 0, False, False
        share = 0
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, rest = line.partition(" ")
                if not name.endswith(":"):  # "address permissions offset device inode path"
                    fields = rest.split(None, 4)
                    device, inode = fields[2], fields[3]
                    skip = device in mounts or (device == shared and inode in counted)
                    of_file = inode != "0" and device != shared
                elif skip:
                    continue
                elif name == "Pss:":
                    share = int(rest.split()[0])
                    held += 0 if of_file else share * _KIB
                elif name == "Anonymous:" and of_file:  # pages of a private mapping that were written
                    held += min(share, int(rest.split()[0])) * _KIB
                elif name == "SwapPss:":
                    held += int(rest.split()[0]) * _KIB
        return held

    def _files(self, pids: list[int]) -> dict[int, int]:
        """Memory files that any of the processes has open: bytes by inode."""
        found: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{pid}/fd"):
                    with contextlib.suppress(OSError):
                        status = os.stat(f"/proc/{pid}/fd/{number}")
                        if status.st_dev == self._shared_device:
                            found[status.st_ino] = status.st_blocks * 512
        return found

    def _private_mounts(self) -> tuple[int, set[str]]:
        """Bytes in the private file systems, and the names of their devices. Without namespaces they are the host's."""
        used, devices = 0, set()
        for mount in _PRIVATE_MOUNTS if self.namespaced and self._has_own_root() else ():
            with contextlib.suppress(OSError):
                place = f"/proc/{self.root}/root/{mount}"
                state = os.statvfs(place)
                used += (state.f_blocks - state.f_bfree) * state.f_frsize
                devices.add(_device_name(os.stat(place).st_dev))
        return used, devices


    def _has_own_root(self) -> bool:
        """Not before the sandbox is made: until then the host's /tmp is what is there."""
        try:
            return not os.path.samestat(os.stat(f"/proc/{self.root}/root"), os.stat("/"))
        except OSError:
            return False


def available_bytes() -> int:
    """What the host can still give without swapping."""
    return _meminfo(b"MemAvailable:")


def host_reserve_bytes() -> int:
    return min(HOST_RESERVE_BYTES, int(HOST_RESERVE_SHARE * _meminfo(b"MemTotal:")))


def _meminfo(name: bytes) -> int:
    for line in read_proc("/proc/meminfo").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * _KIB
    return 0


def _device_name(device: int) -> str:
    """As ``/proc/<pid>/smaps`` spells it."""
    return f"{os.major(device):02x}:{os.minor(device):02x}"


def kill(pids: list[int], *, group: int | None = None) -> None:
    """SIGKILL to each, and to a process group."""
    for pid in pids:
        with contextlib.suppress(*GONE):
            os.kill(pid, signal.SIGKILL)
    if group is not None:
        with contextlib.suppress(*GONE, PermissionError):
            os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Watch until the tree's root ends, stdin does (so does the judge), or a limit is passed: said first, then done.

    A byte ``p`` on stdin pauses the watching, ``r`` resumes it.
    """
    spec = json.loads(sys.argv[1])
    with contextlib.suppress(OSError):  # the tree it watches must not be able to starve it
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    try:
        root_fd = os.pidfd_open(spec["root"])
    except ProcessLookupError:
        return
    gauge = MemoryGauge(spec["root"], namespaced=spec["namespaced"], limit_bytes=spec["limit_bytes"],
                        caller=os.getppid())
    poller = select.poll()
    poller.register(root_fd, select.POLLIN)
    poller.register(0, select.POLLIN)
    watching, pause = True, LOOK_EVERY_S
    while True:
        for fd, _ in poller.poll(pause * 1000 if watching else None):
            if fd == root_fd or not (said := os.read(0, 64)):
                return
            watching = said.endswith(b"r")
        if not watching:
            continue
        begun = time.monotonic()
        found = gauge.exceeded()
        # Never busy for more than a tenth of the time.
        pause = max(LOOK_EVERY_S, 10 * (time.monotonic() - begun))
        if found is not None:
            os.write(1, json.dumps(found).encode())
            if spec["namespaced"]:
                with contextlib.suppress(*GONE):
                    signal.pidfd_send_signal(root_fd, signal.SIGKILL)
            else:
                kill(gauge.pids(), group=spec["root"])
            return


if __name__ == "__main__":
    main()
    os._exit(0)

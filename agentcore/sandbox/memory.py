"""Holding a sandbox's whole tree to its memory: by a cgroup where one can be made, else by watching it.

Not for measuring (``tree``) nor for the kernel's own mechanism (``cgroup``).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from agentcore.sandbox.cgroup import Cgroup, CgroupUnavailable, cgroup_home
from agentcore.sandbox.contract import GIB, Exceeded, Limits
from agentcore.sandbox.tree import LOOK_EVERY_S, MemoryGauge

_WATCHER = Path(__file__).with_name("tree.py")


def memory_mechanism() -> tuple[str, str]:
    """How memory is limited here, and what to know about it: (``cgroup``, where) or (``watcher``, why no cgroup)."""
    try:
        return "cgroup", str(cgroup_home())
    except CgroupUnavailable as reason:
        return "watcher", str(reason)


def host_memory_bytes() -> int:
    """The memory of this host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def half_of_host_bytes() -> int:
    """A limit for a program that may need much: half of the host's memory, 2 GiB at least."""
    return max(2 * GIB, host_memory_bytes() // 2)


class MemoryLimit:
    """The memory limit of one sandbox: ``attach`` once it runs, ``detach`` once it has ended.

    ``aside`` watches in a process of its own, for a caller that will not ``look``. What a device driver takes is in no
    cgroup's account, so that a program with devices is watched as well.
    """

    def __init__(self, limits: Limits, *, devices: bool, aside: bool) -> None:
        assert limits.memory_bytes is not None
        self.limit_bytes = limits.memory_bytes
        self.cgroup: Cgroup | None = None
        with contextlib.suppress(CgroupUnavailable):
            self.cgroup = Cgroup(cgroup_home(), memory_bytes=limits.memory_bytes, processes=limits.processes)
        self._watched = self.cgroup is None or devices
        self._aside = self._watched and aside
        self._watcher: subprocess.Popen[bytes] | None = None
        self._gauge: MemoryGauge | None = None
        self._next_look = 0.0
        self._seen: tuple[Exceeded, int] | None = None

    def entering(self) -> list[str]:
        """What to put before the command that makes the sandbox."""
        return self.cgroup.entering() if self.cgroup else []

    def attach(self, root: int, *, namespaced: bool) -> None:
        """Begin to watch the tree below ``root``: the first process of its pid namespace, or the program itself."""
        if not self._watched:
            return
        self._gauge = MemoryGauge(root, namespaced=namespaced, limit_bytes=self.limit_bytes, caller=os.getpid())
        if self._aside:
            spec = {"root": root, "namespaced": namespaced, "limit_bytes": self.limit_bytes}
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WATCHER), json.dumps(spec)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": os.defpath},
                bufsize=0,
            )

    def look(self) -> Exceeded | None:
        """Which limit the tree passes right now, if the last look was long enough ago for another."""
        now = time.monotonic()
        if self._gauge is None or now < self._next_look:
            return None
        found = self._gauge.exceeded()
        done = time.monotonic()
        self._next_look = done + max(LOOK_EVERY_S, 10 * (done - now))
        if found is not None:
            self._seen = (Exceeded(found[0]), found[1])
        return self._seen[0] if self._seen else None

    def pause(self) -> None:
        """Let nobody look but a caller of ``look``."""
        self._tell(b"p")

    def resume(self) -> None:
        """Undo ``pause``."""
        self._tell(b"r")

    def _tell(self, word: bytes) -> None:
        if self._watcher is not None and self._watcher.stdin is not None:
            with contextlib.suppress(OSError):
                self._watcher.stdin.write(word)

    def kill(self) -> None:
        """Kill what the cgroup holds, if there is one: also what has left the namespace's first process behind."""
        if self.cgroup is not None:
            self.cgroup.kill()

    def detach(self) -> Exceeded | None:
        """Stop watching and remove what was made. Returns the limit for which the tree was killed."""
        watcher, self._watcher, self._gauge = self._watcher, None, None
        if watcher is not None:
            assert watcher.stdin is not None and watcher.stdout is not None
            watcher.kill()
            watcher.wait()
            # It speaks before it kills, so whatever it has to say is there.
            if said := watcher.stdout.read():
                limit, held = json.loads(said)
                self._seen = self._seen or (Exceeded(limit), held)
            watcher.stdin.close()
            watcher.stdout.close()
        cgroup, self.cgroup = self.cgroup, None
        if cgroup is not None:
            if self._seen is None and cgroup.ran_out():
                self._seen = (Exceeded.MEMORY, 0)
            cgroup.remove()
        return self._seen[0] if self._seen else None

    def message(self, exceeded: Exceeded) -> str:
        """In words, for whoever wrote the program."""
        held = self._seen[1] if self._seen else 0
        limit = f"{self.limit_bytes / GIB:.3g} GiB"
        if exceeded is Exceeded.HOST_MEMORY:
            return f"the host had only {held / GIB:.3g} GiB of memory left; the sandbox, allowed {limit}, was killed"
        if held:
            return f"out of memory: it held {held / GIB:.3g} GiB in all its processes, and {limit} is the limit"
        return f"out of memory: all its processes together may hold {limit}"

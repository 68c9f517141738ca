"""A cgroup (version 2) per sandbox, where this process may make one: the kernel counts the whole tree's memory.

Not for hosts where it may not: ``memory`` then has the tree watched instead. A place is found once per process: beside
its own cgroup (a service with ``Delegate=yes`` and ``DelegateSubgroup=``), or as root wherever the controllers are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from functools import cache
from pathlib import Path

_PREFIX = "kernelyard-"
_OWN_PROCESSES = 8
"""Of the sandbox itself, which count too."""
_STALE_S = 60.0


class CgroupUnavailable(Exception):
    """No cgroup can be made here; the message says why."""


class Cgroup:
    """One sandbox's cgroup. Raises OSError if it cannot be made after all."""

    def __init__(self, home: Path, *, memory_bytes: int, processes: int | None) -> None:
        self.path = home / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
        self.path.mkdir()
        try:
            self._write("memory.max", str(memory_bytes))
            self._write("memory.oom.group", "1")
            for name, value in (("memory.swap.max", "0"), ("pids.max", str((processes or 0) + _OWN_PROCESSES))):
                if (self.path / name).exists() and (processes or name != "pids.max"):
                    self._write(name, value)
        except BaseException:
            self.path.rmdir()
            raise

    def _write(self, name: str, value: str) -> None:
        (self.path / name).write_text(value)

    def entering(self) -> list[str]:
        """What to put before a command so that it, and all it starts, is in this cgroup."""
        return ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(self.path / "cgroup.procs")]

    def ran_out(self) -> bool:
        """Whether the kernel killed it for its memory."""
        return _value(self.path / "memory.events", "oom_kill") > 0

    def kill(self) -> None:
        """SIGKILL to everything in it (Linux 5.14 and newer; before that the namespace's end has to do)."""
        with contextlib.suppress(OSError):
            self._write("cgroup.kill", "1")

    def remove(self, timeout: float = 2.0) -> bool:
        """Remove it once its last process is reaped. False if there still is one."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    return False
                time.sleep(0.002)
            else:
                return True


@cache
def cgroup_home() -> Path:
    """The cgroup below which sandboxes get theirs. Raises CgroupUnavailable saying why there is none."""
    reasons = []
    for place in _places():
        try:
            _prove(place)
        except (OSError, CgroupUnavailable) as error:
            reasons.append(f"{place}: {getattr(error, 'strerror', None) or error}")
        else:
            _sweep(place)
            return place
    raise CgroupUnavailable("; ".join(reasons) or "no cgroup version 2 is mounted")


def _places() -> list[Path]:
    """Where a cgroup might be made, the closest to this process's own first."""
    own = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        if after.split()[0] != "cgroup2":
            continue
        top = Path(point)
        if not own.startswith(root) or own.startswith("/.."):
            return [top]
        here = top / own[len(root) :].lstrip("/")
        # Its own cgroup holds this very process, and only the hierarchy's root may hold both processes and limits.
        return list(dict.fromkeys([here.parent if here != top else top, top]))
    return []


def _prove(place: Path) -> None:
    controllers = (place / "cgroup.controllers").read_text().split()
    if "memory" not in controllers:
        raise CgroupUnavailable("it has no memory controller")
    control = place / "cgroup.subtree_control"
    for name in ("memory", "pids"):
        if name in controllers and name not in control.read_text().split():
            control.write_text(f"+{name}")
    Cgroup(place, memory_bytes=1 << 30, processes=None).remove()


def _sweep(place: Path) -> None:
    """Remove what killed judges left: cgroups without a process that nobody is just about to use."""
    for left in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_S and not _value(left / "cgroup.events", "populated"):
                left.rmdir()


def _value(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0

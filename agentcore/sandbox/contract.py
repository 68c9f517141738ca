"""What a sandbox promises, whatever makes it: limits, mounts, the result of a run, and the errors.

Not for any mechanism: bubblewrap, plain namespaces and the bare fallback live in their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

MIB = 1 << 20
GIB = 1 << 30


class SandboxError(RuntimeError):
    """The sandbox itself failed (not the program in it): a path to bind is missing, a mount was refused."""


class SandboxUnavailable(SandboxError):
    """This host cannot make a sandbox; the message names the package or the setting that would change that."""


class Exceeded(StrEnum):
    """The limit of a whole tree for which it was killed."""

    TIME = "time"
    MEMORY = "memory"
    HOST_MEMORY = "host memory"
    """The host was about to run out of memory, and the sandbox is what can be spared. Not proof of its fault."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandboxed program may use. None means unlimited.

    Of the whole tree: ``memory_bytes`` is what it may hold at one time (anonymous memory, shared memory and memory
    files, its ``/tmp`` and ``/dev/shm``; not the page cache of what it reads), ``processes`` counts processes and
    threads together, ``wall_s`` is real time until everything is killed.

    Of each process: ``address_bytes`` is its address space (leave it None for CUDA, which reserves huge ranges),
    ``file_bytes`` the size of a file it writes, ``cpu_s`` its CPU time, ``open_files`` its descriptors.

    ``tmp_bytes`` bounds the private ``/tmp`` and, separately, ``/dev/shm``. ``output_bytes`` bounds what ``run`` keeps
    of stdout and of stderr; more is read and dropped.
    """

    memory_bytes: int | None = 4 * GIB
    address_bytes: int | None = None
    processes: int | None = 512
    file_bytes: int | None = GIB
    cpu_s: int | None = None
    wall_s: float | None = 60.0
    open_files: int | None = 1024
    output_bytes: int = 64 * 1024
    tmp_bytes: int = 256 * MIB


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path and where it appears inside. A plain Path given as readable or writable keeps its place."""

    source: Path
    inside: Path


Mount = Path | Bind
Stream = int | None
"""A descriptor, ``subprocess.PIPE``, ``subprocess.DEVNULL``, ``subprocess.STDOUT``, or None to inherit."""


class Options(TypedDict, total=False):
    """How a program is run; every part may be left out.

    ``readable`` paths appear read-only, ``writable`` ones writable and owned by the sandbox's own user: when
    running as root the path itself (not what is in it) is given to that user. ``env`` is added to a fixed base;
    nothing is inherited, nor is any descriptor but those of ``pass_fds``. ``devices`` are device nodes. ``cwd`` is a
    path inside. ``python=False`` hides the Python prefixes, which programs other than Python do not need.
    """

    readable: Sequence[Mount]
    writable: Sequence[Mount]
    env: Mapping[str, str] | None
    pass_fds: Sequence[int]
    devices: Sequence[Path]
    cwd: Path | None
    limits: Limits
    python: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A program and how to run it, nothing left out: what each kind of sandbox is given."""

    argv: tuple[str, ...]
    readable: Sequence[Mount] = ()
    writable: Sequence[Mount] = ()
    env: Mapping[str, str] | None = None
    pass_fds: Sequence[int] = ()
    devices: Sequence[Path] = ()
    cwd: Path | None = None
    limits: Limits = DEFAULT_LIMITS
    python: bool = True


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished run. ``returncode`` is the exit status, or 128 + the signal that killed the program."""

    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    seconds: float
    exceeded: Exceeded | None = None
    memory_message: str = ""
    """What to tell the author if it was killed for its memory."""

    @property
    def truncated(self) -> bool:
        return self.stdout_truncated or self.stderr_truncated

    @property
    def timed_out(self) -> bool:
        return self.exceeded is Exceeded.TIME

"""What a sandbox promises, whatever makes it: limits, mounts, the result of a run, and the errors.

Not for any mechanism: bubblewrap, plain namespaces and the bare fallback live in their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentcore.sandbox.process import SandboxProcess

MIB = 1 << 20
GIB = 1 << 30


class SandboxError(RuntimeError):
    """The sandbox itself failed (not the program in it): a path to bind is missing, a mount was refused."""


class SandboxUnavailable(SandboxError):
    """This host cannot make a sandbox; the message names the package or the setting that would change that."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandboxed program may use. None means unlimited.

    ``memory_bytes`` is an address-space limit per process: leave it None for CUDA, which reserves huge ranges.
    ``processes`` counts processes and threads together. ``cpu_s`` is CPU time per process, ``wall_s`` real time
    until the whole tree is killed. ``tmp_bytes`` bounds the private ``/tmp`` and, separately, ``/dev/shm``.
    ``output_bytes`` bounds what ``run`` keeps of stdout and of stderr; more is read and dropped.
    """

    memory_bytes: int | None = 4 * GIB
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


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished run. ``returncode`` is the exit status, or 128 + the signal that killed the program."""

    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    timed_out: bool
    seconds: float

    @property
    def truncated(self) -> bool:
        return self.stdout_truncated or self.stderr_truncated


Mount = Path | Bind
Stream = int | None
"""A descriptor, ``subprocess.PIPE``, ``subprocess.DEVNULL``, ``subprocess.STDOUT``, or None to inherit."""


class Sandbox(Protocol):
    """Starts programs that cannot see, reach or outlive more than they were given.

    ``readable`` paths appear read-only, ``writable`` ones writable and owned by the sandbox's own user: when
    running as root the path itself (not what is in it) is given to that user. ``devices`` are device nodes.
    ``python=False`` hides the Python prefixes, which programs other than Python do not need.

    The thread that calls ``popen`` must live as long as the program: the kernel ties the two together.
    """

    @property
    def kind(self) -> str:
        """``bubblewrap``, ``unshare`` or ``none``; stamped on every result."""
        ...

    def popen(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Mount] = (),
        writable: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        devices: Sequence[Path] = (),
        cwd: Path | None = None,
        limits: Limits = DEFAULT_LIMITS,
        python: bool = True,
        stdin: Stream = ...,
        stdout: Stream = ...,
        stderr: Stream = ...,
    ) -> SandboxProcess:
        """Start a program. Raises SandboxError when a path to show does not exist."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Mount] = (),
        writable: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        devices: Sequence[Path] = (),
        cwd: Path | None = None,
        limits: Limits = DEFAULT_LIMITS,
        python: bool = True,
        input: bytes | None = None,
        merge_stderr: bool = False,
    ) -> Completed:
        """Run to the end, or kill the whole tree at ``limits.wall_s``. Never blocks on output, however much.

        ``merge_stderr`` sends stderr into stdout, in the order written.
        """
        ...

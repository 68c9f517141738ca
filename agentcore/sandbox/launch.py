"""The one interface of every sandbox: starting through ``popen`` and running to the end within bounds.

Not for confinement: each kind prepares its own command line.
"""

from __future__ import annotations

import abc
import contextlib
import os
import secrets
import stat
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from agentcore.sandbox.capture import BoundedCapture
from agentcore.sandbox.contract import Bind, Completed, Exceeded, Mount, Options, Program, SandboxError, Stream
from agentcore.sandbox.memory import MemoryLimit, memory_mechanism
from agentcore.sandbox.process import SandboxProcess
from agentcore.sandbox.view import missing, python_prefixes

NOBODY = 65534
_UID_BASE, _UID_SPAN = 1_900_000_000, 1 << 24


@dataclass(frozen=True, slots=True)
class Prepared:
    """A command that makes the sandbox and becomes the program. ``pass_fds`` come on top of the program's own.

    Where there is a ``go_fd`` the program waits for a line on it, its last ``pass_fds``, and ends if none will come.
    """

    command: Sequence[str]
    env: Mapping[str, str]
    pass_fds: Sequence[int] = ()
    cwd: Path | None = None
    go_fd: int | None = None


class Sandbox(abc.ABC):
    """Starts programs that cannot see, reach or outlive more than they were given.

    The thread that calls ``popen`` must live as long as the program: the kernel ties the two together.
    """

    kind: str
    """``bubblewrap``, ``unshare`` or ``none``; stamped on every result."""
    namespaced = True
    """Whether it has a pid namespace, whose first process the command reports on the status descriptor."""

    @property
    def memory_limit(self) -> str:
        """What holds a tree to its memory here: ``cgroup`` or ``watcher``; stamped on every result."""
        return memory_mechanism()[0]

    @abc.abstractmethod
    def _uid(self) -> int:
        """The uid the next program will have on the host."""

    @abc.abstractmethod
    def _prepare(self, program: Program, uid: int, status_fd: int, open_files: ExitStack) -> Prepared:
        """The command for a program. What goes on ``open_files`` is closed once it runs."""

    def popen(
        self,
        argv: Sequence[str],
        *,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
        **options: Unpack[Options],
    ) -> SandboxProcess:
        """Start a program. Raises SandboxError when a path to show does not exist or cannot be read."""
        return self._start(Program(tuple(argv), **options), stdin, stdout, stderr, aside=True)

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes | None = None,
        merge_stderr: bool = False,
        **options: Unpack[Options],
    ) -> Completed:
        """Run to the end, or kill the whole tree at its limits. Never blocks on output, however much.

        ``merge_stderr`` sends stderr into stdout, in the order written. Raises SandboxError if it never
        started, or was killed only because the host ran out of memory.
        """
        program = Program(tuple(argv), **options)
        limits = program.limits
        with BoundedCapture(limits.output_bytes) as out, BoundedCapture(limits.output_bytes) as err:
            with ExitStack() as closing:
                stdin = subprocess.DEVNULL
                if input is not None:
                    stdin = memory_file("sandbox-input", input)
                    closing.callback(os.close, stdin)
                to_stderr = subprocess.STDOUT if merge_stderr else err.write_fd
                process = self._start(program, stdin, out.write_fd, to_stderr, aside=False)
            out.close_writer()
            err.close_writer()
            with process:
                code = process.wait_watching()
            stdout, stdout_truncated = out.result()
            stderr, stderr_truncated = err.result()
            if process.setup_failed:
                said = (stderr or stdout).decode("utf-8", "replace").strip()
                raise SandboxError(f"{self.kind} sandbox could not be made: {said or f'exit status {code}'}")
            if process.exceeded is Exceeded.HOST_MEMORY:
                raise SandboxError(process.memory_message())
            return Completed(
                returncode=code,
                stdout=stdout,
                stderr=stderr,
                stdout_truncated=stdout_truncated,
                stderr_truncated=stderr_truncated,
                seconds=process.seconds,
                exceeded=process.exceeded,
                memory_message=process.memory_message(),
            )

    def _start(
        self, program: Program, stdin: Stream, stdout: Stream, stderr: Stream, *, aside: bool
    ) -> SandboxProcess:
        """``aside``: the tree's memory is watched by a process of its own, if it has to be watched."""
        limits = program.limits
        uid = self._uid()
        with ExitStack() as at_failure, ExitStack() as once_started:
            status: tuple[int, int] | None = None
            if self.namespaced:
                status = os.pipe()
                at_failure.callback(os.close, status[0])
                once_started.callback(os.close, status[1])
            prepared = self._prepare(program, uid, status[1] if status else -1, once_started)
            memory = None
            if limits.memory_bytes is not None:
                memory = MemoryLimit(limits, devices=bool(program.devices), aside=aside)
                at_failure.callback(memory.detach)
            process = subprocess.Popen(
                [*(memory.entering() if memory else ()), *prepared.command],
                env=dict(prepared.env),
                pass_fds=[*program.pass_fds, *prepared.pass_fds, *([status[1]] if status else [])],
                cwd=prepared.cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=not self.namespaced,
            )
            at_failure.pop_all()
            started = SandboxProcess(
                process, uid=uid, wall_s=limits.wall_s, status_fd=status[0] if status else None, memory=memory
            )
            if prepared.go_fd is not None and started.init_settled(prepared.pass_fds[-1]):
                with contextlib.suppress(BrokenPipeError):
                    os.write(prepared.go_fd, b"\n")
        return started


def own_uid() -> int:
    """A uid for one sandbox, of no user and of no other sandbox, or 65534 where the host maps too few uids.

    Sandboxes that shared a uid would share one process limit: a fork bomb in one would stop the builds beside it.
    """
    if _maps(_UID_BASE + _UID_SPAN):
        return _UID_BASE + secrets.randbelow(_UID_SPAN)
    return NOBODY


def _maps(uid: int) -> bool:
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= uid < first + count:
            return True
    return False


def as_binds(mounts: Sequence[Mount]) -> list[Bind]:
    """Mounts with both places spelled out, absolute. Raises SandboxError naming those that do not exist."""
    binds = [mount if isinstance(mount, Bind) else Bind(Path(mount), Path(mount)) for mount in mounts]
    absent = missing([bind.source for bind in binds])
    if absent:
        raise SandboxError(f"cannot show what does not exist in a sandbox: {', '.join(map(str, absent))}")
    return [Bind(bind.source.absolute(), bind.inside.absolute()) for bind in binds]


def check_readable(paths: Sequence[Path], python: bool) -> None:
    """As root, refuse a path that the sandbox's user could not read: better here than as a riddle inside."""
    if os.geteuid() != 0:
        return
    for path in (*paths, *(python_prefixes() if python else ())):
        mode = path.stat().st_mode
        needed = 0o005 if stat.S_ISDIR(mode) else 0o004
        if mode & needed != needed:
            raise SandboxError(f"{path} is not readable to others (mode {mode & 0o777:o}); chmod -R o+rX it")


def own_writable(binds: Sequence[Bind], uid: int) -> None:
    """As root, give each writable path (not its content) to the sandbox's user; else it is the caller's already."""
    if os.geteuid() == 0:
        for bind in binds:
            os.chown(bind.source, uid, uid, follow_symlinks=False)


def rlimits(program: Program) -> dict[str, tuple[int, int]]:
    """The limits that the kernel keeps per process (and per user, for their number), by their prlimit(1) names: (soft,
    hard). Of CPU time the hard one is a second later: at the soft one comes SIGXCPU, which says why, at the hard one
    SIGKILL.
    """
    limits = program.limits
    values = {
        "core": 0,
        "as": limits.address_bytes,
        "nproc": limits.processes,
        "fsize": limits.file_bytes,
        "cpu": limits.cpu_s,
        "nofile": limits.open_files,
    }
    return {name: (value, value + (name == "cpu")) for name, value in values.items() if value is not None}


def prlimit_command(limits: Mapping[str, tuple[int, int]]) -> list[str]:
    """Those limits as a call of prlimit(1), to be followed by the program."""
    return ["prlimit", *(f"--{name}={soft}:{hard}" for name, (soft, hard) in limits.items()), "--"]


def memory_file(name: str, content: bytes) -> int:
    """A descriptor of an anonymous file, at its start. The caller closes it."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as stream:
        stream.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd

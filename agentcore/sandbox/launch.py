"""What the kinds of sandbox share: starting through ``popen`` and running to the end within bounds.

Not for confinement: each kind builds its own command line.
"""

from __future__ import annotations

import abc
import os
import secrets
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcore.sandbox.capture import BoundedCapture
from agentcore.sandbox.contract import DEFAULT_LIMITS, Bind, Completed, Limits, Mount, SandboxError, Stream
from agentcore.sandbox.process import SandboxProcess
from agentcore.sandbox.view import missing, python_prefixes

NOBODY = 65534
_UID_BASE, _UID_SPAN = 1_900_000_000, 1 << 24


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


class Launcher(abc.ABC):
    """A sandbox kind: ``popen`` is its own, ``run`` follows from it."""

    kind: str

    @abc.abstractmethod
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
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> SandboxProcess:
        """Start a program in the sandbox; see ``contract.Sandbox``."""

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
        """Run a program to its end within bounds; see ``contract.Sandbox``. Raises SandboxError if it never started."""
        stdin = subprocess.DEVNULL
        if input is not None:
            stdin = os.memfd_create("sandbox-input", os.MFD_CLOEXEC)
            with os.fdopen(os.dup(stdin), "wb") as stream:
                stream.write(input)
            os.lseek(stdin, 0, os.SEEK_SET)
        with BoundedCapture(limits.output_bytes) as out, BoundedCapture(limits.output_bytes) as err:
            try:
                process = self.popen(
                    argv,
                    readable=readable,
                    writable=writable,
                    env=env,
                    pass_fds=pass_fds,
                    devices=devices,
                    cwd=cwd,
                    limits=limits,
                    python=python,
                    stdin=stdin,
                    stdout=out.write_fd,
                    stderr=subprocess.STDOUT if merge_stderr else err.write_fd,
                )
            finally:
                if input is not None:
                    os.close(stdin)
            out.close_writer()
            err.close_writer()
            with process:
                code = process.wait()
            stdout, stdout_truncated = out.result()
            stderr, stderr_truncated = err.result()
            if process.setup_failed:
                said = (stderr or stdout).decode("utf-8", "replace").strip()
                raise SandboxError(f"{self.kind} sandbox could not be made: {said or f'exit status {code}'}")
            return Completed(
                returncode=code,
                stdout=stdout,
                stderr=stderr,
                stdout_truncated=stdout_truncated,
                stderr_truncated=stderr_truncated,
                timed_out=process.timed_out,
                seconds=process.seconds,
            )


def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    pass_fds: Sequence[int],
    uid: int,
    wall_s: float | None,
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    cwd: Path | None = None,
    status_fds: tuple[int, int] | None = None,
    session: bool = False,
) -> SandboxProcess:
    """Start a command that makes a sandbox. ``status_fds`` is a pipe whose writing end ``command`` uses."""
    extra = [status_fds[1]] if status_fds else []
    try:
        process = subprocess.Popen(
            list(command),
            env=dict(env),
            pass_fds=[*pass_fds, *extra],
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=session,
        )
    except BaseException:
        if status_fds:
            os.close(status_fds[0])
        raise
    finally:
        if status_fds:
            os.close(status_fds[1])
    return SandboxProcess(process, uid=uid, wall_s=wall_s, status_fd=status_fds[0] if status_fds else None)

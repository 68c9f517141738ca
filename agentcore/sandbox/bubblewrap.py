"""The sandbox made by bubblewrap: as root with a uid of its own, as an ordinary user in a user namespace.

Not for hosts without bubblewrap; see ``unshare``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcore.sandbox.contract import DEFAULT_LIMITS, Bind, Limits, Mount, SandboxUnavailable, Stream
from agentcore.sandbox.launch import Launcher, as_binds, check_readable, own_uid, own_writable, start
from agentcore.sandbox.process import SandboxProcess
from agentcore.sandbox.seccomp import filter_program
from agentcore.sandbox.view import environment, host_view

_OLDEST = (0, 8)  # --size and --disable-userns


class Bubblewrap(Launcher):
    """Raises SandboxUnavailable if bubblewrap, or what it needs, is missing."""

    kind = "bubblewrap"

    def __init__(self) -> None:
        found = shutil.which("bwrap")
        if found is None:
            raise SandboxUnavailable("bwrap is not on PATH; install the Debian package bubblewrap")
        self._bwrap = found
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"(\d+)\.(\d+)", version)
        if match is None or (int(match[1]), int(match[2])) < _OLDEST:
            raise SandboxUnavailable(f"{found} is {version.strip() or 'of unknown version'}; bubblewrap 0.8 is needed")
        self._filter = filter_program()
        self._root = os.geteuid() == 0
        self._first_victim = ["choom", "-n", "1000", "--"] if shutil.which("choom") else []
        for tool in ("prlimit", *(("setpriv",) if self._root else ())):
            if shutil.which(tool) is None:
                raise SandboxUnavailable(f"{tool} is not on PATH; install the Debian package util-linux")

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
        """See ``contract.Sandbox``."""
        uid = own_uid() if self._root else os.geteuid()
        show, own = as_binds(readable), as_binds(writable)
        check_readable([bind.source for bind in show], python)
        own_writable(own, uid)
        arguments = self._namespaces()
        arguments += _mounts(show, own, devices, limits, python)
        arguments += ["--chdir", str(cwd.absolute() if cwd else "/tmp")]  # noqa: S108 (private)
        fds: list[int] = []
        try:
            fds.append(memory_file("seccomp", self._filter))
            arguments += ["--seccomp", str(fds[-1])]
            status = os.pipe()
            arguments += ["--json-status-fd", str(status[1])]
            # Through a descriptor, so that host paths do not show in the sandbox's /proc/1/cmdline.
            fds.append(memory_file("arguments", b"".join(os.fsencode(word) + b"\0" for word in arguments)))
            # Whoever fills the memory of the host is the first to be killed for it.
            command = [*self._first_victim, self._bwrap, "--args", str(fds[-1]), "--"]
            command += [*self._last_steps(uid, limits), *argv]
            return start(
                command,
                env=environment(env),
                pass_fds=[*pass_fds, *fds],
                uid=uid,
                wall_s=limits.wall_s,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                status_fds=status,
            )
        finally:
            for fd in fds:
                os.close(fd)

    def _namespaces(self) -> list[str]:
        arguments = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        arguments += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        if self._root:
            # Just enough for setpriv to change the uid and to throw these away as well.
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                arguments += ["--cap-add", capability]
        else:
            arguments += ["--unshare-user", "--disable-userns"]
        return arguments

    def _last_steps(self, uid: int, limits: Limits) -> list[str]:
        steps = ["prlimit", *limit_options(limits), "--"]
        if self._root:
            steps += ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
            steps += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--"]
        return steps


def limit_options(limits: Limits) -> list[str]:
    """The limits as options of prlimit(1)."""
    options = ["--core=0:0"]
    for name, value in (
        ("as", limits.memory_bytes),
        ("nproc", limits.processes),
        ("fsize", limits.file_bytes),
        ("cpu", limits.cpu_s),
        ("nofile", limits.open_files),
    ):
        if value is not None:
            options.append(f"--{name}={value}:{value}")
    return options


NODES = ("null", "zero", "full", "random", "urandom")


def _mounts(
    show: Sequence[Bind], own: Sequence[Bind], devices: Sequence[Path], limits: Limits, python: bool
) -> list[str]:
    view = host_view(python)
    size = str(limits.tmp_bytes)
    # Bare nodes, and no pseudo-terminals: hanging one up would continue a stopped process.
    arguments = ["--proc", "/proc", "--perms", "0755", "--tmpfs", "/dev"]
    for node in NODES:
        arguments += ["--dev-bind", f"/dev/{node}", f"/dev/{node}"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        arguments += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    arguments += ["--symlink", "/proc/self/fd", "/dev/fd"]
    arguments += ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]  # noqa: S108
    # Before the view: this very Python may live below the host's /tmp.
    arguments += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]  # noqa: S108
    # Named one by one, because bubblewrap makes parents of a mount point closed to all but their owner.
    arguments += _directories([*view.paths])
    for path in view.paths:
        arguments += ["--ro-bind", str(path), str(path)]
    for target, link in view.links:
        arguments += ["--symlink", target, str(link)]
    arguments += _directories([bind.inside for bind in (*show, *own)])
    for bind in show:
        arguments += ["--ro-bind", str(bind.source), str(bind.inside)]
    for bind in own:
        arguments += ["--bind", str(bind.source), str(bind.inside)]
    if devices:
        arguments += ["--ro-bind", "/sys", "/sys"]  # the CUDA driver looks its devices up there
        for device in devices:
            arguments += ["--dev-bind", str(device), str(device)]
    # Last, because the mount points above were made in them.
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/"]


def _directories(mount_points: Sequence[Path]) -> list[str]:
    parents = {parent for path in mount_points for parent in path.parents if parent != Path("/")}
    arguments: list[str] = []
    for parent in sorted(parents, key=lambda path: len(path.parts)):
        arguments += ["--perms", "0755", "--dir", str(parent)]
    return arguments


def memory_file(name: str, content: bytes) -> int:
    """A descriptor of an anonymous file, at its start. The caller closes it."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd

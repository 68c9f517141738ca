"""The sandbox made by bubblewrap: as root with a uid of its own, as an ordinary user in a user namespace.

Not for hosts without bubblewrap; see ``unshare``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from agentcore.sandbox.contract import Bind, Program, SandboxUnavailable
from agentcore.sandbox.launch import (
    Prepared,
    Sandbox,
    as_binds,
    check_readable,
    memory_file,
    own_uid,
    own_writable,
    prlimit_command,
    rlimits,
)
from agentcore.sandbox.seccomp import filter_program
from agentcore.sandbox.tree import kill
from agentcore.sandbox.view import NODES, environment, host_view, system_trees

_OLDEST = (0, 8)  # --size and --disable-userns
_MARK = "kernelyard-begins"


class Bubblewrap(Sandbox):
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
        self._bash = shutil.which("bash")
        self._first_victim = ["choom", "-n", "1000", "--"] if shutil.which("choom") else []
        for tool in ("prlimit", *(("setpriv",) if self._root else ())):
            if shutil.which(tool) is None:
                raise SandboxUnavailable(f"{tool} is not on PATH; install the Debian package util-linux")
        kill(_orphans())

    def _uid(self) -> int:
        return own_uid() if self._root else os.geteuid()

    def _prepare(self, program: Program, uid: int, status_fd: int, open_files: ExitStack) -> Prepared:
        show, own = as_binds(program.readable), as_binds(program.writable)
        check_readable([bind.source for bind in show], program.python)
        own_writable(own, uid)
        arguments = self._namespaces()
        arguments += _mounts(show, own, program)
        arguments += ["--chdir", str(program.cwd.absolute() if program.cwd else "/tmp")]  # noqa: S108 (private)
        seccomp = memory_file("seccomp", self._filter)
        open_files.callback(os.close, seccomp)
        arguments += ["--seccomp", str(seccomp), "--json-status-fd", str(status_fd)]
        # Through a descriptor, so that host paths do not show in the sandbox's /proc/1/cmdline.
        spoken = memory_file("arguments", b"".join(os.fsencode(word) + b"\0" for word in arguments))
        open_files.callback(os.close, spoken)
        # Whoever fills the memory of the host is the first to be killed for it.
        command = [*self._first_victim, self._bwrap, "--args", str(spoken), "--"]
        go = self._go(open_files)
        command += [*self._wait_for(go), *self._last_steps(uid, program), *program.argv]
        fds = [seccomp, spoken, *([go[0]] if go else [])]
        return Prepared(command, environment(program.env), fds, go_fd=go[1] if go else None)

    def _go(self, open_files: ExitStack) -> tuple[int, int] | None:
        """A pipe by which the program is told to begin, once bubblewrap's first process inside is bound to die with us.

        If we died before that, it would live on. A plain sh cannot close a descriptor beyond 9, so it takes bash.
        """
        if self._bash is None:
            return None
        go = os.pipe()
        for fd in go:
            open_files.callback(os.close, fd)
        return go

    @staticmethod
    def _wait_for(go: tuple[int, int] | None) -> list[str]:
        if go is None:
            return []
        script = f'read -r -u {go[0]} && exec {go[0]}<&- && unset OLDPWD PWD SHLVL && exec "$@"'
        return ["bash", "-c", script, _MARK]

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

    def _last_steps(self, uid: int, program: Program) -> list[str]:
        steps = prlimit_command(rlimits(program))
        if self._root:
            steps += ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
            steps += ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--"]
        return steps


def _mounts(show: Sequence[Bind], own: Sequence[Bind], program: Program) -> list[str]:
    view = host_view(program.python)
    size = str(program.limits.tmp_bytes)
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
    if program.devices:
        arguments += _directories(system_trees())
        for system in system_trees():
            arguments += ["--ro-bind", str(system), str(system)]
        for device in program.devices:
            arguments += ["--dev-bind", str(device), str(device)]
    # Last, because the mount points above were made in them.
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/"]


def _orphans() -> list[int]:
    """First processes of sandboxes whose starter was killed so early that bubblewrap left them waiting for ever."""
    ours: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if _MARK.encode() in words and Path(os.fsdecode(words[0])).name == "bwrap":
                status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
                ours[int(entry.name)] = [int(status["PPid"]), *map(int, status["NSpid"].split())]
    first = {pid: parent for pid, (parent, *inside) in ours.items() if len(inside) > 1 and inside[-1] == 1}
    return [pid for pid, parent in first.items() if parent not in ours]


def _directories(mount_points: Sequence[Path]) -> list[str]:
    parents = {parent for path in mount_points for parent in path.parents if parent != Path("/")}
    arguments: list[str] = []
    for parent in sorted(parents, key=lambda path: len(path.parts)):
        arguments += ["--perms", "0755", "--dir", str(parent)]
    return arguments

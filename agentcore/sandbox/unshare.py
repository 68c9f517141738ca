"""The sandbox made from plain namespaces, for root on a host without bubblewrap (GPU machines, mostly).

The work is done by ``jail``, a program of its own; this module only writes its specification.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcore.sandbox.bubblewrap import memory_file
from agentcore.sandbox.contract import DEFAULT_LIMITS, Limits, Mount, SandboxUnavailable, Stream
from agentcore.sandbox.launch import Launcher, as_binds, check_readable, own_uid, own_writable, start
from agentcore.sandbox.process import SandboxProcess
from agentcore.sandbox.seccomp import filter_program
from agentcore.sandbox.view import environment, host_view

_JAIL = Path(__file__).with_name("jail.py")


class Unshare(Launcher):
    """Raises SandboxUnavailable unless running as root."""

    kind = "unshare"

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise SandboxUnavailable("plain namespaces need root; as an ordinary user install bubblewrap")
        self._filter = filter_program()

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
        uid = own_uid()
        show, own = as_binds([*readable]), as_binds([*writable])
        as_binds([*devices])
        check_readable([bind.source for bind in show], python)
        own_writable(own, uid)
        view = host_view(python)
        status = os.pipe()
        # Links are followed here: inside the jail the host's root has moved, and absolute targets with it.
        spec = {
            "parent": os.getpid(),
            "status_fd": status[1],
            "view": [[os.path.realpath(path), str(path)] for path in view.paths],
            "links": [[target, str(link)] for target, link in view.links],
            "readable": [[os.path.realpath(bind.source), str(bind.inside)] for bind in show],
            "writable": [[os.path.realpath(bind.source), str(bind.inside)] for bind in own],
            "devices": [str(device) for device in devices],
            "tmp_bytes": limits.tmp_bytes,
            "uid": uid,
            "limits": {
                "RLIMIT_AS": limits.memory_bytes,
                "RLIMIT_NPROC": limits.processes,
                "RLIMIT_FSIZE": limits.file_bytes,
                "RLIMIT_CPU": limits.cpu_s,
                "RLIMIT_NOFILE": limits.open_files,
            },
            "cwd": str(cwd.absolute() if cwd else "/tmp"),  # noqa: S108 (private)
            "seccomp": self._filter.hex(),
            "argv": list(argv),
            "env": environment(env),
        }
        fd = memory_file("specification", json.dumps(spec).encode())
        try:
            return start(
                [sys.executable, "-I", "-S", str(_JAIL), str(fd)],
                env={"PATH": os.defpath},
                pass_fds=[*pass_fds, fd],
                uid=uid,
                wall_s=limits.wall_s,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                status_fds=status,
            )
        finally:
            os.close(fd)

"""The sandbox made from plain namespaces, for root on a host without bubblewrap (GPU machines, mostly).

The work is done by ``jail``, a program of its own; this module only writes its specification.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from agentcore.sandbox.contract import Program, SandboxUnavailable
from agentcore.sandbox.launch import (
    Prepared,
    Sandbox,
    as_binds,
    check_readable,
    memory_file,
    own_uid,
    own_writable,
    rlimits,
)
from agentcore.sandbox.seccomp import filter_program
from agentcore.sandbox.view import NODES, environment, host_view, system_trees

_JAIL = Path(__file__).with_name("jail.py")


class Unshare(Sandbox):
    """Raises SandboxUnavailable unless running as root."""

    kind = "unshare"

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise SandboxUnavailable("plain namespaces need root; as an ordinary user install bubblewrap")
        self._filter = filter_program()

    def _uid(self) -> int:
        return own_uid()

    def _prepare(self, program: Program, uid: int, status_fd: int, open_files: ExitStack) -> Prepared:
        show, own = as_binds(program.readable), as_binds(program.writable)
        as_binds([*program.devices])
        check_readable([bind.source for bind in show], program.python)
        own_writable(own, uid)
        view = host_view(program.python)
        # Links are followed here: inside the jail the host's root has moved, and absolute targets with it.
        spec = {
            "parent": os.getpid(),
            "status_fd": status_fd,
            "nodes": NODES,
            "view": [[os.path.realpath(path), str(path)] for path in view.paths],
            "links": [[target, str(link)] for target, link in view.links],
            "readable": [[os.path.realpath(bind.source), str(bind.inside)] for bind in show],
            "writable": [[os.path.realpath(bind.source), str(bind.inside)] for bind in own],
            "devices": [str(device) for device in program.devices],
            "system": [str(tree) for tree in system_trees()] if program.devices else [],
            "tmp_bytes": program.limits.tmp_bytes,
            "uid": uid,
            "limits": {f"RLIMIT_{name.upper()}": value for name, value in rlimits(program).items()},
            "cwd": str(program.cwd.absolute() if program.cwd else "/tmp"),  # noqa: S108 (private)
            "seccomp": self._filter.hex(),
            "argv": list(program.argv),
            "env": environment(program.env),
        }
        fd = memory_file("specification", json.dumps(spec).encode())
        open_files.callback(os.close, fd)
        return Prepared([sys.executable, "-I", "-S", str(_JAIL), str(fd)], {"PATH": os.defpath}, [fd])

"""No confinement at all, only limits and a scrubbed environment: for a trusted author on a host that allows no more.

Never chosen by itself; the kind ``none`` is stamped on every result made with it. It cannot show a path at another
place, cannot hide anything, and loses sight of a child that leaves its parent.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from agentcore.sandbox.contract import Program
from agentcore.sandbox.launch import Prepared, Sandbox, as_binds, prlimit_command, rlimits
from agentcore.sandbox.view import environment


class Bare(Sandbox):
    """Runs programs as the caller's own user."""

    kind = "none"
    namespaced = False

    def _uid(self) -> int:
        return os.geteuid()

    def _prepare(self, program: Program, uid: int, status_fd: int, open_files: ExitStack) -> Prepared:
        """Raises ValueError for a path to be shown at another place."""
        for bind in as_binds([*program.readable, *program.writable]):
            if bind.source != bind.inside:
                raise ValueError(f"without a sandbox {bind.source} cannot appear as {bind.inside}")
        limits = rlimits(program)
        # It counts the caller's own processes too.
        limits.pop("nproc", None)
        return Prepared(
            # Nothing else would end the program of a caller that is killed.
            ["setpriv", "--pdeathsig=KILL", "--", *prlimit_command(limits), *program.argv],
            environment(program.env, home=tempfile.gettempdir()),
            cwd=program.cwd,
        )

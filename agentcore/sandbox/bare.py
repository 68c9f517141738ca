"""No confinement at all, only limits and a scrubbed environment: for a trusted author on a host that allows no more.

Never chosen by itself; the kind ``none`` is stamped on every result made with it. It cannot show a path at another
place, cannot hide anything, and loses sight of a child that leaves its parent.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcore.sandbox.bubblewrap import limit_options
from agentcore.sandbox.contract import DEFAULT_LIMITS, Limits, Mount, Stream
from agentcore.sandbox.launch import Launcher, as_binds, start
from agentcore.sandbox.process import SandboxProcess
from agentcore.sandbox.view import environment


class Bare(Launcher):
    """Runs programs as the caller's own user."""

    kind = "none"

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
        """See ``contract.Sandbox``. Raises ValueError for a path to be shown at another place."""
        for bind in as_binds([*readable, *writable]):
            if bind.source != bind.inside:
                raise ValueError(f"without a sandbox {bind.source} cannot appear as {bind.inside}")
        # The process limit counts the caller's own processes too, so it is left out.
        options = [option for option in limit_options(limits) if not option.startswith("--nproc")]
        return start(
            ["prlimit", *options, "--", *argv],
            env=environment(env, home=tempfile.gettempdir()),
            pass_fds=pass_fds,
            uid=os.geteuid(),
            wall_s=limits.wall_s,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            session=True,
        )

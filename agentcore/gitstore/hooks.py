"""Installs the attempts repository's hooks. What they do stands in `hook`."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

HOOK_NAMES = ("pre-receive", "post-receive")


def hook_script(name: str) -> str:
    """A shell script that runs `agentcore.gitstore.hook` with this interpreter and this copy of agentcore.

    ``-P`` keeps the working directory (the repository) off the module path.
    """
    root = Path(__file__).resolve().parents[2]
    return (
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(str(root))} PYTHONDONTWRITEBYTECODE=1 \\\n"
        f"exec {shlex.quote(sys.executable)} -P -m agentcore.gitstore.hook {name}\n"
    )


def install_hooks(repository: Path) -> None:
    """Write the hooks where they are missing or run another interpreter. Each is replaced in one step."""
    directory = repository / "hooks"
    directory.mkdir(exist_ok=True)
    for name in HOOK_NAMES:
        target = directory / name
        script = hook_script(name)
        if target.is_file() and target.read_text() == script and os.access(target, os.X_OK):
            continue
        descriptor, scratch = tempfile.mkstemp(dir=directory, prefix=f".{name}.")
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        Path(scratch).chmod(0o755)
        Path(scratch).replace(target)

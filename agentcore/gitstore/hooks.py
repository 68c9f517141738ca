"""Installs the attempts repository's hooks: pre-receive checks a push (see `hook`), post-receive answers it.

pre-receive checks every ref while its objects are in quarantine and refuses the push as a whole. post-receive tells
the pusher where the result will appear, and tells the portal (by a file) which refs moved; it is a few lines of shell,
since every push waits for it and there is nothing left to check.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HOOK_NAMES = ("pre-receive", "post-receive")
_RUN_HOOK = "import sys; sys.path += sys.argv[1:]; from agentcore.gitstore.hook import main; sys.exit(main())"
_POST_RECEIVE = """\
#!/bin/sh
# KERNELYARD_PUBLIC_URL: the portal's address. KERNELYARD_RECEIVED: a file for the names of the refs that moved.
exec >&2
while read -r old new ref; do
    case $new in *[!0]*) ;; *) continue ;; esac
    if [ -n "$KERNELYARD_RECEIVED" ]; then printf '%s\n' "$ref" >>"$KERNELYARD_RECEIVED"; fi
    short=${new%"${new#????????????}"}
    printf 'attempt %s on %s is stored; its evaluation is queued\n' "$short" "${ref#refs/heads/}"
    if [ -n "$KERNELYARD_PUBLIC_URL" ]; then printf '  %s/attempts/%s/\n' "${KERNELYARD_PUBLIC_URL%/}" "$new"; fi
    printf '  see the result with: ./yard result %s --wait\n' "$short"
done
"""


def hook_script(name: str) -> str:
    """The shell script of a hook. pre-receive runs `agentcore.gitstore.hook` with this interpreter and this copy of
    agentcore.

    ``-I`` keeps the working directory (the repository) and the environment off the module path; ``-S`` saves what
    ``site`` looks for, so GitPython's place is passed along, behind the standard library.
    """
    if name == "post-receive":
        return _POST_RECEIVE
    places = dict.fromkeys([str(Path(__file__).resolve().parents[2]), *map(_place, ("git", "gitdb", "smmap"))])
    return f"#!/bin/sh\nexec {shlex.join([sys.executable, '-I', '-S', '-c', _RUN_HOOK, *places])}\n"


def _place(package: str) -> str:
    """The directory that ``package`` is imported from."""
    found = find_spec(package)
    assert found and found.origin, package
    return str(Path(found.origin).parents[1])


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

"""Choosing a sandbox: the strongest kind that works on this host, proven by running a program in it.

Never weaker in silence: with ``auto``, a host that can make no namespaces raises, and says what is missing.
"""

from __future__ import annotations

from functools import cache

from agentcore.sandbox.bare import Bare
from agentcore.sandbox.bubblewrap import Bubblewrap
from agentcore.sandbox.contract import Limits, SandboxError, SandboxUnavailable
from agentcore.sandbox.launch import Sandbox
from agentcore.sandbox.unshare import Unshare

SETTINGS = ("auto", "bubblewrap", "unshare", "none")
_KINDS: dict[str, type[Bubblewrap | Unshare | Bare]] = {"bubblewrap": Bubblewrap, "unshare": Unshare, "none": Bare}


@cache
def find_sandbox(setting: str = "auto") -> Sandbox:
    """The sandbox for a setting: ``auto`` (bubblewrap, else plain namespaces as root), or one kind by name.

    ``none`` must be asked for by name. Raises ValueError for another word, SandboxUnavailable saying why and which
    package would help.
    """
    if setting not in SETTINGS:
        raise ValueError(f"sandbox setting {setting!r} is none of: {', '.join(SETTINGS)}")
    reasons = []
    for kind in ("bubblewrap", "unshare") if setting == "auto" else (setting,):
        try:
            sandbox = _KINDS[kind]()
            _prove(sandbox)
        except SandboxError as error:
            reasons.append(f"{kind}: {error}")
        else:
            return sandbox
    raise SandboxUnavailable("no sandbox can be made on this host. " + "; ".join(reasons))


def _prove(sandbox: Sandbox) -> None:
    done = sandbox.run(["true"], limits=Limits(wall_s=20), python=False)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise SandboxUnavailable(f"a first program in it ended with {done.returncode}: {said}")

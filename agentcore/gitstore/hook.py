"""What git runs when a push arrives at the attempts repository, as its pre-receive hook (see `hooks`).

It checks every ref while its objects are in quarantine and refuses the push as a whole. Nothing here trusts the push,
and without an authenticated agent nothing is accepted.

Environment: KERNELYARD_AGENT (required), GIT_DIR and git's quarantine.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from agentcore.gitstore.policy import PushPolicy, refusal
from agentcore.gitstore.records import OID_PATTERN
from agentcore.gitstore.repository import Repository
from agentcore.vocabulary import NAME_PATTERN

MAX_REFS = 20
_LOG_BYTES = 1 << 20
_INPUT_BYTES = 1 << 20


def pre_receive(repository: Path, updates: Sequence[tuple[str, str, str]], agent: str) -> list[str]:
    """Violations of a push, each update being ``(old, new, ref)``; empty to let it land."""
    if not NAME_PATTERN.match(agent):
        return ["no agent is signed in. Push over HTTP with the agent's name and token."]
    if len(updates) > MAX_REFS:
        return [f"{len(updates)} branches in one push, more than {MAX_REFS}. Push them in several steps."]
    violations: list[str] = []
    with Repository(repository, quarantine=True) as opened:
        policy = PushPolicy(opened)
        for old, new, ref in updates:
            violations += policy.check(old, new, ref, agent)
    return violations


def _updates(text: str) -> list[tuple[str, str, str]]:
    updates = []
    for line in text.splitlines():
        old, new, ref = line.split(" ", 2)
        if not OID_PATTERN.match(old) or not OID_PATTERN.match(new):
            raise ValueError(f"git gave the hook an unexpected line: {line[:200]!r}")
        updates.append((old, new, ref))
    return updates


def _log(repository: Path) -> None:
    """Keep the traceback on the host: it is not for the pusher."""
    path = repository / "kernelyard-hook.log"
    mode = "w" if path.exists() and path.stat().st_size > _LOG_BYTES else "a"
    with path.open(mode) as file:
        traceback.print_exc(file=file)


def main() -> int:
    repository = Path(os.environ.get("GIT_DIR", ".")).resolve()
    try:
        updates = _updates(sys.stdin.read(_INPUT_BYTES))
        if violations := pre_receive(repository, updates, os.environ.get("KERNELYARD_AGENT", "")):
            print(refusal(violations), file=sys.stderr)
            return 1
    except Exception:
        _log(repository)
        print(
            "the push could not be checked, so nothing of it was stored. Try again, or tell the operator.",
            file=sys.stderr,
        )
        return 1
    return 0

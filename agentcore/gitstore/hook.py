"""What git runs when a push arrives at the attempts repository: ``python -m agentcore.gitstore.hook <name>``.

pre-receive checks every ref while its objects are in quarantine and refuses the push as a whole; post-receive tells
the pusher where the result will appear, and tells the portal (by a file) which refs moved. Nothing here trusts the
push, and without an authenticated agent nothing is accepted.

Environment: KERNELYARD_AGENT (required), KERNELYARD_PUBLIC_URL, KERNELYARD_RECEIVED (file for the moved refs).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcore.gitstore.policy import PushPolicy, refusal
from agentcore.gitstore.records import NO_OID, OID_PATTERN
from agentcore.gitstore.repository import Repository
from agentcore.vocabulary import NAME_PATTERN, AttemptRef

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


def post_receive(updates: Iterable[tuple[str, str, str]], url: str) -> str:
    """What the pusher reads after a push that landed."""
    lines: list[str] = []
    for _, new, ref in updates:
        try:
            attempt = AttemptRef.parse(ref)
        except ValueError:
            continue
        lines.append(f"attempt {new[:12]} on {attempt.branch} is stored and will be evaluated")
        if url:
            lines.append(f"  {url.rstrip('/')}/attempts/{new}/")
        lines.append(f"  see the result with: ./yard result {new[:12]} --wait")
    return "\n".join(lines)


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


def main(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments else ""
    repository = Path(os.environ.get("GIT_DIR", ".")).resolve()
    try:
        updates = _updates(sys.stdin.read(_INPUT_BYTES))
        if name == "pre-receive":
            if violations := pre_receive(repository, updates, os.environ.get("KERNELYARD_AGENT", "")):
                print(refusal(violations), file=sys.stderr)
                return 1
        elif name == "post-receive":
            if received := os.environ.get("KERNELYARD_RECEIVED"):
                moved = [ref for _, new, ref in updates if new != NO_OID]
                with Path(received).open("a") as file:
                    file.writelines(f"{ref}\n" for ref in moved)
            print(post_receive(updates, os.environ.get("KERNELYARD_PUBLIC_URL", "")), file=sys.stderr)
        else:
            print(f"unknown hook {name!r}", file=sys.stderr)
            return 2
    except Exception:
        _log(repository)
        if name == "pre-receive":
            print(
                "the push could not be checked, so nothing of it was stored. Try again, or tell the operator.",
                file=sys.stderr,
            )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

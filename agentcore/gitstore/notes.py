"""Git notes as an append-only record: one JSON object a line, many commits in one note commit.

Not for what the lines mean. One writer at a time (a lock on this host, compare-and-swap across hosts).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from agentcore.gitstore.process import GitStoreError
from agentcore.gitstore.records import SYSTEM
from agentcore.gitstore.repository import Lost, Repository

NOTES_PREFIX = "refs/notes/"
MAX_LINE_BYTES = 4 << 20
_TRIES = 5
_NAMESPACE = re.compile(r"[a-z][a-z0-9-]{0,40}\Z")


def notes_ref(namespace: str) -> str:
    """Raises GitStoreError where ``namespace`` is no plain lower-case word."""
    if not _NAMESPACE.match(namespace):
        raise GitStoreError(f"notes namespace {namespace!r} must be lower-case letters, digits and '-'")
    return NOTES_PREFIX + namespace


def append(repository: Repository, namespace: str, entries: Iterable[tuple[str, str]]) -> str | None:
    """Append each ``(commit, line)`` in one commit on ``refs/notes/<namespace>``; all of them or none.

    Lines of one commit keep their order. Returns the notes commit, or None where there was nothing to append.
    Raises GitStoreError naming the first unknown commit or unfit line.
    """
    ref = notes_ref(namespace)
    added: dict[str, list[str]] = {}
    for oid, line in entries:
        if "\n" in line or "\r" in line or not line.strip():
            raise GitStoreError(f"the {namespace} note of {oid} must be one line that is not empty")
        if len(line.encode()) > MAX_LINE_BYTES:
            raise GitStoreError(f"the {namespace} note of {oid} is longer than {MAX_LINE_BYTES} bytes")
        added.setdefault(oid, []).append(line)
    if not added:
        return None
    for oid in added:
        if not repository.has_commit(oid):
            raise GitStoreError(f"{namespace} note: there is no commit {oid} in {repository.path.name}")
    with repository.lock("notes"):
        for attempt in range(_TRIES):
            try:
                return _append_once(repository, ref, added)
            except Lost:
                if attempt == _TRIES - 1:
                    raise
    raise AssertionError("unreachable")


def _append_once(repository: Repository, ref: str, added: dict[str, list[str]]) -> str:
    old = repository.resolve(ref)
    count = sum(len(lines) for lines in added.values())
    when = int(datetime.now(UTC).timestamp())
    scratch = f"refs/kernelyard/scratch/{ref.removeprefix(NOTES_PREFIX)}"
    stream = bytearray()
    message = f"Append {count} line{'s' if count != 1 else ''}".encode()
    stream += f"commit {scratch}\ncommitter {SYSTEM.name} <{SYSTEM.email}> {when} +0000\n".encode()
    stream += b"data %d\n%s\n" % (len(message), message)
    # Start from the notes commit itself or from nothing, never from what an interrupted writer left in scratch.
    if old is not None:
        stream += f"from {old}\n".encode()
    else:
        stream += b"deleteall\n"
    for oid, lines in added.items():
        before = _note(repository, ref, oid) if old is not None else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        content = before + "".join(f"{line}\n" for line in lines).encode()
        stream += b"N inline %s\ndata %d\n%s\n" % (oid.encode(), len(content), content)
    stream += b"done\n"
    # fast-import keeps the notes tree's fan-out and needs one process however long the batch is.
    repository.git.run("update_ref", "-d", scratch)
    repository.git.run("fast_import", "--quiet", "--done", "--date-format=raw", stdin=bytes(stream))
    new = repository.resolve(scratch)
    if new is None:
        raise GitStoreError(f"git fast-import wrote no commit for {ref}")
    repository.move(ref, new, old)
    repository.git.run("update_ref", "-d", scratch)
    return new


def read(repository: Repository, namespace: str, oid: str) -> list[str]:
    """The lines noted on one commit, oldest first; empty where there are none."""
    ref = notes_ref(namespace)
    return _lines(_note(repository, ref, oid)) if repository.resolve(ref) is not None else []


def iterate(repository: Repository, namespace: str) -> Iterator[tuple[str, list[str]]]:
    """``(commit, lines)`` of every note, one at a time, through two processes."""
    ref = notes_ref(namespace)
    if repository.resolve(ref) is None:
        return
    for pair in repository.git.lines("notes", f"--ref={ref}", "list"):
        blob, _, oid = pair.partition(" ")
        if len(oid) == 40 and (found := repository.git.read_object(blob)) is not None:
            yield oid, _lines(found[1])


def _note(repository: Repository, ref: str, oid: str) -> bytes:
    """A note's content, found by walking the fan-out directories with object reads: no process per commit."""
    directory, rest = "", oid
    while rest:
        found = repository.git.read_object(f"{ref}:{directory}{rest}")
        if found is not None and found[0] == "blob":
            return found[1]
        directory, rest = f"{directory}{rest[:2]}/", rest[2:]
        if repository.git.object_type(f"{ref}:{directory[:-1]}") != "tree":
            break
    return b""


def _lines(content: bytes) -> list[str]:
    return [line for line in content.decode(errors="replace").split("\n") if line.strip()]

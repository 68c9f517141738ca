"""What may be pushed to the attempts repository: every new commit is checked while it still is in quarantine.

Each violation names the ref, commit, file or trailer at fault and says what to do; it is meant for the pusher's
terminal, so everything quoted from the push is escaped. Not for authentication: the agent's name is given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from agentcore.gitstore.process import GitStoreError
from agentcore.gitstore.records import KNOWN_TRAILERS, NO_OID, CommitRecord, Identity
from agentcore.gitstore.repository import MAIN, Repository
from agentcore.gitstore.shape import read_tree, shape_fault
from agentcore.paths import (
    FILE_MODE,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    clashes,
    kernel_path_fault,
    shown,
)
from agentcore.vocabulary import ATTEMPT_REF_PREFIX, AttemptRef

MAX_COMMITS = 50
MAX_COMMIT_BYTES = 64 << 10
MAX_TRAILER_CHARACTERS = 1000
_MAX_LISTING_BYTES = 1 << 20
_EARLIEST = datetime(2005, 1, 1, tzinfo=UTC)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MODES = {
    "120000": "a symbolic link; commit the file it points at instead",
    "160000": "a submodule; commit the files themselves instead",
    "100755": "executable; run: git update-index --chmod=-x <file>, then commit",
}


@dataclass(frozen=True, slots=True)
class _Change:
    mode: str
    path: bytes


class PushPolicy:
    """Checks pushes against one repository. Opened with ``quarantine=True`` it sees what has not landed yet."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._git = repository.git

    def check(self, old: str | None, new: str | None, ref: str, agent: str) -> list[str]:
        """Violations of moving ``ref`` from ``old`` to ``new`` (None or zeros: absent) by ``agent``."""
        before = None if old in (None, NO_OID) else old
        if new is None or new == NO_OID:
            return [f"{shown(ref)}: branches are not deleted, since every attempt stays. Start a new slug instead."]
        try:
            target = AttemptRef.parse(ref) if ref.startswith(ATTEMPT_REF_PREFIX) else None
        except ValueError as error:
            return [f"{_printable(str(error))}. Push to attempts/<problem>/<language>/{agent}/<slug>."]
        if target is None:
            return [
                f"{shown(ref)}: agents push only to their own attempts. "
                f"Use: git push origin HEAD:refs/heads/attempts/<problem>/<language>/{agent}/<slug>"
            ]
        if target.agent != agent:
            return [
                f"{shown(ref)}: this belongs to agent {target.agent!r} and you are {agent!r}. "
                f"Push to attempts/{target.problem}/{target.language}/{agent}/<slug>; you may build on their commits."
            ]
        if fault := self._problem_fault(target):
            return [fault]
        if self._git.object_type(new) != "commit":
            return [f"{shown(ref)}: it does not point at a commit. Push a branch."]
        if before is not None and not self._repository.is_ancestor(before, new):
            return [
                f"{shown(ref)}: commits already stored would be lost (not a fast-forward). "
                f"Commit on top of {before[:12]}, or push to a new slug."
            ]
        return list(self._history_faults(before, new, target))

    @cached_property
    def _main(self) -> str | None:
        return self._repository.resolve(MAIN)

    def _problem_fault(self, target: AttemptRef) -> str | None:
        problems = self._git.object_id(f"{self._main}:problems") if self._main else None
        known = [name.decode(errors="replace") for name in read_tree(self._git, problems)] if problems else []
        if not known or target.problem in known:
            return None
        near = difflib.get_close_matches(target.problem, known, n=3)
        meant = f"Did you mean: {', '.join(map(_printable, near))}?" if near else ""
        return f"there is no problem {target.problem!r}. {meant or f'`./yard problems` lists all {len(known)}.'}"

    def _history_faults(self, before: str | None, new: str, target: AttemptRef) -> Iterator[str]:
        known = [oid for oid in (before, self._main) if oid]
        # Only this problem's attempts are listed: enumerating every ref would take seconds in a large repository.
        oids = self._git.text(
            "rev_list",
            f"--max-count={MAX_COMMITS + 1}",
            "--topo-order",
            new,
            "--not",
            *known,
            f"--glob={ATTEMPT_REF_PREFIX}{target.problem}/",
        ).split()
        if not oids:
            yield (
                f"{target.branch}: it holds no new commit. Change {target.kernel_path}/, commit, and push again "
                "(git commit --allow-empty if the kernel is meant to stay as it is)."
            )
            return
        if len(oids) > MAX_COMMITS:
            yield (
                f"{target.branch}: it brings more than {MAX_COMMITS} new commits. Start from main or from another "
                f"attempt at {target.problem}, and push each attempt when it is made."
            )
            return
        for oid in reversed(oids):
            # Later commits build on a commit refused here, and listing trees that were not looked at may never end.
            if fault := self._raw_fault(oid):
                yield f"commit {oid[:12]}: {fault}"
                return
            record = self._repository.commit(oid)
            if fault := self._parent_fault(record, target) or self._shape_fault(record):
                yield f"commit {oid[:12]}: {fault}"
                return
            for fault in self._commit_faults(record, target):
                yield f"commit {oid[:12]}: {fault}"

    def _raw_fault(self, oid: str) -> str | None:
        """What is wrong with the commit object as bytes, before anything parses it."""
        size = self._git.object_size(oid)
        if size > MAX_COMMIT_BYTES:
            return f"its message and headers take {size} bytes, more than {MAX_COMMIT_BYTES}. Shorten the message."
        found = self._git.read_object(oid)
        if found is None:
            return "it is missing from the push. Run git fsck in your clone."
        headers, _, _ = found[1].partition(b"\n\n")
        for line in headers.split(b"\n"):
            if line.startswith(b"encoding ") and line[9:].lower() not in (b"utf-8", b"utf8"):
                return "its message is not UTF-8. Unset i18n.commitEncoding and amend it."
            if line.startswith(b"mergetag "):
                return "it merges a tag. Commit on top of one attempt instead."
        try:
            text = found[1].decode()
        except UnicodeDecodeError:
            return "its message or a name is not valid UTF-8. Amend it."
        if match := _CONTROL.search(text):
            return f"it holds the control character U+{ord(match.group()):04X}. Amend it without."
        return None

    def _parent_fault(self, record: CommitRecord, target: AttemptRef) -> str | None:
        if len(record.parents) == 1:
            return None
        what = "has no parent" if not record.parents else f"merges {len(record.parents)} commits"
        return (
            f"it {what}. An attempt builds on exactly one commit: main, or the attempt at {target.problem} "
            "that it improves."
        )

    def _shape_fault(self, record: CommitRecord) -> str | None:
        before = self._git.object_id(f"{record.parents[0]}^{{tree}}")
        if before is None:
            raise GitStoreError(f"{record.parents[0]}, the parent of {record.oid}, is no commit")
        return shape_fault(self._git, before, record.tree)

    def _commit_faults(self, record: CommitRecord, target: AttemptRef) -> Iterator[str]:
        """Faults of a commit with one parent and trees of a bounded shape."""
        yield from self._identity_faults(record, target.agent)
        yield from self._trailer_faults(record, target)
        yield from self._change_faults(record, target)
        yield from self._tree_faults(record, target)

    def _identity_faults(self, record: CommitRecord, agent: str) -> Iterator[str]:
        expected = Identity.of_agent(agent)
        for what, name, email in (
            ("author", record.author_name, record.author_email),
            ("committer", record.committer_name, record.committer_email),
        ):
            if (name, email) != (expected.name, expected.email):
                yield (
                    f"its {what} is {_printable(name)} <{_printable(email)}>, expected {expected.name} "
                    f"<{expected.email}>. Run: git config user.name {expected.name}; git config user.email "
                    f"{expected.email}; git commit --amend --reset-author"
                )
        if not record.subject:
            yield "its message is empty. Say in a line what this attempt tries."
        for what, at in (("author", record.authored_at), ("committer", record.committed_at)):
            if not _EARLIEST <= at <= datetime.now(UTC) + timedelta(days=1):
                yield f"its {what} date {at:%Y-%m-%d} is not plausible. Set the clock and amend it with --reset-author."

    def _trailer_faults(self, record: CommitRecord, target: AttemptRef) -> Iterator[str]:
        values: dict[str, list[str]] = {}
        for key, value in record.trailer_pairs:
            values.setdefault(key, []).append(value)
        expected = {"Problem": target.problem, "Language": str(target.language), "Agent": target.agent}
        for key, value in expected.items():
            found = values.get(key, [])
            if not found:
                yield f"the trailer {key}: is missing. End the message with a paragraph that holds '{key}: {value}'."
            elif found != [value]:
                said = ", ".join(shown(item) for item in found[:3])
                yield f"the trailer {key}: says {said}, but the branch says {value!r}. Make them agree (once each)."
        for key in KNOWN_TRAILERS:
            found = values.get(key, [])
            if key not in expected and len(found) > 1:
                yield f"the trailer {key}: occurs {len(found)} times. Keep one."
            if any(len(item) > MAX_TRAILER_CHARACTERS for item in found):
                yield f"the trailer {key}: is longer than {MAX_TRAILER_CHARACTERS} characters. Move it to the body."

    def _change_faults(self, record: CommitRecord, target: AttemptRef) -> Iterator[str]:
        data, more = self._git.head(
            "diff_tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-commit-id",
            "--no-ext-diff",
            record.parents[0],
            record.oid,
            limit=_MAX_LISTING_BYTES,
        )
        if more:
            yield f"it changes too many files. Change only {target.kernel_path}/ (at most {MAX_FILES} files)."
            return
        for change in _changes(data):
            path = change.path.decode(errors="surrogateescape")
            if not path.startswith(f"{target.kernel_path}/"):
                yield (
                    f"file {shown(path)} lies outside {target.kernel_path}/, the only place this branch may change. "
                    f"Restore it (git checkout {record.parents[0][:12]} -- <file>), and start from main or from "
                    f"another attempt at {target.problem}."
                )

    def _tree_faults(self, record: CommitRecord, target: AttemptRef) -> Iterator[str]:
        """Faults of the whole kernel directory as this commit leaves it, changed here or not."""
        data, more = self._git.head(
            "ls_tree",
            "-r",
            "-z",
            "-l",
            "--full-tree",
            record.oid,
            "--",
            f"{target.kernel_path}/",
            limit=_MAX_LISTING_BYTES,
        )
        entries = self._repository.parse_entries(data) if not more else []
        if more or len(entries) > MAX_FILES:
            yield f"{target.kernel_path}/ holds {len(entries) or 'too many'} files, more than {MAX_FILES}. Remove some."
            return
        start = len(target.kernel_path) + 1
        names = [entry.path[start:] for entry in entries]
        if target.language.source_name not in names:
            yield f"file {target.kernel_path}/{target.language.source_name} is missing. A kernel starts from it."
        total = 0
        for entry, name in zip(entries, names, strict=True):
            total += max(entry.size, 0)
            if entry.mode != FILE_MODE:
                yield f"file {shown(entry.path)} is {_MODES.get(entry.mode, f'of mode {entry.mode}; not accepted')}."
            elif entry.size > MAX_FILE_BYTES:
                yield f"file {shown(entry.path)} has {entry.size} bytes, more than {MAX_FILE_BYTES}. Make it smaller."
            if fault := kernel_path_fault(name):
                yield f"file {shown(entry.path)}: {fault}."
        if total > MAX_TOTAL_BYTES:
            yield f"{target.kernel_path}/ takes {total} bytes, more than {MAX_TOTAL_BYTES} together. Make it smaller."
        for one, other in clashes(names):
            yield f"files {shown(one)} and {shown(other)} differ only in case or form. Rename one."


def refusal(violations: list[str], limit: int = 20) -> str:
    """The text of a refused push, for a terminal."""
    lines = ["push refused, and nothing of it was stored:", ""]
    lines += [f"  * {violation}" for violation in violations[:limit]]
    if len(violations) > limit:
        lines.append(f"  ... and {len(violations) - limit} more.")
    return "\n".join([*lines, ""])


def _changes(data: bytes) -> Iterator[_Change]:
    """The records of ``diff-tree -z --raw --no-renames``: ``:old new oid oid status NUL path NUL``."""
    parts = data.split(b"\0")[:-1]
    if len(parts) % 2:
        raise GitStoreError("git diff-tree answered a record without a path")
    for head, path in zip(parts[::2], parts[1::2], strict=True):
        yield _Change(head.split()[1].decode(), path)


def _printable(text: str) -> str:
    """Hostile text for a terminal: bounded and without control characters, but readable."""
    clean = text if len(text) <= 100 else text[:97] + "..."
    return clean if clean.isprintable() else ascii(clean)

"""The attempts repository: every attempt is a commit on ``refs/heads/attempts/<problem>/<language>/<agent>/<slug>``.

Its main holds what agents start from. Not for judging or queueing, and not for what may be pushed: see `policy`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from agentcore.gitstore import notes
from agentcore.gitstore.hooks import install_hooks
from agentcore.gitstore.policy import PushPolicy
from agentcore.gitstore.process import GitStoreError
from agentcore.gitstore.records import SYSTEM, Identity, with_trailers
from agentcore.gitstore.repository import MAIN, Repository, Seed, seed_files
from agentcore.paths import FILE_MODE, MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES
from agentcore.vocabulary import ATTEMPT_REF_PREFIX, AttemptRef

MAX_PUSH_BYTES = 16 << 20
_READABLE_MODES = (FILE_MODE, "100755")  # main's starting kernels may be executable; agents' files may not


class AttemptsRepository(Repository):
    CONFIGURATION: Mapping[str, str] = {
        "receive.denyDeletes": "true",
        "receive.denyNonFastForwards": "true",
        "receive.fsckObjects": "true",
        "receive.maxInputSize": str(MAX_PUSH_BYTES),
        "receive.advertisePushOptions": "false",
        "receive.unpackLimit": "100",
    }

    @classmethod
    def create(cls, path: Path, seed: Seed = (), message: str = "Start the attempts repository") -> Self:
        """A new repository whose main holds ``seed`` (a directory, or ``(path, content)`` pairs), with its hooks."""
        return super().create(path, seed, message)

    def configure(self) -> None:
        super().configure()
        install_hooks(self.path)

    def update_main(self, seed: Seed, message: str, *, remove: Iterable[str] = ()) -> str | None:
        """Commit ``seed`` over main, without the paths ``remove``; the new commit, or None where nothing changes."""
        base = self.resolve(MAIN)
        tree = self.write_tree(base, remove, dict(seed_files(seed)))
        if base is not None and self.commit(base).tree == tree:
            return None
        commit = self.write_commit(tree, [base] if base else [], message, SYSTEM)
        self.move(MAIN, commit, base)
        return commit

    # Attempts

    def attempt_refs(self, prefix: str = "") -> Iterator[tuple[AttemptRef, str]]:
        """Every attempt branch and its tip, by name. ``prefix`` is leading parts, ``"problem/language"``."""
        pattern = ATTEMPT_REF_PREFIX + prefix.strip("/")
        for line in self.git.lines("for_each_ref", "--format=%(refname) %(objectname)", pattern.rstrip("/")):
            name, _, oid = line.rpartition(" ")
            try:
                yield AttemptRef.parse(name), oid
            except ValueError:
                continue  # made by hand on the host: no attempt

    def new_commits(self, old: str | None, new: str) -> list[str]:
        """The commits of ``new`` that are neither in ``old`` (if given) nor in main, oldest first."""
        main = self.resolve(MAIN)
        known = [f"^{oid}" for oid in (old, main) if oid]
        return self.git.text("rev_list", "--reverse", "--topo-order", "--first-parent", new, *known).split()

    def kernel_tree(self, oid: str, ref: AttemptRef) -> str | None:
        """The tree id of the kernel directory: equal ids are equal kernels. None where there is no kernel."""
        return self.tree_at(oid, ref.kernel_path)

    def read_kernel(self, oid: str, ref: AttemptRef) -> dict[str, bytes]:
        """The kernel's files by their path inside the kernel directory. Raises GitStoreError past a bound."""
        entries = [entry for entry in self.entries(oid, ref.kernel_path) if entry.kind != "tree"]
        if not entries:
            raise GitStoreError(f"commit {oid} has no files under {ref.kernel_path}/")
        if len(entries) > MAX_FILES:
            raise GitStoreError(f"commit {oid}: {ref.kernel_path}/ has {len(entries)} files, more than {MAX_FILES}")
        total = 0
        for entry in entries:
            total += max(entry.size, 0)
            if entry.mode not in _READABLE_MODES:
                raise GitStoreError(f"commit {oid}: {entry.path!r} has mode {entry.mode}; only regular files are read")
            if entry.size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES:
                raise GitStoreError(f"commit {oid}: {entry.path!r} takes the kernel past its size limit")
        start = len(ref.kernel_path) + 1
        return {entry.path[start:]: self.blob(entry.oid) for entry in entries}

    def export_kernel(self, oid: str, ref: AttemptRef, destination: Path) -> None:
        """Write the kernel's files below ``destination``, which must be new or empty. Files are mode 0644."""
        files = self.read_kernel(oid, ref)
        destination.mkdir(parents=True, exist_ok=True)
        if any(destination.iterdir()):
            raise GitStoreError(f"{destination} is not empty; export a kernel into a directory of its own")
        for name, content in files.items():
            if any(part in ("", ".", "..") for part in name.split("/")):
                raise GitStoreError(f"commit {oid}: {name!r} leaves the kernel directory")
            target = destination / name
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)

    def nearest_ancestor(self, oid: str, candidates: Collection[str]) -> str | None:
        """The first commit among ``candidates`` on the way from ``oid``'s first parent to the root, or None."""
        wanted = frozenset(candidates) - {oid}
        if wanted:
            for ancestor in self.git.lines("rev_list", "--first-parent", oid):
                if ancestor in wanted:
                    return ancestor
        return None

    def commit_attempt(
        self,
        ref: AttemptRef,
        files: Mapping[str, bytes],
        message: str,
        author: Identity | str | None = None,
        parent: str | None = None,
        trailers: Mapping[str, str] | None = None,
    ) -> str:
        """Commit ``files`` as the whole kernel directory on ``ref`` and return the commit, as a push would.

        ``parent`` defaults to the branch's tip, or main for a new branch. The trailers Problem, Language and Agent
        are added, and ``trailers`` after them. ``author`` is the ref's agent: anything else breaks the push policy.
        Raises GitStoreError with the policy's words, or Lost where the branch moved meanwhile; then nothing changed.
        """
        tip = self.resolve(ref.ref)
        base = parent or tip or self.resolve(MAIN)
        if base is None:
            raise GitStoreError(f"{self.path.name} has no main to start {ref.branch} from")
        identity = author if isinstance(author, Identity) else Identity.of_agent(author or ref.agent)
        own = {"Problem": ref.problem, "Language": str(ref.language), "Agent": ref.agent, **(trailers or {})}
        tree = self.write_tree(
            base, [ref.kernel_path], {f"{ref.kernel_path}/{name}": content for name, content in files.items()}
        )
        commit = self.write_commit(tree, [base], with_trailers(message, own, join=True), identity)
        if violations := self.check_push(tip, commit, ref.ref, ref.agent):
            raise GitStoreError("\n".join(violations))
        self.move(ref.ref, commit, tip)
        return commit

    def check_push(self, old: str | None, new: str | None, ref: str, agent: str) -> list[str]:
        """What forbids ``agent`` to move ``ref`` from ``old`` to ``new``; empty if nothing does. See `policy`."""
        return PushPolicy(self).check(old, new, ref, agent)

    # Notes

    def append_notes(self, namespace: str, entries: Iterable[tuple[str, str]]) -> None:
        """Append ``(commit, line)`` pairs to ``refs/notes/<namespace>`` in one commit: all of them or none."""
        notes.append(self, namespace, entries)

    def read_notes(self, namespace: str, oid: str) -> list[str]:
        """The lines noted on one commit, oldest first."""
        return notes.read(self, namespace, oid)

    def iter_notes(self, namespace: str) -> Iterator[tuple[str, list[str]]]:
        """``(commit, lines)`` of every noted commit."""
        return notes.iterate(self, namespace)

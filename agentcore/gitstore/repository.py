"""What both repositories share: creating one, reading commits and trees, and writing commits with compare-and-swap.

Not for policy or meaning: what an attempt or a solution is stands in `attempts` and `solutions`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from agentcore.gitstore.process import GitProcess, GitStoreError, init_bare
from agentcore.gitstore.records import COMMIT_FORMAT, NO_OID, OID_PATTERN, SYSTEM, CommitRecord, Identity, parse_commits
from agentcore.gitstore.scratch import sweep as sweep_scratch

MAIN = "refs/heads/main"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MAX_PATCH_BYTES = 512 << 10
_STALE_S = 3600.0
_LOCK_POLL_S = 0.1
Seed = Path | Iterable[tuple[str, bytes]]
SHARED_CONFIGURATION: dict[str, str] = {
    "core.logAllRefUpdates": "false",
    "core.fsync": "committed,loose-object,reference",
    "core.bigFileThreshold": "8m",  # larger blobs are streamed, not held
    "gc.auto": "0",  # maintenance runs when pack() is called, never inside a push
    "receive.autogc": "false",
    "transfer.fsckObjects": "true",
    "transfer.hideRefs": "refs/kernelyard",
    "pack.threads": "2",
    "pack.windowMemory": "64m",
    "uploadpack.allowFilter": "true",
}
_LEFT_OUT = {"__pycache__", ".pytest_cache", ".ruff_cache", ".DS_Store"}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a tree. ``size`` is in bytes; -1 for what is no blob."""

    mode: str
    kind: str
    oid: str
    size: int
    path: str


class Lost(GitStoreError):
    """Another writer moved the ref first: nothing was changed."""


class Busy(GitStoreError):
    """Another process held the lock for too long: nothing was done."""


class Repository:
    """One bare repository. Open one per task, as a context manager, in one thread."""

    CONFIGURATION: Mapping[str, str] = {}

    def __init__(self, path: Path, *, quarantine: bool = False) -> None:
        self.git = GitProcess(Path(path), quarantine=quarantine)
        self.path = self.git.path

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises GitStoreError where ``path`` is no repository."""
        return cls(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.git.close()

    # Reading

    def resolve(self, ref: str) -> str | None:
        """The commit a full ref points at, or None."""
        found = self.git.text("for_each_ref", "--format=%(refname) %(objectname)", ref).splitlines()
        return next((oid for name, oid in (line.split() for line in found) if name == ref), None)

    def has_commit(self, oid: str) -> bool:
        return bool(OID_PATTERN.match(oid)) and self.git.object_type(oid) == "commit"

    def commit(self, oid: str) -> CommitRecord:
        """Raises GitStoreError where there is no such commit."""
        return next(iter(self.commits([oid])))

    def commits(self, oids: Iterable[str]) -> Iterator[CommitRecord]:
        """The records of many commits, in the order given, a few processes in all."""
        batch: list[str] = []
        for oid in oids:
            batch.append(_checked(oid))
            if len(batch) == 500:
                yield from self._read_commits(batch)
                batch = []
        if batch:
            yield from self._read_commits(batch)

    def _read_commits(self, oids: list[str]) -> list[CommitRecord]:
        return parse_commits(
            self.git.run(
                "log",
                "-z",
                "--no-walk=unsorted",
                "--no-show-signature",
                "--encoding=UTF-8",
                f"--format={COMMIT_FORMAT}",
                "--stdin",
                stdin="".join(f"{oid}\n" for oid in oids).encode(),
            )
        )

    def entries(self, commit: str, path: str = "") -> list[TreeEntry]:
        """Every file below ``path`` (the whole tree if empty), with paths from the root. Empty where there is none."""

        where = ["--", f"{path}/"] if path else []
        output = self.git.run("ls_tree", "-r", "-z", "-l", "--full-tree", _checked(commit), *where)
        return self.parse_entries(output)

    @staticmethod
    def parse_entries(listing: bytes) -> list[TreeEntry]:
        """The output of ``ls-tree -z``, with or without ``-l``."""
        return [_entry(line) for line in listing.split(b"\0") if line]

    def tree_at(self, commit: str, path: str) -> str | None:
        """The id of the directory ``path`` in a commit, or None."""
        output = self.git.run("ls_tree", "-z", "--full-tree", _checked(commit), "--", path)
        for line in output.split(b"\0"):
            if line and (entry := _entry(line)).path == path and entry.kind == "tree":
                return entry.oid
        return None

    def names(self, commit: str, path: str) -> list[str]:
        """The names directly in the directory ``path`` of a commit."""
        output = self.git.run("ls_tree", "-z", "--name-only", "--full-tree", _checked(commit), "--", f"{path}/")
        return [name.decode(errors="replace").rpartition("/")[2] for name in output.split(b"\0") if name]

    def blob(self, oid: str) -> bytes:
        found = self.git.read_object(_checked(oid))
        if found is None or found[0] != "blob":
            raise GitStoreError(f"{oid} is no file in {self.path.name}")
        return found[1]

    def read_file(self, commit: str, path: str) -> bytes | None:
        """One file of a commit, or None."""
        output = self.git.run("ls_tree", "-z", "--full-tree", _checked(commit), "--", path)
        for line in output.split(b"\0"):
            if line and (entry := _entry(line)).path == path and entry.kind == "blob":
                return self.blob(entry.oid)
        return None

    def diff(self, old: str | None, new: str, path: str = "", limit: int = MAX_PATCH_BYTES) -> str:
        """The unified diff between two commits below ``path``; against nothing if ``old`` is None.

        Hostile text: escape it. After ``limit`` bytes it ends with a line that says so.
        """
        data, more = self.git.head(
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            _checked(old) if old else EMPTY_TREE,
            _checked(new),
            *(["--", f":(literal){path}"] if path else []),
            limit=limit,
        )
        text = data.decode(errors="replace")
        return f"{text}\n… the diff is longer than {limit} bytes and ends here\n" if more else text

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether ``old`` is ``new`` or among its ancestors."""
        return not self.git.text("rev_list", "--max-count=1", _checked(old), f"^{_checked(new)}")

    # Writing

    def write_tree(
        self, base: str | None, remove: Iterable[str], files: Mapping[str, bytes | tuple[str, bytes]]
    ) -> str:
        """The id of ``base``'s tree without the directories or files ``remove``, then with ``files``.

        A value is the content, or ``(mode, content)``; the mode is 100644 otherwise.
        """
        contents = {path: value if isinstance(value, tuple) else ("100644", value) for path, value in files.items()}
        oids = self._write_blobs([content for _, content in contents.values()])
        with tempfile.TemporaryDirectory(prefix="kernelyard-index-") as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            gone: list[bytes] = []
            if base is not None:
                self.git.run("read_tree", _checked(base), env=index)
                for path in remove:
                    listed = self.git.run("ls_files", "-z", "--cached", "--", f":(literal){path}", env=index)
                    gone += [b"0 " + NO_OID.encode() + b"\t" + name for name in listed.split(b"\0") if name]
            added = [
                f"{mode} {oid}\t{path}".encode()
                for (path, (mode, _)), oid in zip(contents.items(), oids, strict=True)
            ]
            changes = b"".join(line + b"\0" for line in [*gone, *added])
            if changes:
                self.git.run("update_index", "-z", "--index-info", stdin=changes, env=index)
            return self.git.text("write_tree", env=index)

    def _write_blobs(self, contents: list[bytes]) -> list[str]:
        if not contents:
            return []
        with tempfile.TemporaryDirectory(prefix="kernelyard-blobs-") as scratch:
            names = []
            for number, content in enumerate(contents):
                name = Path(scratch) / str(number)
                name.write_bytes(content)
                names.append(str(name))
            listed = "".join(f"{name}\n" for name in names).encode()
            return self.git.text("hash_object", "-w", "--no-filters", "--stdin-paths", stdin=listed).split()

    def write_commit(
        self,
        tree: str,
        parents: Iterable[str],
        message: str,
        author: Identity,
        committer: Identity | None = None,
        at: datetime | None = None,
    ) -> str:
        """Write a commit object that no ref names yet. ``committer`` is the author unless given."""
        by = committer or author
        when = f"{int((at or datetime.now(UTC)).timestamp())} +0000"
        who = {
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_NAME": by.name,
            "GIT_COMMITTER_EMAIL": by.email,
            "GIT_COMMITTER_DATE": when,
        }
        above = [part for parent in parents for part in ("-p", _checked(parent))]
        return self.git.text("commit_tree", tree, *above, "-F", "-", stdin=message.encode(), env=who)

    def move(self, ref: str, new: str, old: str | None) -> None:
        """Point ``ref`` at ``new`` if it still is at ``old`` (None: if it does not exist). Raises Lost otherwise."""
        try:
            self.git.run("update_ref", "--no-deref", ref, _checked(new), old or NO_OID)
        except GitStoreError as error:
            current = self.resolve(ref)
            if current != old:
                raise Lost(f"{ref} moved to {current} while {new} was made from {old}") from error
            raise

    @contextmanager
    def lock(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        """Exclude other writers of the same kind on this host. Released by the kernel if the process dies.

        Raises Busy where another holds it for ``timeout_s`` seconds; None waits for ever.
        """
        path = self.path / f"kernelyard-{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX if deadline is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if deadline is not None and time.monotonic() > deadline:
                        raise Busy(f"{path} was held by another process for {timeout_s:.0f} s") from None
                    time.sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(descriptor)

    def pack(self) -> None:
        """Maintenance: pack objects and refs, so that listing stays fast. Safe beside pushes; drops no object.

        What a killed git or server left behind (locks, quarantines, scratch directories) is removed once it is an hour
        old.
        """
        with self.lock("pack"):
            self._sweep()
            self.git.run("pack_refs", "--all")
            self.git.run("repack", "-d", "--geometric=2", "--quiet")
            self.git.run("prune_packed", "--quiet")
            self.git.run("commit_graph", "write", "--reachable")

    def _sweep(self) -> None:
        sweep_scratch(self.path, _STALE_S)
        stale = time.time() - _STALE_S
        locks = [*self.path.glob("*.lock"), *(self.path / "refs").rglob("*.lock")]
        for leftover in [*locks, *(self.path / "objects").glob("tmp_objdir-*")]:
            with contextlib.suppress(FileNotFoundError):
                if leftover.stat().st_mtime >= stale or leftover.name.startswith("kernelyard-"):
                    continue
                if leftover.is_dir():
                    shutil.rmtree(leftover, ignore_errors=True)
                else:
                    leftover.unlink()

    # Creating

    @classmethod
    def create(cls, path: Path, seed: Seed = (), message: str = "Start the repository") -> Self:
        """Make a bare repository whose main holds ``seed``, in one step: a half-made one never stands at ``path``.

        Raises GitStoreError where something is already there.
        """
        path = Path(path).resolve()
        if path.exists():
            raise GitStoreError(f"{path} already exists; open it, or choose another path")
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            making = scratch / path.name
            init_bare(making)
            with cls(making) as repository:
                repository.configure()
                tree = repository.write_tree(None, (), dict(seed_files(seed)))
                first = repository.write_commit(tree, (), message, SYSTEM)
                repository.move(MAIN, first, None)
            try:
                making.rename(path)
            except OSError:
                raise GitStoreError(f"{path} was made by another process meanwhile; open it") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return cls(path)

    def configure(self) -> None:
        """Write this kind's configuration. Idempotent; run again after an upgrade."""
        self.git.configure({**SHARED_CONFIGURATION, **self.CONFIGURATION})


def seed_files(seed: Seed) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """``(path, (mode, content))`` of a directory or of pairs.

    What starts with ``#!`` at the top is executable (a kernel never is: see `policy`); links and caches are skipped.
    """
    if isinstance(seed, Path):
        pairs: Iterable[tuple[str, bytes]] = (
            (file.relative_to(seed).as_posix(), file.read_bytes())
            for file in sorted(seed.rglob("*"))
            if file.is_file() and not file.is_symlink() and not _LEFT_OUT & set(file.relative_to(seed).parts)
        )
    else:
        pairs = seed
    for path, content in pairs:
        yield path, ("100755" if content.startswith(b"#!") and "/" not in path else "100644", content)


def _checked(oid: str) -> str:
    """Only full ids reach git's command line: no option, range or ref of someone else's choosing."""
    if not OID_PATTERN.match(oid):
        raise GitStoreError(f"{oid[:80]!r} is not a full object id (40 hexadecimal digits)")
    return oid


def _entry(line: bytes) -> TreeEntry:
    """One record of ``ls-tree -z`` with or without ``-l``."""
    head, _, path = line.partition(b"\t")
    mode, kind, oid, *rest = head.decode().split()
    size = int(rest[0]) if rest and rest[0].isdigit() else -1
    return TreeEntry(mode, kind, oid, size, path.decode(errors="surrogateescape"))

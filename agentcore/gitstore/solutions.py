"""The solutions repository: reviewed kernels on main, one directory each, ready to clone and measure again.

Not for deciding what is merged: the caller has an approved, judged attempt in hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agentcore.gitstore.index import SolutionEntry, readme
from agentcore.gitstore.process import GitStoreError
from agentcore.gitstore.records import OID_PATTERN, CommitRecord, Identity, with_trailers
from agentcore.gitstore.repository import MAIN, Lost, Repository, Seed
from agentcore.paths import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    clashes,
    kernel_path_fault,
    path_fault,
    shown,
)
from agentcore.vocabulary import NAME_PATTERN, HardwareName, Language

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Publication:
    """One attempt on its way into the public repository.

    ``files`` are the kernel's, by path inside its directory; ``problem_files`` (definition, reference, workloads;
    never held-out shapes) go to ``problems/<problem>/``; ``extra_files`` stand beside the kernel, ``result.json``
    among them. ``summary`` holds numbers for the index: ``speedup``, ``sol_score``.
    """

    problem: str
    language: Language
    hardware: HardwareName
    attempt: str
    files: Mapping[str, bytes]
    subject: str
    author: Identity
    committer: Identity
    body: str = ""
    trailers: Mapping[str, str] = field(default_factory=dict)
    extra_files: Mapping[str, bytes] = field(default_factory=dict)
    problem_files: Mapping[str, bytes] = field(default_factory=dict)
    harness_version: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def entry(self) -> SolutionEntry:
        return SolutionEntry(
            problem=self.problem,
            language=str(self.language),
            hardware=str(self.hardware),
            commit=self.attempt,
            harness_version=self.harness_version,
            agent=self.author.name,
            summary=self.summary,
        )

    @property
    def path(self) -> str:
        return self.entry.path

    def check(self) -> None:
        """Raises GitStoreError naming the file or field that may not be published."""
        if not NAME_PATTERN.match(self.problem):
            raise GitStoreError(f"publication: problem {self.problem!r} is no problem name")
        if not OID_PATTERN.match(self.attempt):
            raise GitStoreError(f"publication: attempt {self.attempt!r} is no full commit id")
        if self.language.source_name not in self.files:
            raise GitStoreError(f"publication: {self.language.source_name} is missing from the kernel's files")
        for kind, files in (("kernel", self.files), ("problem", self.problem_files), ("extra", self.extra_files)):
            if len(files) > MAX_FILES:
                raise GitStoreError(f"publication: {len(files)} {kind} files, more than {MAX_FILES}")
            if kind == "kernel" and sum(map(len, files.values())) > MAX_TOTAL_BYTES:
                raise GitStoreError(f"publication: the kernel's files take more than {MAX_TOTAL_BYTES} bytes")
            for name, content in files.items():
                if fault := _fault(kind, name, content):
                    raise GitStoreError(f"publication: {kind} file {shown(name)}: {fault}")
        if pairs := clashes([*self.files, *self.extra_files]):
            raise GitStoreError(f"publication: {shown(pairs[0][0])} and {shown(pairs[0][1])} differ only in case")
        if "heldout.jsonl" in self.problem_files:
            raise GitStoreError("publication: heldout.jsonl is secret and is never published")


def _fault(kind: str, name: str, content: bytes) -> str | None:
    if kind == "kernel":
        if len(content) > MAX_FILE_BYTES:
            return f"it has {len(content)} bytes, more than {MAX_FILE_BYTES}"
        return kernel_path_fault(name)
    if kind == "problem":
        return path_fault(name, suffixes=None)  # the operator's own files: workloads, tensors
    if kind == "extra" and name == "solution.json":
        return "it is written by the publication itself"
    return path_fault(name)


class SolutionsRepository(Repository):
    CONFIGURATION: Mapping[str, str] = {
        "receive.denyDeletes": "true",
        "receive.denyNonFastForwards": "true",
        "http.receivepack": "false",
    }

    @classmethod
    def create(cls, path: Path, seed: Seed = (), message: str = "Start the solutions repository") -> Self:
        """A new repository whose main holds ``seed`` and an empty index."""
        given = [("README.md", readme([]))] if not isinstance(seed, Path) and not seed else seed
        return super().create(path, given, message)

    def publish(self, publication: Publication) -> str:
        """Put a solution on main in one commit, in place of the one before, and return the commit.

        The commit's trailers say where it came from. Raises GitStoreError (Lost where other writers kept winning);
        then main is as it was.
        """
        publication.check()
        for attempt in range(_TRIES):
            try:
                return self._publish_once(publication)
            except Lost:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _publish_once(self, publication: Publication) -> str:
        base = self.resolve(MAIN)
        entry = publication.entry
        files = {f"{entry.path}/{name}": content for name, content in publication.files.items()}
        files |= {f"{entry.path}/{name}": content for name, content in publication.extra_files.items()}
        files[f"{entry.path}/solution.json"] = entry.to_json()
        where = f"problems/{publication.problem}"
        files |= {f"{where}/{name}": content for name, content in publication.problem_files.items()}
        others = [known for known in (self._entries_of(base) if base else []) if known.path != entry.path]
        files["README.md"] = readme([*others, entry])
        replaced = [entry.path, *([where] if publication.problem_files else [])]
        tree = self.write_tree(base, replaced, files)
        if base is not None and self.commit(base).tree == tree:
            return base  # this very solution is what main already shows
        trailers = {
            "Problem": publication.problem,
            "Language": str(publication.language),
            "Hardware": str(publication.hardware),
            "Attempt": publication.attempt,
            **publication.trailers,
        }
        text = "\n\n".join(part.strip() for part in (publication.subject, publication.body) if part.strip())
        message = with_trailers(text or f"Publish {entry.path}", trailers)
        commit = self.write_commit(
            tree, [base] if base else [], message, publication.author, publication.committer
        )
        self.move(MAIN, commit, base)
        return commit

    def current(self) -> list[SolutionEntry]:
        """Every solution main shows, by path."""
        main = self.resolve(MAIN)
        return self._entries_of(main) if main else []

    def read(self, problem: str, language: str, hardware: str, commit: str | None = None) -> dict[str, bytes]:
        """The files of one solution, records included, by path inside its directory. Empty if none.

        As ``commit`` published it, or the current one.
        """
        shown = commit or self.resolve(MAIN)
        where = SolutionEntry(problem, language, hardware, "").path
        if shown is None:
            return {}
        return {
            found.path[len(where) + 1 :]: self.blob(found.oid)
            for found in self.entries(shown, where)
            if found.kind == "blob"
        }

    def history(self) -> Iterator[CommitRecord]:
        """Every publication, oldest first: the commits of main that carry an Attempt trailer."""
        main = self.resolve(MAIN)
        if main is None:
            return
        oids = self.git.text("rev_list", "--first-parent", "--reverse", main).split()
        for record in self.commits(oids):
            if "Attempt" in record.trailers:
                yield record

    def _entries_of(self, commit: str) -> list[SolutionEntry]:
        return [
            SolutionEntry.from_json(self.blob(found.oid))
            for found in self.entries(commit, "solutions")
            if found.path.count("/") == 3 and found.path.endswith("/solution.json") and found.kind == "blob"
        ]

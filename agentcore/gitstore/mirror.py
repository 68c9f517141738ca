"""A local copy of a remote attempts repository that fetches single branches over HTTP when a commit is wanted.

For hosts that judge without holding the repository. It is only a copy: deleting it loses nothing. Reading goes through
`AttemptsRepository`. Not for pushing, and not for deciding which commit is wanted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from agentcore.gitstore.process import GitStoreError, clean_environment, init_bare, start_service
from agentcore.gitstore.repository import MAIN, Busy, Repository
from agentcore.vocabulary import AttemptRef

logger = logging.getLogger(__name__)

TIMEOUT_S = 120.0
CHECK_TIMEOUT_S = 10.0
RETRY_PAUSE_S = 2.0
MAX_FETCH_BYTES = 512 << 20
MAX_PACKS = 50
"""Every fetch adds a pack; with more than so many, reading gets slow and they are put together."""
_CPU_S = 300
_LAST_S = 10.0
_SAID_BYTES = 4000
_CONFIGURATION = {
    # Objects land as one checked pack or not at all: loose ones would be left behind half by a killed fetch.
    "fetch.unpackLimit": "1",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.http.allow": "always",
    "protocol.https.allow": "always",
    # A portal that accepts and then says nothing ends the try long before the deadline does.
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "20",
}


class Unreachable(GitStoreError):
    """The remote repository could not be fetched from, whatever is asked of it: nothing is known of the commit."""


def check_url(url: str) -> None:
    """Raises ValueError where ``url`` is no address a mirror can use: http or https, a host, a path, no password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.path.strip("/"):
        raise ValueError(f"{url!r} is not a git address such as http://portal:8000/git/attempts.git")
    if "@" in parts.netloc:
        raise ValueError(f"the address of {parts.hostname} holds a user name; fetching needs none, leave it out")


class AttemptsMirror:
    """The copy at ``path`` of the repository at ``url``. Made when first needed. Any number of processes may use it."""

    def __init__(self, path: Path, url: str) -> None:
        check_url(url)
        self.path, self.url = Path(path), url

    def obtain(self, commit: str, ref: AttemptRef, *, timeout_s: float = TIMEOUT_S) -> None:
        """Have ``commit`` of the branch ``ref`` here, complete and checked, fetching it if it is missing.

        One process of this host fetches at a time; the others wait, and may find that theirs came along.

        Raises Unreachable where the remote failed twice or others kept fetching, and GitStoreError where it answers
        without the commit; all within about ``timeout_s`` seconds.
        """
        deadline = time.monotonic() + timeout_s
        self._create()
        with Repository(self.path) as repository:
            if _holds(repository, commit, ref):
                return
            try:
                with repository.lock("fetch", timeout_s=timeout_s / 2):
                    if not _holds(repository, commit, ref):
                        self._fetch_into(repository, commit, ref, deadline)
            except Busy as error:
                raise Unreachable(f"commit {commit}: {ref.ref} was not fetched from {self.url}: {error}") from None

    def check(self, timeout_s: float = CHECK_TIMEOUT_S) -> None:
        """Raises Unreachable where the remote does not answer with a repository now."""
        self._create()
        status, said = self._git(["ls-remote", "--quiet", self.url, MAIN], timeout_s)
        if status:
            raise Unreachable(f"{self.url} does not answer: {said}")

    def _create(self) -> None:
        if self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent) as scratch:
            making = Path(scratch) / self.path.name
            init_bare(making)
            with Repository(making) as repository:
                repository.configure()
            try:
                making.rename(self.path)
            except OSError:
                if not self.path.exists():  # otherwise another process was first, and its copy is ours too
                    raise

    def _fetch_into(self, repository: Repository, commit: str, ref: AttemptRef, deadline: float) -> None:
        self._remove_leftovers()
        self._fetch(commit, ref, deadline)
        if not _holds(repository, commit, ref):
            raise GitStoreError(
                f"commit {commit} is not on {ref.ref} at {self.url}: the branch was replaced there, or the address is "
                "that of another portal. Check both"
            )
        if sum(1 for _ in (self.path / "objects" / "pack").glob("*.pack")) > MAX_PACKS:
            try:
                repository.pack()
            except GitStoreError:
                logger.exception("%s could not be packed; the wanted commit is there all the same", self.path)

    def _fetch(self, commit: str, ref: AttemptRef, deadline: float) -> None:
        """Bring the branch up to date: two tries, the first of which may use half of the time."""
        options = ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]
        command = ["fetch", *options, self.url, f"+{ref.ref}:{ref.ref}"]
        left = deadline - time.monotonic()
        status, said = self._git(command, left / 2)
        if status and not _no_such_ref(said) and not self._is_past_bound():
            logger.warning("fetching %s from %s failed, trying once more: %s", ref.branch, self.url, said)
            time.sleep(min(RETRY_PAUSE_S, max(0.0, left / 4)))
            self._remove_leftovers()
            status, said = self._git(command, deadline - time.monotonic())
        if not status:
            return
        if self._is_past_bound():
            raise GitStoreError(
                f"commit {commit}: {ref.ref} at {self.url} needs a fetch of more than {MAX_FETCH_BYTES} bytes"
            )
        if _no_such_ref(said):
            raise GitStoreError(
                f"commit {commit}: {self.url} has no {ref.ref}. Check that the address is that of the portal whose "
                "database this host uses"
            )
        raise Unreachable(
            f"commit {commit}: {ref.ref} could not be fetched from {self.url}: {said}. Check that the portal runs and "
            "is reached from this host at that address"
        )

    def _git(self, arguments: list[str], timeout_s: float) -> tuple[int, str]:
        """Run git below this repository, as a tree that ends with us. Returns its status and the end of its words."""
        environment = clean_environment(
            [*_CONFIGURATION.items(), ("core.hooksPath", os.devnull), ("safe.directory", str(self.path.resolve()))]
        )
        environment["GIT_DIR"] = str(self.path.resolve())
        if authority := os.environ.get("GIT_SSL_CAINFO"):
            environment["GIT_SSL_CAINFO"] = authority
        process = start_service(self.path, arguments, environment)
        try:
            for limit, value in ((resource.RLIMIT_CPU, _CPU_S), (resource.RLIMIT_FSIZE, MAX_FETCH_BYTES)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    resource.prlimit(process.pid, limit, (value, value))
            said = _listen(process, max(0.0, timeout_s))
            if said is None:
                return -1, f"no end after {timeout_s:.0f} s"
            text = " ".join(said.decode(errors="replace").split())
            return process.wait(_LAST_S), text or "git said nothing"
        except subprocess.TimeoutExpired:
            return -1, f"git did not end within {_LAST_S:.0f} s of its last word"
        finally:
            _end(process)

    def _is_past_bound(self) -> bool:
        """Whether the fetch that just failed was ended by its file size limit: its pack is still there, cut short."""
        packs = (self.path / "objects" / "pack").glob("tmp_pack_*")
        return any(pack.stat().st_size >= MAX_FETCH_BYTES for pack in packs)

    def _remove_leftovers(self) -> None:
        """Unfinished packs and locks of a killed fetch. The caller holds the lock, so nobody is writing them."""
        stale = [*self.path.glob("*.lock"), *(self.path / "refs").rglob("*.lock")]
        stale += (self.path / "objects" / "pack").glob("tmp_*")
        for file in stale:
            if not file.name.startswith("kernelyard-"):
                with contextlib.suppress(FileNotFoundError):
                    file.unlink()
        for directory in (self.path / "objects").glob("tmp_objdir-*"):
            shutil.rmtree(directory, ignore_errors=True)


def _holds(repository: Repository, commit: str, ref: AttemptRef) -> bool:
    """Whether ``commit`` is below the branch here: git moves a ref only after it has seen everything below it."""
    tip = repository.resolve(ref.ref)
    return tip is not None and repository.has_commit(commit) and repository.is_ancestor(commit, tip)


def _no_such_ref(said: str) -> bool:
    return "couldn't find remote ref" in said


def _listen(process: subprocess.Popen[bytes], timeout_s: float) -> bytes | None:
    """The end of what the process says until it closes its pipes; None where that takes longer than ``timeout_s``."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.close()
    deadline = time.monotonic() + timeout_s
    said = b""
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for key, _ in selector.select(left):
                if data := os.read(key.fd, 1 << 16):
                    said = (said + data)[-_SAID_BYTES:] if key.fileobj is process.stderr else said
                else:
                    selector.unregister(key.fileobj)
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the process's session behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()

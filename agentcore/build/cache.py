"""The content-addressed store of finished builds: a directory per key, made whole or not at all.

Not for deciding keys. There are no locks, so a killed build leaves none: work happens in a directory of its own, and
a rename puts the result in place; whoever comes second finds the first one's and uses it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from agentcore.judge.result import BuildReport

ARTIFACT = "kernel.so"
_REPORT = "report.json"
_DIGEST = "kernel.so.sha256"
_ABANDONED_S = 6 * 3600
_MAX_BYTES = 8 << 30
_KEEP_S = 3600


class CacheError(RuntimeError):
    """The cache directory cannot be used; the message names it and the reason."""


class BuildCache:
    """Builds under ``directory``. Raises CacheError if it cannot be made or written."""

    def __init__(self, directory: Path) -> None:
        self._done = directory.absolute() / "done"
        self._work = directory.absolute() / "work"
        try:
            for made in (self._done, self._work):
                _make(made)
        except OSError as error:
            raise CacheError(f"build cache {directory} cannot be made: {error.strerror}") from error
        if not os.access(self._work, os.W_OK | os.X_OK) or not os.access(self._done, os.W_OK | os.X_OK):
            raise CacheError(f"build cache {directory} is not writable by uid {os.geteuid()}")

    @contextlib.contextmanager
    def workplace(self) -> Iterator[Path]:
        """A fresh directory on the cache's own file system, removed afterwards."""
        self._sweep()
        try:
            place = Path(tempfile.mkdtemp(prefix="build-", dir=self._work))
        except OSError as error:
            raise CacheError(f"build cache {self._work.parent} cannot be written: {error.strerror}") from error
        try:
            place.chmod(0o755)
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def get(self, key: str) -> tuple[BuildReport, Path] | None:
        """The report and the artefact of a key, or None. An entry damaged on disk counts as absent and is removed."""
        place = self._place(key)
        try:
            report = BuildReport.model_validate_json((place / _REPORT).read_bytes())
            digest = hashlib.sha256((place / ARTIFACT).read_bytes()).hexdigest()
            intact = digest == (place / _DIGEST).read_text().strip()
        except FileNotFoundError:
            return None
        except (ValidationError, OSError, UnicodeDecodeError):
            intact = False
        if not intact:
            shutil.rmtree(place, ignore_errors=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(place)  # for whoever removes the longest unused
        return report, place / ARTIFACT

    def put(
        self, key: str, report: BuildReport, artifact: bytes, workplace: Path, beside: Mapping[str, bytes] = {}
    ) -> Path:
        """Keep a finished build, unless another process already has. Returns the artefact's place.

        ``beside`` are further files of the entry by name, for artefacts that are loaded by one of them.
        """
        entry = workplace / "entry"
        place = self._place(key)
        try:
            _make(entry)
            for name, content in (
                (ARTIFACT, artifact),
                (_DIGEST, hashlib.sha256(artifact).hexdigest().encode()),
                (_REPORT, report.model_dump_json(indent=1).encode()),
                *beside.items(),
            ):
                (entry / name).write_bytes(content)
                (entry / name).chmod(0o644)
            _make(place.parent)
            try:
                entry.rename(place)
            except OSError:
                # Another process was first, or left a damaged entry: keep what is intact, else replace it.
                if self.get(key) is None:
                    shutil.rmtree(place, ignore_errors=True)
                    entry.rename(place)
        except OSError as error:
            raise CacheError(f"build cache {self._work.parent} cannot be written: {error.strerror}") from error
        return place / ARTIFACT

    def prune(self, max_bytes: int = _MAX_BYTES, keep_s: float = _KEEP_S) -> int:
        """Remove the longest unused builds until at most ``max_bytes`` are left; returns how many were removed.

        Builds used in the last ``keep_s`` seconds stay: somebody may be about to load them.
        """
        entries = []
        for place in self._done.glob("*/*"):
            with contextlib.suppress(OSError):
                size = sum(file.stat().st_size for file in place.iterdir())
                entries.append((place.stat().st_mtime, size, place))
        total, removed = sum(size for _, size, _ in entries), 0
        for used, size, place in sorted(entries):
            if total <= max_bytes or used > time.time() - keep_s:
                break
            shutil.rmtree(place, ignore_errors=True)
            total, removed = total - size, removed + 1
        return removed

    def _place(self, key: str) -> Path:
        return self._done / key[:2] / key

    def _sweep(self) -> None:
        """Remove workplaces that a killed build left behind long ago; now and then, old builds too."""
        if random.random() < 1 / 64:
            self.prune()
        with contextlib.suppress(OSError):
            for entry in self._work.iterdir():
                if entry.stat().st_mtime < time.time() - _ABANDONED_S:
                    shutil.rmtree(entry, ignore_errors=True)


def _make(directory: Path) -> None:
    """Make a directory that the runner's user can read, whatever the umask. Its parents are the caller's affair."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)

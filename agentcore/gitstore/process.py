"""How git is run: GitPython with a clean environment, no user configuration, no hooks, no prompts and bounds.

Everything else in this package calls git through `GitProcess`. Not for meaning: nothing here knows what an attempt is.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from git import Git, Repo
from git.exc import GitCommandError, GitCommandNotFound, InvalidGitRepositoryError, NoSuchPathError

TIMEOUT_S = 120.0
HOOK_TIMEOUT_S = 30.0  # somebody waits for a push, and a thread of the portal with them
OUTPUT_LIMIT = 64 << 20
_CHUNK = 64 << 10
_QUARANTINE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


class GitStoreError(RuntimeError):
    """A repository is missing, git refused, or an answer passed its bound. The message says which and what to do."""


def clean_environment(configuration: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """The whole environment git runs in: no user or system configuration, no prompts, plus ``configuration``.

    ``configuration`` holds git configuration keys and values, as ``git -c`` would; a key may come more than once.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    settings = list(configuration)
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    return environment


class _CleanGit(Git):
    """GitPython's command wrapper, except that nothing of our own environment reaches git."""

    def __init__(self, working_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__(working_dir)
        # GitPython expands $VARIABLES in this path, whatever Repo(expand_vars=False) says.
        self._working_dir = None if working_dir is None else os.fspath(working_dir)

    def execute(self, command: Any, *args: Any, env: Mapping[str, str] | None = None, **kwargs: Any) -> Any:
        # GitPython always starts from a copy of os.environ and can only add to it; `env -i` is how to start from
        # nothing, so that neither GIT_* variables nor the portal's secrets are inherited.
        assignments = [f"{key}={value}" for key, value in {**self._environment, **(env or {})}.items()]
        return super().execute(["env", "-i", *assignments, *command], *args, **kwargs)


class _CleanRepo(Repo):
    GitCommandWrapperType = _CleanGit


def init_bare(path: Path) -> None:
    """Make an empty bare repository with the branch main and no template files (so no sample hooks)."""
    path.mkdir(parents=True)
    _CleanGit(path).init("--bare", "--quiet", "--initial-branch=main", "--template=", env=clean_environment())


def start_service(path: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start ``git arguments`` with three pipes, in a session of its own so that it can be killed as a whole."""
    try:
        started = _CleanGit(path).execute(
            ["git", *arguments],
            istream=subprocess.PIPE,
            as_process=True,
            env=environment,
            start_new_session=True,
        )
    except GitCommandNotFound:
        raise GitStoreError("git was not found; install it (Debian: apt install git)") from None
    process = started.proc
    started.proc = None  # the caller ends it; GitPython's wrapper would interrupt it when collected
    assert isinstance(process, subprocess.Popen)
    return process


class GitProcess:
    """Git commands on one bare repository. One per task; use it as a context manager and in one thread only."""

    def __init__(self, path: Path, *, quarantine: bool = False, timeout_s: float | None = None) -> None:
        """Open ``path``. ``quarantine`` lets a pre-receive hook see the objects that a push has not landed yet.

        No command is waited for longer than ``timeout_s`` (HOOK_TIMEOUT_S in quarantine, else TIMEOUT_S).
        """
        self.path = path.resolve()
        self._timeout_s = timeout_s if timeout_s is not None else HOOK_TIMEOUT_S if quarantine else TIMEOUT_S
        try:
            self._repo = _CleanRepo(self.path, expand_vars=False)
        except (NoSuchPathError, InvalidGitRepositoryError):
            raise GitStoreError(f"{path} is not a git repository; create it first") from None
        self._thread = threading.get_ident()
        self._environment = clean_environment(
            [("core.hooksPath", os.devnull), ("safe.directory", str(self.path))]
        )
        self._environment["GIT_DIR"] = str(self.path)
        if quarantine:
            self._environment |= {key: os.environ[key] for key in _QUARANTINE if key in os.environ}
        self._repo.git.update_environment(**self._environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the persistent processes. Safe to call twice."""
        self._repo.close()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set keys (``section.name``) in the repository's own configuration, all at once. Raises GitStoreError."""
        self._check_thread()
        try:
            with self._repo.config_writer("repository") as writer:
                for key, value in settings.items():
                    section, _, name = key.rpartition(".")
                    writer.set_value(section, name, value)
        except OSError as error:
            raise GitStoreError(f"the configuration of {self.path.name} cannot be written: {error}") from error

    def run(
        self, command: str, *arguments: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> bytes:
        """Run ``git command arguments`` and return its output. Raises GitStoreError with git's own words."""
        self._check_thread()
        with tempfile.TemporaryFile() as source:
            if stdin is not None:
                source.write(stdin)
                source.seek(0)
            try:
                output = getattr(self._repo.git, command)(
                    *arguments,
                    istream=source if stdin is not None else None,
                    env=env,
                    stdout_as_string=False,
                    strip_newline_in_stdout=False,
                    kill_after_timeout=self._timeout_s,
                )
            except GitCommandNotFound:
                raise GitStoreError("git was not found; install it (Debian: apt install git)") from None
            except GitCommandError as error:
                said = str(error.stderr).strip().removeprefix("stderr: ").strip("'")
                raise GitStoreError(f"git {command} failed in {self.path.name}: {said[-2000:]}") from None
        assert isinstance(output, bytes)
        if len(output) > OUTPUT_LIMIT:
            raise GitStoreError(f"git {command} wrote {len(output)} bytes, more than {OUTPUT_LIMIT}")
        return output

    def text(
        self, command: str, *arguments: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """As `run`, decoded and without the last newline."""
        return self.run(command, *arguments, stdin=stdin, env=env).decode(errors="replace").removesuffix("\n")

    def head(self, command: str, *arguments: str, limit: int) -> tuple[bytes, bool]:
        """The first ``limit`` bytes of a command's output, and whether there was more. The command is then stopped.

        Raises GitStoreError for a command that takes too long, or fails before its output is complete.
        """
        data = bytearray()
        with self._start(command, arguments) as stream:
            while len(data) <= limit and (chunk := stream.read()):
                data += chunk
            if len(data) <= limit:
                stream.finish()
        return bytes(data[:limit]), len(data) > limit

    def lines(self, command: str, *arguments: str) -> Iterator[str]:
        """A command's output line by line, without holding it. Leaving the loop early stops the command.

        Raises GitStoreError for a command that takes too long; the caller's own time between lines does not count.
        """
        rest = b""
        with self._start(command, arguments) as stream:
            while chunk := stream.read():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def read_object(self, oid: str) -> tuple[str, bytes] | None:
        """``(type, content)`` of an object, or None where there is none. One process serves all calls.

        ``oid`` is a full id, or a ref and path of our own making (``refs/notes/x:ab/cd``).
        """
        self._check_thread()
        try:
            _, kind, _, data = self._repo.git.get_object_data(oid)
        except ValueError:
            return None
        return _word(kind), data

    def object_id(self, name: str) -> str | None:
        """The full id of what ``name`` means (``<oid>^{tree}``, ``<oid>:path``, of our own making), None if nothing."""
        header = self._object_header(name)
        return _word(header[0]) if header else None

    def object_type(self, oid: str) -> str | None:
        """The type of an object by its full id, or None where there is none."""
        header = self._object_header(oid)
        return _word(header[1]) if header else None

    def object_size(self, oid: str) -> int:
        """An object's size in bytes, -1 where there is none."""
        header = self._object_header(oid)
        return int(header[2]) if header else -1

    def _object_header(self, name: str) -> tuple[str | bytes, str | bytes, int] | None:
        """(id, type, size) of an object, or None where there is none."""
        self._check_thread()
        try:
            return self._repo.git.get_object_header(name)
        except ValueError:
            return None

    def _start(self, command: str, arguments: Sequence[str]) -> _Stream:
        self._check_thread()
        started = getattr(self._repo.git, command)(*arguments, as_process=True)
        return _Stream(started, f"git {command} in {self.path.name}", self._timeout_s)

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise GitStoreError(f"{self.path.name} was opened in another thread; open it anew in each task")


def _word(answer: str | bytes) -> str:
    """GitPython says the persistent commands answer str; they answer bytes."""
    return answer.decode() if isinstance(answer, bytes) else answer


class _Stream:
    """The output of a running command, waited for at most ``timeout_s`` in all; the block's end stops the command."""

    def __init__(self, process: Any, what: str, timeout_s: float) -> None:
        self._process = process
        self._what = what
        self._timeout_s = self._left_s = timeout_s
        self._poll = select.poll()
        self._poll.register(process.stdout, select.POLLIN)

    def read(self) -> bytes:
        """What there is, once there is something; empty at the end."""
        started = time.monotonic()
        ready = self._poll.poll(max(self._left_s, 0.0) * 1000)
        self._left_s -= time.monotonic() - started
        if not ready:
            raise self._too_long()
        return os.read(self._process.stdout.fileno(), _CHUNK)

    def finish(self) -> None:
        """After the last of the output: raises GitStoreError if the command failed."""
        try:
            status = self._process.proc.wait(max(self._left_s, 1.0))
        except subprocess.TimeoutExpired:
            raise self._too_long() from None
        if status:
            said = os.read(self._process.stderr.fileno(), 2000).decode(errors="replace").strip()
            raise GitStoreError(f"{self._what} failed with status {status}: {said}")

    def _too_long(self) -> GitStoreError:
        return GitStoreError(f"{self._what} took longer than {self._timeout_s:g} s and was stopped")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process.proc
        if process is not None and process.poll() is None:
            process.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            pipe.close()
        if process is not None:
            process.wait()

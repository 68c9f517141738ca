"""git's own fetch and push services as byte streams: what comes from a client goes in, what git answers comes out.

Not for HTTP (headers, chunks, authentication: the portal's ``githttp``) and not for policy (`policy`, run by the
hooks). Nothing is held in memory beyond one chunk each way.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agentcore.gitstore.attempts import MAX_PUSH_BYTES
from agentcore.gitstore.hooks import install_hooks
from agentcore.gitstore.policy import refusal
from agentcore.gitstore.process import GitStoreError, clean_environment, start_service
from agentcore.gitstore.repository import Repository
from agentcore.gitstore.scratch import scratch_directory
from agentcore.vocabulary import ATTEMPT_REF_PREFIX, NAME_PATTERN

CHUNK_BYTES = 64 << 10
DEADLINE_S = 600.0
DISCARD_LIMIT = 128 << 20
_FINISH_S = 30.0
_TERMINATE_S = 2.0
_LIMITS = (
    (resource.RLIMIT_CPU, 300),
    (resource.RLIMIT_FSIZE, 512 << 20),
    (resource.RLIMIT_AS, 8 << 30),
)
_STDERR_BYTES = 4000
_TOO_LARGE = b"pack exceeds maximum allowed size"
_TOO_LARGE_TEXT = refusal([
    f"it is larger than {MAX_PUSH_BYTES >> 20} MiB, all its new commits together. Push fewer of them at a time "
    "(git push origin COMMIT:BRANCH); what is large in one of them has to leave the history, not only the last commit."
])


class Service(StrEnum):
    FETCH = "git-upload-pack"
    PUSH = "git-receive-pack"


class ClientGone(ConnectionError):
    """The client's request ended before it was complete."""


@dataclass(frozen=True, slots=True)
class Push:
    """Who pushes, and what is told to whom. ``received`` is called once with the refs that moved, if any."""

    agent: str
    public_url: str = ""
    received: Callable[[list[str]], None] | None = None


def advertise(path: Path, service: Service, protocol: str = "", push: Push | None = None) -> Iterator[bytes]:
    """What ``GET info/refs`` answers. For a push only the agent's own branches and main are advertised."""
    if not (service is Service.FETCH and protocol.startswith("version=2")):
        yield _packet(f"# service={service}\n".encode()) + b"0000"
    hidden = _hidden_refs(_own_prefixes(path, push.agent)) if push else []
    yield from _Exchange(path, service, ["--advertise-refs"], protocol, push, hidden).run(iter(()))


def exchange(
    path: Path, service: Service, body: Iterator[bytes], protocol: str = "", push: Push | None = None
) -> Iterator[bytes]:
    """What ``POST git-upload-pack`` or ``git-receive-pack`` answers to ``body``.

    ``body`` raises ClientGone where the request is cut short: git is then killed and nothing lands. Closing the
    iterator early kills git too, unless the whole request had arrived: then a push is let finish.
    """
    # Which branch an agent may move is decided in quarantine by the hook, which can say why; here everything that is
    # no branch at all (notes, tags) is refused by git itself.
    hidden = _hidden_refs(["refs/heads/"]) if push else []
    yield from _Exchange(path, service, [], protocol, push, hidden).run(body)


def _hidden_refs(shown: list[str]) -> list[tuple[str, str]]:
    return [("receive.hideRefs", value) for value in ("refs/", *(f"!{prefix}" for prefix in shown))]


def _own_prefixes(path: Path, agent: str) -> list[str]:
    with Repository(path) as repository:
        pattern = f"{ATTEMPT_REF_PREFIX}*/*/{agent}/*"
        names = repository.git.lines("for_each_ref", "--format=%(refname)", pattern)
        return ["refs/heads/main", *sorted({name.rpartition("/")[0] + "/" for name in names})]


class _Exchange:
    """One run of one service."""

    def __init__(
        self,
        path: Path,
        service: Service,
        options: list[str],
        protocol: str,
        push: Push | None,
        hidden: list[tuple[str, str]],
    ) -> None:
        self._path = path.resolve()
        self._push = push
        if (service is Service.PUSH) != (push is not None):
            raise GitStoreError(f"{service} and its pusher do not fit together")
        configuration = [("safe.directory", str(self._path)), *hidden]
        if push:
            if not NAME_PATTERN.match(push.agent):
                raise GitStoreError(f"{push.agent!r} is no agent name")
            install_hooks(self._path)
            configuration.append(("core.hooksPath", str(self._path / "hooks")))
        else:
            configuration.append(("core.hooksPath", os.devnull))
        self._environment = clean_environment(configuration)
        if protocol and service is Service.FETCH:
            self._environment["GIT_PROTOCOL"] = protocol
        self._arguments = [service.removeprefix("git-"), "--stateless-rpc", *options, str(self._path)]
        self._complete = False
        self._stderr = b""

    def run(self, body: Iterator[bytes]) -> Iterator[bytes]:
        with scratch_directory(self._path) if self._push else nullcontext(self._path) as scratch:
            received = scratch / "received"
            if self._push:
                self._environment |= {
                    "KERNELYARD_AGENT": self._push.agent,
                    "KERNELYARD_PUBLIC_URL": self._push.public_url,
                    "KERNELYARD_RECEIVED": str(received),
                }
            process = start_service(self._path, self._arguments, self._environment)
            try:
                for limit, value in _LIMITS:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        resource.prlimit(process.pid, limit, (value, value))
                yield from self._relay(process, body)
            finally:
                try:
                    self._end(process)
                finally:
                    self._report(received)

    def _relay(self, process: subprocess.Popen[bytes], body: Iterator[bytes]) -> Iterator[bytes]:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        os.set_blocking(process.stdin.fileno(), False)
        deadline = time.monotonic() + DEADLINE_S
        pending, begun, has_begun = memoryview(b""), b"", self._push is None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            while True:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self._arguments[0]} took longer than {DEADLINE_S:.0f} s")
                for key, _ in selector.select(timeout=5.0):
                    if key.fileobj is process.stdin:
                        # The client is read only when git can take more: that is the back-pressure.
                        pending = pending or memoryview(next(body, b""))
                        if not pending:
                            self._complete = True
                        elif (written := _write(process.stdin.fileno(), pending)) is not None:
                            pending = pending[written:]
                            continue
                        else:
                            self._complete = True
                            _discard(body)
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    elif key.fileobj is process.stderr:
                        said = os.read(process.stderr.fileno(), CHUNK_BYTES)
                        self._stderr = (self._stderr + said)[-_STDERR_BYTES:]
                        if not said:
                            selector.unregister(process.stderr)
                    else:
                        data = os.read(process.stdout.fileno(), CHUNK_BYTES)
                        if not data:
                            if begun:
                                yield begun
                            if not self._complete:
                                self._complete = True
                                _discard(body)
                            return
                        if not has_begun:
                            # Its first packet as a whole (git writes the head alone), so that ours can stand before it.
                            begun += data
                            if len(begun) < _packet_bytes(begun):
                                continue
                            data, begun, has_begun = begun, b"", True
                            if _TOO_LARGE in data:
                                yield _for_terminal(_TOO_LARGE_TEXT)
                        yield data

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Leave no process behind. A push whose request was complete may finish landing first."""
        with contextlib.suppress(OSError):
            if process.stdin and not process.stdin.closed:
                process.stdin.close()
        if self._complete:
            deadline = time.monotonic() + _FINISH_S
            while process.poll() is None and time.monotonic() < deadline:
                _drain(process)
                time.sleep(0.005)
        for number, patience in ((signal.SIGTERM, _TERMINATE_S), (signal.SIGKILL, None)):
            if process.poll() is not None:
                break
            # git removes its quarantine when it is asked to end, so it is asked first.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def _report(self, received: Path) -> None:
        if self._push and self._push.received and received.exists():
            refs = received.read_text().split()
            if refs:
                self._push.received(refs)


def _write(descriptor: int, data: memoryview) -> int | None:
    """Bytes written (0 if the pipe is full), or None where git no longer reads."""
    try:
        return os.write(descriptor, data[:CHUNK_BYTES])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return None


def _packet_bytes(data: bytes) -> int:
    """How long git's packet is that begins here, its length in the first four bytes; 4 where these are not there."""
    try:
        return max(4, int(data[:4], 16))
    except ValueError:
        return 4


def _for_terminal(text: str) -> bytes:
    """A packet that git shows to the user (side-band 2), as it does what a hook writes to stderr."""
    return _packet(b"\2" + text.encode())


def _packet(data: bytes) -> bytes:
    """One of git's packets, its length in front."""
    return b"%04x%s" % (len(data) + 4, data)


def _discard(body: Iterator[bytes]) -> None:
    """Read on after git refused early: a client that is still sending would not see the answer otherwise."""
    left = DISCARD_LIMIT
    for chunk in body:
        left -= len(chunk)
        if left < 0:
            return


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Let git go on writing to a client that is no longer there."""
    for pipe in (process.stdout, process.stderr):
        if pipe and not pipe.closed:
            os.set_blocking(pipe.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                while os.read(pipe.fileno(), CHUNK_BYTES):
                    pass

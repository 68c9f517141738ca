"""Bait on the host that a confined kernel must not reach, and what it left behind if it did.

A case names its bait by the macros of a generated ``canary.h`` (C++, CUDA) or by the same words as string literals
(Python). Everything stays on this machine: a file, a directory, a loopback port and two Unix sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ANSWER = 42
"""What the bait header defines: a kernel that could read it at compile time knows this number."""

_BAIT = frozenset({"bait.txt", "bait.h", "bait.sock"})


@dataclass
class Canary:
    """``directory`` is open to every uid, so only the sandbox stands between a kernel and it."""

    directory: Path
    port: int
    token: str
    touched: list[str] = field(default_factory=list)

    @property
    def macros(self) -> dict[str, str | int]:
        return {
            "KY_CANARY_FILE": str(self.directory / "bait.txt"),
            "KY_CANARY_HEADER": str(self.directory / "bait.h"),
            "KY_CANARY_DIRECTORY": str(self.directory),
            "KY_CANARY_PORT": self.port,
            "KY_CANARY_SOCKET": str(self.directory / "bait.sock"),
            "KY_CANARY_ABSTRACT": f"kernelyard-bait-{self.token}",
            "KY_CANARY_PROCESS": f"ky-{self.token}",
        }

    def header(self) -> str:
        """The text of ``canary.h``."""
        lines = [f"#define {name} {json.dumps(value)}" for name, value in self.macros.items()]
        return "\n".join(["#pragma once", *lines, ""])

    def fill_in(self, source: str) -> str:
        """Python source with every bait name replaced by its value."""
        for name, value in self.macros.items():
            source = source.replace(f'"{name}"', repr(value))
        return source

    def evidence(self) -> list[str]:
        """What shows that a kernel got out since the last reset: connections, files, processes. Empty when held."""
        found = list(self.touched)
        found += [f"the file {p.name} appeared on the host" for p in self.directory.iterdir() if p.name not in _BAIT]
        found += [f"process {pid} outlived the evaluation" for pid in self._escaped()]
        return found

    def reset(self) -> None:
        """Forget what one case did, so that the next is not blamed: visits, files, and processes that got out."""
        self.touched.clear()
        for path in self.directory.iterdir():
            if path.name not in _BAIT:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        for pid in self._escaped():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _escaped(self) -> Iterator[int]:
        for comm in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if comm.read_text().strip() == f"ky-{self.token}":
                    yield int(comm.parent.name)


@contextlib.contextmanager
def planted() -> Iterator[Canary]:
    """Lay the bait for one run and take it away afterwards."""
    # Not under the user's own temporary directory, which may be closed to other uids.
    directory = Path(tempfile.mkdtemp(prefix="kernelyard-bait-", dir="/var/tmp"))
    directory.chmod(0o777)
    token = secrets.token_hex(4)
    (directory / "bait.txt").write_text("bait\n")
    (directory / "bait.h").write_text(f"#define KY_BAIT_ANSWER {ANSWER}\n")
    listeners = [socket.create_server(("127.0.0.1", 0))]
    canary = Canary(directory, listeners[0].getsockname()[1], token)
    for address in (str(directory / "bait.sock"), f"\0kernelyard-bait-{token}"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        listeners.append(listener)
    (directory / "bait.sock").chmod(0o777)
    what = ("the loopback port", "the Unix socket", "the abstract Unix socket")
    threads = [
        threading.Thread(target=_answer, args=(listener, name, canary.touched), daemon=True)
        for listener, name in zip(listeners, what, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield canary
    finally:
        for listener in listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        shutil.rmtree(directory, ignore_errors=True)


def _answer(listener: socket.socket, name: str, touched: list[str]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        touched.append(f"a kernel reached {name}")
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"yes")

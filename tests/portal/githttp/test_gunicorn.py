"""The same services behind gunicorn with threads: large packs, a server killed during a push, a client that leaves."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcore.gitstore import AttemptsRepository

ROOT = Path(__file__).resolve().parents[3]
BRANCH = "refs/heads/attempts/rmsnorm/cpp/alice/first"
KERNEL = "kernels/rmsnorm/cpp/kernel.cpp"
_PREPARE = """
import django
django.setup()
from django.core.management import call_command
from portal.agents.models import Agent
from portal.agents.tokens import issue_token
call_command("migrate", verbosity=0)
print(issue_token(Agent.objects.create(name="alice")))
"""


class Server:
    """gunicorn on its own home and database; `kill` ends all of it at once, as a power cut would."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("KERNELYARD_", "GIT_"))},
            "KERNELYARD_HOME": str(home),
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        self.token = subprocess.run(
            [sys.executable, "-c", _PREPARE],
            cwd=ROOT, env=self.environment, check=True, capture_output=True, text=True, timeout=120,
        ).stdout.split()[-1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "portal.wsgi:application", "--bind", f"127.0.0.1:{self.port}",
             "--worker-class", "gthread", "--threads", "4", "--log-level", "warning"],
            cwd=ROOT, env=self.environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=(self.home / "gunicorn.log").open("ab"),
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"GET /git/attempts.git HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
                    if connection.recv(12).endswith(b"200"):
                        return
            except OSError:
                time.sleep(0.05)
        raise AssertionError((self.home / "gunicorn.log").read_text()[-3000:])

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def url(self) -> str:
        return f"http://alice:{self.token}@127.0.0.1:{self.port}/git/attempts.git"

    def tip(self) -> str | None:
        with AttemptsRepository.open(self.home / "attempts.git") as attempts:
            return attempts.resolve(BRANCH)

    def begin_push(self, old: str, new: str, pack: bytes) -> socket.socket:
        """Send a push's head and ``pack`` as one chunk of a request that is never finished."""
        command = f"{old} {new} {BRANCH}\0report-status\n".encode()
        body = b"%04x%s0000%s" % (len(command) + 4, command, pack)
        secret = base64.b64encode(f"alice:{self.token}".encode()).decode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(
            (
                f"POST /git/attempts.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {secret}"
                "\r\nContent-Type: application/x-git-receive-pack-request\r\nTransfer-Encoding: chunked\r\n\r\n"
            ).encode()
            + b"%x\r\n%s\r\n" % (len(body), body)
        )
        return connection

    def services(self) -> list[int]:
        """Process ids of git services that run on the attempts repository."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"receive-pack" in line and str(self.home).encode() in line:
                    found.append(int(entry.name))
        return found


def settled(condition, timeout_s: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def fsck(server: Server) -> None:
    """No object is broken, no quarantine and no lock is left."""
    path = server.home / "attempts.git"
    done = subprocess.run(["git", "-C", str(path), "fsck", "--strict"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours = {"kernelyard-notes.lock", "kernelyard-pack.lock"}  # files that are kept to be locked
    assert {lock.name for lock in path.rglob("*.lock")} <= ours


def assert_swept(server: Server) -> None:
    """What the killed server left of its push goes with the hourly packing, once it is old."""
    path = server.home / "attempts.git"
    (left,) = path.glob("kernelyard-push-*")
    with AttemptsRepository.open(path) as attempts:
        attempts.pack()
        assert left.is_dir()  # a git that ends after its server may still write there
        os.utime(left, (0, 0))
        attempts.pack()
    assert not left.exists()


@pytest.fixture
def server(home: Path, repositories) -> Iterator[Server]:
    running = Server(home)
    running.start()
    yield running
    running.kill()


@pytest.mark.slow
def test_behind_gunicorn_large_packs_land_and_a_killed_server_leaves_old_or_new(server, client_of):
    alice = client_of()
    alice.clone(server.url)
    table = os.urandom(1 << 20)
    first = alice.commit({KERNEL: b"int a;\n", "kernels/rmsnorm/cpp/a.h": table, "kernels/rmsnorm/cpp/b.h": table[:-1]})
    done = alice.push()
    assert done.returncode == 0, done.stderr
    assert f"/attempts/{first}/" in done.stderr
    assert server.tip() == first

    # A client that leaves in the middle of its pack: git is ended, nothing lands.
    second = alice.commit({KERNEL: b"int b;\n", "kernels/rmsnorm/cpp/c.h": os.urandom(900_000)})
    pack = alice_pack(alice, first, second)
    connection = server.begin_push(first, second, pack[: len(pack) // 2])
    assert settled(server.services)
    connection.close()
    assert settled(lambda: not server.services()), "git outlived its client"
    assert server.tip() == first
    fsck(server)

    # The server is killed in the middle of a pack.
    connection = server.begin_push(first, second, pack[: len(pack) // 2])
    assert settled(server.services)
    server.kill()
    connection.close()
    assert settled(lambda: not server.services()), "git outlived the server"
    assert server.tip() == first
    fsck(server)
    assert_swept(server)

    # The server is killed at any moment of a whole push.
    old = first
    for delay_s in (0.05, 0.12, 0.2, 0.3):
        server.start()
        alice.git("remote", "set-url", "origin", server.url)
        new = alice.git("rev-parse", "HEAD").stdout.strip()
        push = subprocess.Popen(
            alice.command("push", "-q", "origin", f"HEAD:{BRANCH}"), env=alice.environment, stderr=subprocess.DEVNULL
        )
        time.sleep(delay_s)
        server.kill()
        push.wait(60)
        assert settled(lambda: not server.services())
        assert server.tip() in (old, new)
        fsck(server)
        if server.tip() == new:
            old, _ = new, alice.commit({KERNEL: f"int c{delay_s};\n".encode()})

    server.start()
    alice.git("remote", "set-url", "origin", server.url)
    last = alice.git("rev-parse", "HEAD").stdout.strip()
    done = alice.push()
    assert done.returncode == 0, done.stderr
    assert server.tip() == last


def alice_pack(client, old: str, new: str) -> bytes:
    """The pack a push from ``old`` to ``new`` sends."""
    return subprocess.run(
        client.command("pack-objects", "--stdout", "--revs", "-q"),
        input=f"{new}\n^{old}\n".encode(), env=client.environment, capture_output=True, check=True,
    ).stdout

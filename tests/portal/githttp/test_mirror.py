"""A host without the repository: its mirror fetches attempts over HTTP, once, in bounds, and says what failed."""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentcore.gitstore import AttemptsMirror, AttemptsRepository, GitStoreError, Unreachable, mirror
from agentcore.gitstore.mirror import check_url
from agentcore.vocabulary import AttemptRef, Language
from portal.githttp import views

REF = AttemptRef("rmsnorm", Language.CPP, "alice", "first")


@pytest.fixture(autouse=True)
def without_pause(monkeypatch) -> None:
    monkeypatch.setattr(mirror, "RETRY_PAUSE_S", 0.05)


@pytest.fixture
def url(live_server, repositories) -> str:
    return f"{live_server.url}/git/attempts.git"


@pytest.fixture
def push(home):
    """Lands a kernel on a branch of the portal; returns its commit."""

    def land(source: bytes, ref: AttemptRef = REF) -> str:
        with AttemptsRepository.open(home / "attempts.git") as attempts:
            return attempts.commit_attempt(ref, {"kernel.cpp": source}, "Try")

    return land


@pytest.fixture
def copy(tmp_path, url) -> AttemptsMirror:
    return AttemptsMirror(tmp_path / "other-host" / "mirror.git", url)


@pytest.fixture
def exchanges(monkeypatch) -> list[int]:
    """For each fetch the portal served, how many were going on at that moment."""
    seen: list[int] = []
    running: list[None] = []
    serve = views.exchange

    def counted(*arguments):
        running.append(None)
        seen.append(len(running))
        try:
            time.sleep(0.05)
            yield from serve(*arguments)
        finally:
            running.pop()

    monkeypatch.setattr(views, "exchange", counted)
    return seen


def kernel(copy: AttemptsMirror, commit: str, ref: AttemptRef = REF) -> dict[str, bytes]:
    with AttemptsRepository.open(copy.path) as repository:
        return repository.read_kernel(commit, ref)


def leftovers(copy: AttemptsMirror) -> list[Path]:
    return [*(copy.path / "objects").rglob("tmp_*"), *(copy.path / "refs").rglob("*.lock")]


def git_processes_of(path: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"GIT_DIR={path}".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def test_a_commit_below_the_tip_arrives_with_its_kernel_and_is_fetched_once(copy, push, exchanges):
    wanted = push(b"int first;\n")
    push(b"int second;\n")
    copy.obtain(wanted, REF)
    assert kernel(copy, wanted) == {"kernel.cpp": b"int first;\n"}
    served = len(exchanges)
    assert served
    copy.obtain(wanted, REF)
    assert len(exchanges) == served, "what is here is not asked for"
    later = push(b"int third;\n")
    copy.obtain(later, REF)
    assert kernel(copy, later) == {"kernel.cpp": b"int third;\n"}


def test_a_commit_that_is_not_on_the_branch_is_refused_even_if_it_is_known(copy, push):
    other = AttemptRef("rmsnorm", Language.CPP, "alice", "other")
    push(b"int first;\n")
    elsewhere = push(b"int other;\n", other)
    copy.obtain(elsewhere, other)
    for commit in (elsewhere, "0" * 39 + "1"):
        with pytest.raises(GitStoreError, match=f"{commit} is not on {REF.ref} at {copy.url}") as caught:
            copy.obtain(commit, REF)
        assert not isinstance(caught.value, Unreachable), "the portal did answer"


def test_a_branch_that_the_portal_does_not_have_is_asked_for_once(copy, push, monkeypatch):
    asked = []
    monkeypatch.setattr(copy, "_git", lambda *a, run=copy._git: asked.append(a) or run(*a))
    with pytest.raises(GitStoreError, match=f"{copy.url} has no {REF.ref}") as caught:
        copy.obtain("0" * 40, REF)
    assert not isinstance(caught.value, Unreachable)
    assert len(asked) == 1


def test_a_portal_that_is_down_is_named_with_the_branch_and_the_commit(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/git/attempts.git"
    copy = AttemptsMirror(tmp_path / "mirror.git", url)
    with pytest.raises(Unreachable) as caught:
        copy.obtain("1" * 40, REF)
    for part in (url, REF.ref, "1" * 40, "Check that the portal runs"):
        assert part in str(caught.value)
    with pytest.raises(Unreachable, match=url):
        copy.check()


def test_one_failure_is_forgiven(copy, push, monkeypatch):
    wanted = push(b"int first;\n")
    failures = [views._Refused(503, "restarting\n")]
    find = views._repository

    def flaky(name):
        if failures:
            raise failures.pop()
        return find(name)

    monkeypatch.setattr(views, "_repository", flaky)
    copy.obtain(wanted, REF)
    assert kernel(copy, wanted) == {"kernel.cpp": b"int first;\n"}
    assert not failures
    copy.check()


def test_a_portal_that_accepts_and_says_nothing_costs_no_more_than_the_time_limit(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        copy = AttemptsMirror(tmp_path / "mirror.git", f"http://127.0.0.1:{silent.getsockname()[1]}/attempts.git")
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="no end after"):
            copy.obtain("1" * 40, REF, timeout_s=1.5)
        assert time.monotonic() - begun < 30
    deadline = time.monotonic() + 10
    while (left := git_processes_of(copy.path)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == [], "nothing goes on behind our back"


def test_processes_of_one_host_fetch_one_after_another_and_never_twice_the_same(copy, push, exchanges):
    refs = [AttemptRef("rmsnorm", Language.CPP, "alice", f"b{n}") for n in range(3)]
    wanted = [(push(f"int k{n};\n".encode(), ref), ref) for n, ref in enumerate(refs)]
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda item: copy.obtain(*item), wanted * 3))
    assert all(kernel(copy, commit, ref) for commit, ref in wanted)
    assert max(exchanges) == 1
    once = len(exchanges)
    assert once % 3 == 0
    assert once // 3 <= 2, "a fetch is one or two requests (references, then objects)"


def test_waiting_for_another_fetch_ends_too(copy, push):
    wanted = push(b"int first;\n")
    copy.check()
    held, done = threading.Event(), threading.Event()

    def hold():
        with AttemptsRepository.open(copy.path) as repository, repository.lock("fetch"):
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        held.wait(10)
        with pytest.raises(Unreachable, match="held by another process"):
            copy.obtain(wanted, REF, timeout_s=0.4)
    finally:
        done.set()
        thread.join()
    copy.obtain(wanted, REF)


def test_what_a_killed_fetch_left_behind_does_not_stop_the_next(copy, push):
    wanted = push(b"int first;\n")
    copy.check()
    lock = copy.path / f"{REF.ref}.lock"
    lock.parent.mkdir(parents=True)
    for file in (lock, copy.path / "packed-refs.lock", copy.path / "objects" / "pack" / "tmp_pack_x"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"half")
    copy.obtain(wanted, REF)
    assert kernel(copy, wanted)
    assert leftovers(copy) == []


def test_a_pack_past_the_bound_is_not_kept(copy, push, monkeypatch):
    wanted = push(os.urandom(400_000).hex().encode())
    monkeypatch.setattr(mirror, "MAX_FETCH_BYTES", 100_000)
    with pytest.raises(GitStoreError, match="more than 100000 bytes") as caught:
        copy.obtain(wanted, REF)
    assert not isinstance(caught.value, Unreachable), "the portal did answer"
    with AttemptsRepository.open(copy.path) as repository:
        assert not repository.has_commit(wanted)
    monkeypatch.setattr(mirror, "MAX_FETCH_BYTES", 10_000_000)
    copy.obtain(wanted, REF)
    assert leftovers(copy) == []


def test_many_small_packs_are_put_together(copy, push, monkeypatch):
    monkeypatch.setattr(mirror, "MAX_PACKS", 2)
    commits = []
    for n in range(6):
        commits.append(push(f"int m{n};\n".encode()))
        copy.obtain(commits[-1], REF)
    assert len(list((copy.path / "objects" / "pack").glob("*.pack"))) <= 3
    assert all(kernel(copy, commit) for commit in commits)


@pytest.mark.parametrize(
    "address", ["", "portal", "/srv/attempts.git", "file:///srv/attempts.git", "ext::sh -c x", "http://portal", "http://"]
)
def test_only_http_addresses_are_fetched_from(address, tmp_path):
    with pytest.raises(ValueError, match="is not a git address"):
        AttemptsMirror(tmp_path / "mirror.git", address)


def test_an_address_with_a_password_is_refused_without_repeating_it():
    with pytest.raises(ValueError, match="leave it out") as caught:
        check_url("http://ada:secret@portal/git/attempts.git")
    assert "secret" not in str(caught.value)

"""Real git clients against Django's own server: who may fetch, who may push, and what crosses the wire."""

from __future__ import annotations

import base64
import gzip
import os
import urllib.error
import urllib.request

import pytest

from agentcore.gitstore import AttemptsRepository
from portal.agents.models import Agent
from portal.agents.tokens import issue_token, revoke_token

BRANCH = "refs/heads/attempts/rmsnorm/cpp/alice/first"
KERNEL = "kernels/rmsnorm/cpp/kernel.cpp"


@pytest.fixture
def url(live_server, repositories, settings) -> str:
    settings.PUBLIC_URL = live_server.url
    return f"{live_server.url}/git/attempts.git"


@pytest.fixture
def agent_url(url, token) -> str:
    return url.replace("http://", f"http://alice:{token}@")


@pytest.fixture
def reconciled(monkeypatch) -> list[list[str]]:
    """The refs handed to the portal after each push."""
    import portal.attempts.intake as intake

    calls: list[list[str]] = []
    monkeypatch.setattr(intake, "reconcile", lambda refs=None: calls.append(refs))
    return calls


def refs_of(home) -> dict[str, str]:
    with AttemptsRepository.open(home / "attempts.git") as attempts:
        return {ref.ref: oid for ref, oid in attempts.attempt_refs()}


def test_anyone_clones_solutions_and_nobody_pushes_them(live_server, repositories, client_of, token):
    visitor = client_of("visitor")
    visitor.clone(f"{live_server.url}/git/solutions.git")
    assert (visitor.directory / "README.md").exists()
    visitor.git("commit", "-q", "--allow-empty", "-m", "x")
    done = visitor.push("refs/heads/main")
    assert done.returncode != 0
    assert "solutions.git is read-only" in done.stderr
    signed_in = f"{live_server.url}/git/solutions.git".replace("http://", f"http://alice:{token}@")
    done = visitor.git("push", signed_in, "HEAD:refs/heads/main", check=False)
    assert "solutions.git is read-only" in done.stderr


def test_anyone_clones_attempts_but_pushing_asks_for_a_token(url, client_of, home):
    visitor = client_of("visitor")
    visitor.clone(url)
    visitor.commit({KERNEL: b"int a;\n"})
    done = visitor.push()
    assert done.returncode != 0
    assert "could not read Username" in done.stderr  # git was asked for credentials and may not prompt
    assert refs_of(home) == {}


def test_the_challenge_is_basic_and_names_what_is_needed(url):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/info/refs?service=git-receive-pack", timeout=30)
    assert caught.value.code == 401
    assert caught.value.headers["WWW-Authenticate"].startswith("Basic realm=")
    assert "token" in caught.value.read().decode()


def test_a_wrong_token_is_not_taken_for_none(url):
    asked = urllib.request.Request(f"{url}/info/refs?service=git-receive-pack", headers={
        "Authorization": f"Basic {base64.b64encode(b'alice:wrong').decode()}",
    })
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=30)
    assert caught.value.code == 401
    assert "do not go together" in caught.value.read().decode()


def test_an_agent_pushes_and_the_portal_hears_of_it(agent_url, client_of, home, reconciled):
    alice = client_of()
    alice.clone(agent_url)
    oid = alice.commit({KERNEL: b"int a;\n"})
    done = alice.push()
    assert done.returncode == 0, done.stderr
    assert refs_of(home) == {BRANCH: oid}
    assert reconciled == [[BRANCH]]
    assert f"/attempts/{oid}/" in done.stderr


def test_a_push_succeeds_when_indexing_fails(agent_url, client_of, home, monkeypatch, caplog):
    import portal.attempts.intake as intake

    def fail(refs=None):
        raise RuntimeError("database is away")

    monkeypatch.setattr(intake, "reconcile", fail)
    alice = client_of()
    alice.clone(agent_url)
    oid = alice.commit({KERNEL: b"int a;\n"})
    assert alice.push().returncode == 0
    assert refs_of(home) == {BRANCH: oid}
    assert "database is away" in caplog.text


def test_a_pack_over_a_mebibyte_arrives_in_chunks(agent_url, client_of, home, reconciled):
    alice = client_of()
    alice.clone(agent_url)
    table = os.urandom(1 << 20)
    oid = alice.commit({KERNEL: b"int a;\n", "kernels/rmsnorm/cpp/a.h": table, "kernels/rmsnorm/cpp/b.h": table[::-1]})
    done = alice.push()
    assert done.returncode == 0, done.stderr
    assert refs_of(home) == {BRANCH: oid}
    fresh = client_of("fresh")
    fresh.clone(agent_url)
    fresh.git("fetch", "-q", "origin", BRANCH)
    assert fresh.git("rev-parse", "FETCH_HEAD").stdout.strip() == oid


def test_a_refused_push_says_why_in_the_terminal_and_stores_nothing(agent_url, client_of, home, reconciled):
    alice = client_of()
    alice.clone(agent_url)
    alice.commit({"README.md": b"mine\n"})
    done = alice.push()
    assert done.returncode != 0
    assert "remote: push refused, and nothing of it was stored" in done.stderr
    assert "'README.md' lies outside" in done.stderr
    assert refs_of(home) == {}
    assert reconciled == []


def test_a_pack_over_the_limit_is_refused_with_the_limit_and_what_to_do(agent_url, client_of, home):
    alice = client_of()
    alice.clone(agent_url)
    alice.commit({f"kernels/rmsnorm/cpp/{n}.h": os.urandom(1 << 20) for n in range(20)})
    done = alice.push()
    assert done.returncode != 0
    assert "remote: push refused, and nothing of it was stored" in done.stderr
    assert "larger than 16 MiB" in done.stderr
    assert "Push fewer of them at a time" in done.stderr
    assert refs_of(home) == {}
    assert not list((home / "attempts.git/objects").glob("tmp_objdir*"))


def test_another_agents_namespace_and_notes_are_refused(agent_url, client_of, home):
    alice = client_of()
    alice.clone(agent_url)
    alice.commit({KERNEL: b"int a;\n"})
    assert "belongs to agent 'bob'" in alice.push("refs/heads/attempts/rmsnorm/cpp/bob/x").stderr
    assert "hidden ref" in alice.push("refs/notes/evaluations").stderr
    assert "hidden ref" in alice.push("refs/tags/v1").stderr
    assert "agents push only to their own attempts" in alice.push("refs/heads/main", "--force").stderr
    assert refs_of(home) == {}


def test_only_the_agents_own_branches_are_advertised_for_a_push(agent_url, url, client_of, home, reconciled):
    bob_url = url.replace("http://", f"http://bob:{issue_token(Agent.objects.create(name='bob'))}@")
    for name, address in (("alice", agent_url), ("bob", bob_url)):
        client = client_of(name)
        client.clone(address, name)
        client.commit({KERNEL: f"int {name};\n".encode()}, name)
        assert client.push(f"refs/heads/attempts/rmsnorm/cpp/{name}/first").returncode == 0
    request = urllib.request.Request(f"{url}/info/refs?service=git-receive-pack")
    password = agent_url.split("//")[1].split("@")[0]
    request.add_header("Authorization", "Basic " + base64.b64encode(password.encode()).decode())
    advertised = urllib.request.urlopen(request, timeout=30).read()
    assert BRANCH.encode() in advertised
    assert b"refs/heads/main" in advertised
    assert b"/bob/" not in advertised


@pytest.mark.parametrize("what", ["wrong token", "revoked", "inactive", "other agent"])
def test_a_token_that_is_not_the_agents_own_is_refused(url, token, client_of, home, what):
    alice = Agent.objects.get(name="alice")
    name, secret = "alice", token
    if what == "wrong token":
        secret = token[:-1] + ("A" if token[-1] != "A" else "B")
    elif what == "revoked":
        revoke_token(alice)
    elif what == "inactive":
        Agent.objects.update(is_active=False)
    else:
        Agent.objects.create(name="mallory")
        name = "mallory"
    client = client_of()
    client.clone(url)
    client.commit({KERNEL: b"int a;\n"})
    client.git("remote", "set-url", "origin", url.replace("http://", f"http://{name}:{secret}@"))
    assert client.push().returncode != 0
    assert refs_of(home) == {}


def test_fetching_speaks_protocol_version_2(url, client_of):
    client = client_of()
    done = client.git("-c", "protocol.version=2", "clone", url, ".", GIT_TRACE_PACKET="1")
    assert "version 2" in done.stderr
    assert "ls-refs" in done.stderr


@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_every_protocol_version_clones_and_fetches(url, client_of, repositories, version):
    client = client_of()
    client.git("-c", f"protocol.version={version}", "clone", "-q", url, ".")
    with AttemptsRepository.open(repositories[0]) as attempts:
        attempts.update_main([("NEWS.md", b"news\n")], "Add news")
    client.git("-c", f"protocol.version={version}", "pull", "-q")
    assert (client.directory / "NEWS.md").read_text() == "news\n"


def test_a_compressed_request_is_understood(url):
    # ls-refs of protocol 2, as git sends it when the request is long enough to be worth compressing.
    body = b"0014command=ls-refs\n00010009peel\n0000"
    request = urllib.request.Request(f"{url}/git-upload-pack", data=gzip.compress(body))
    request.add_header("Content-Type", "application/x-git-upload-pack-request")
    request.add_header("Content-Encoding", "gzip")
    request.add_header("Git-Protocol", "version=2")
    assert b"refs/heads/main" in urllib.request.urlopen(request, timeout=30).read()


def test_the_dumb_protocol_and_wrong_types_are_refused(url):
    for address, data, status in (
        (f"{url}/info/refs", None, 403),
        (f"{url}/HEAD", None, 404),
        (f"{url}/objects/info/packs", None, 404),
        (f"{url}/git-upload-pack", b"0000", 415),
    ):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(address, data=data, timeout=30)
        assert caught.value.code == status, address


def test_a_repository_that_is_not_there_yet_is_named(live_server, client_of):
    done = client_of().git("clone", f"{live_server.url}/git/attempts.git", ".", check=False)
    assert "attempts.git has not been created yet" in done.stderr


def test_a_person_in_a_browser_reads_how_to_clone(url):
    assert b"git clone" in urllib.request.urlopen(url, timeout=30).read()

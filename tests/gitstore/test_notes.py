"""Notes as an append-only record: order, batches, rivals, fan-out and interruptions."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from agentcore.gitstore import MAIN, SYSTEM, AttemptsRepository, GitStoreError, Lost
from agentcore.vocabulary import AttemptRef

ALICE = AttemptRef.parse("attempts/rmsnorm/cpp/alice/first")


@pytest.fixture
def commits(attempts) -> list[str]:
    return [attempts.commit_attempt(ALICE, {"kernel.cpp": b"int v%d;\n" % n}, f"Try {n}") for n in range(3)]


def note_commits(attempts, namespace: str) -> int:
    return len(attempts.git.text("rev_list", f"refs/notes/{namespace}").split())


def test_a_batch_is_one_commit_and_lines_keep_their_order(attempts, commits):
    attempts.append_notes("evaluations", [(commits[0], '{"n":1}'), (commits[1], '{"n":2}'), (commits[0], '{"n":3}')])
    assert note_commits(attempts, "evaluations") == 1
    attempts.append_notes("evaluations", [(commits[0], '{"n":4}')])
    assert note_commits(attempts, "evaluations") == 2
    assert attempts.read_notes("evaluations", commits[0]) == ['{"n":1}', '{"n":3}', '{"n":4}']
    assert dict(attempts.iter_notes("evaluations")) == {
        commits[0]: ['{"n":1}', '{"n":3}', '{"n":4}'], commits[1]: ['{"n":2}'],
    }
    assert attempts.read_notes("evaluations", commits[2]) == []


def test_plain_git_shows_the_notes(attempts, commits):
    attempts.append_notes("reviews", [(commits[0], '{"decision":"approved"}')])
    shown = subprocess.run(
        ["git", "-C", str(attempts.path), "notes", "--ref=reviews", "show", commits[0]],
        capture_output=True, text=True, check=True,
    )
    assert json.loads(shown.stdout) == {"decision": "approved"}


def test_namespaces_are_apart_and_their_names_are_plain_words(attempts, commits):
    attempts.append_notes("reviews", [(commits[0], "{}")])
    assert attempts.read_notes("evaluations", commits[0]) == []
    assert list(attempts.iter_notes("evaluations")) == []
    for name in ("../heads/main", "--force", "a/b", "", "Upper"):
        with pytest.raises(GitStoreError, match="namespace"):
            attempts.append_notes(name, [(commits[0], "{}")])


def test_nothing_to_append_writes_nothing(attempts):
    attempts.append_notes("evaluations", [])
    assert attempts.resolve("refs/notes/evaluations") is None


@pytest.mark.parametrize("line", ["", "  ", "two\nlines", "x" * ((4 << 20) + 1)])
def test_an_unfit_line_or_unknown_commit_stops_the_whole_batch(attempts, commits, line):
    with pytest.raises(GitStoreError, match=commits[1]):
        attempts.append_notes("evaluations", [(commits[0], "{}"), (commits[1], line)])
    with pytest.raises(GitStoreError, match="there is no commit"):
        attempts.append_notes("evaluations", [(commits[0], "{}"), ("f" * 40, "{}")])
    assert attempts.resolve("refs/notes/evaluations") is None


def test_a_rival_writer_is_noticed_and_nothing_of_either_is_lost(attempts, commits, monkeypatch):
    attempts.append_notes("evaluations", [(commits[0], '"first"')])
    real = attempts.move

    def with_a_rival(ref, new, old):
        # What a writer on another host does, which the lock of this host cannot exclude.
        monkeypatch.setattr(attempts, "move", real)
        git = ["git", "-C", str(attempts.path), "-c", "user.name=x", "-c", "user.email=x@y"]
        subprocess.run([*git, "notes", "--ref=evaluations", "append", "-m", '"rival"', commits[0]], check=True)
        real(ref, new, old)

    monkeypatch.setattr(attempts, "move", with_a_rival)
    attempts.append_notes("evaluations", [(commits[0], '"second"'), (commits[1], '"other"')])
    assert attempts.read_notes("evaluations", commits[0]) == ['"first"', '"rival"', '"second"']
    assert attempts.read_notes("evaluations", commits[1]) == ['"other"']


def test_a_writer_that_always_loses_gives_up_loudly(attempts, commits, monkeypatch):
    def lose(ref, new, old):
        raise Lost("moved")

    monkeypatch.setattr(attempts, "move", lose)
    with pytest.raises(Lost):
        attempts.append_notes("evaluations", [(commits[0], "{}")])
    assert attempts.resolve("refs/notes/evaluations") is None


def test_parallel_writers_on_one_host_take_turns(attempts, commits):
    def write(name: str) -> None:
        with AttemptsRepository.open(attempts.path) as own:
            for n in range(5):
                own.append_notes("evaluations", [(commits[0], json.dumps(f"{name}{n}"))])

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in attempts.read_notes("evaluations", commits[0])]
    assert sorted(lines) == sorted(f"{name}{n}" for name in "abc" for n in range(5))
    for name in "abc":
        assert [line for line in lines if line[0] == name] == [f"{name}{n}" for n in range(5)]


def test_what_an_interrupted_writer_left_in_scratch_does_not_get_in(attempts, commits):
    attempts.append_notes("reviews", [(commits[1], '"stray"')])
    stray = attempts.resolve("refs/notes/reviews")
    attempts.git.run("update_ref", "refs/kernelyard/scratch/evaluations", stray)
    attempts.append_notes("evaluations", [(commits[0], '"mine"')])
    assert dict(attempts.iter_notes("evaluations")) == {commits[0]: ['"mine"']}
    assert attempts.resolve("refs/kernelyard/scratch/evaluations") is None


def test_many_notes_fan_out_and_are_all_read_back(attempts):
    main, count = attempts.resolve(MAIN), 700
    chain = "".join(
        "commit refs/heads/attempts/rmsnorm/cpp/alice/many\n"
        f"committer {SYSTEM.name} <{SYSTEM.email}> {n + 10**9} +0000\ndata 1\nx\n{f'from {main}' if n == 0 else ''}\n"
        for n in range(count)
    )
    attempts.git.run("fast_import", "--quiet", stdin=chain.encode())
    oids = attempts.new_commits(None, attempts.resolve("refs/heads/attempts/rmsnorm/cpp/alice/many"))
    assert len(oids) == count
    attempts.append_notes("evaluations", [(oid, json.dumps({"of": oid})) for oid in oids])
    attempts.append_notes("evaluations", [(oids[7], '"again"')])
    top = attempts.git.text("ls_tree", "--name-only", "refs/notes/evaluations").split()
    assert max(map(len, top)) == 2, "the tree has not fanned out, so this test reads only the easy case"
    assert attempts.read_notes("evaluations", oids[7]) == [json.dumps({"of": oids[7]}), '"again"']
    seen = {oid: json.loads(lines[0])["of"] for oid, lines in attempts.iter_notes("evaluations")}
    assert seen == {oid: oid for oid in oids}

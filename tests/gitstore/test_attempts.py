"""The attempts repository: creating, reading, writing and exporting, against real git."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from agentcore.gitstore import MAIN, AttemptsRepository, GitStoreError, Lost, with_trailers
from agentcore.gitstore.records import parse_commits
from agentcore.vocabulary import AttemptRef

ALICE = AttemptRef.parse("attempts/rmsnorm/cpp/alice/first")
BOB = AttemptRef.parse("attempts/softmax/cpp/bob/first")


def test_a_new_repository_holds_the_seed_and_nothing_half_made_is_left(tmp_path: Path):
    seed = tmp_path / "seed"
    (seed / "deep/__pycache__").mkdir(parents=True)
    (seed / "README.md").write_text("hello\n")
    (seed / "yard").write_text("#!/usr/bin/env python3\n")
    (seed / "deep/kernel.py").write_text("#!/usr/bin/env python3\n")
    (seed / "deep/__pycache__/x.pyc").write_bytes(b"no")
    (seed / "link").symlink_to("/etc/passwd")
    with AttemptsRepository.create(tmp_path / "a b $HOME/attempts.git", seed) as repository:
        entries = {entry.path: entry.mode for entry in repository.entries(repository.resolve(MAIN))}
    assert entries == {"README.md": "100644", "deep/kernel.py": "100644", "yard": "100755"}
    assert [child.name for child in (tmp_path / "a b $HOME").iterdir()] == ["attempts.git"]
    with pytest.raises(GitStoreError, match="already exists"):
        AttemptsRepository.create(tmp_path / "a b $HOME/attempts.git")


def test_a_missing_repository_is_named(tmp_path: Path):
    with pytest.raises(GitStoreError, match=r"nothing.git is not a git repository"):
        AttemptsRepository.open(tmp_path / "nothing.git")


def test_configuration_and_variables_of_the_user_do_not_reach_git(tmp_path, attempts, monkeypatch):
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[core]\n\thooksPath = /tmp/evil\n[user]\n\tname = Evil\n[log]\n\tshowSignature = true\n")
    for key, value in {
        "GIT_CONFIG_GLOBAL": str(configuration), "HOME": str(tmp_path), "GIT_DIR": "/nonexistent",
        "GIT_AUTHOR_NAME": "Evil", "GIT_INDEX_FILE": "/nonexistent/index", "GIT_WORK_TREE": "/nonexistent",
        "GIT_EXTERNAL_DIFF": "/bin/false", "GIT_NAMESPACE": "evil",
    }.items():
        monkeypatch.setenv(key, value)
    first = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int a;\n"}, "Try a")
    assert attempts.commit(first).author_name == "alice"
    assert "+int a;" in attempts.diff(attempts.resolve(MAIN), first)


def test_a_commit_record_splits_subject_body_and_trailers(attempts):
    oid = attempts.commit_attempt(
        ALICE, {"kernel.cpp": b"int a;\n"}, "Try a\n\nBecause it is shorter.\n\nAnd simpler.",
        trailers={"Hypothesis": "fewer\nlines", "Campaign": "cpu", "Model": ""},
    )
    record = attempts.commit(oid)
    assert record.subject == "Try a"
    assert record.body == "Because it is shorter.\n\nAnd simpler."
    assert record.trailers == {
        "Problem": "rmsnorm", "Language": "cpp", "Agent": "alice", "Hypothesis": "fewer lines", "Campaign": "cpu",
    }
    assert record.parents == (attempts.resolve(MAIN),)
    assert (record.author_name, record.author_email) == ("alice", "alice@agents.kernelyard")
    assert record.authored_at.tzinfo is not None


def test_a_handoff_that_looks_like_a_trailer_stays_in_the_body():
    message = "Try a\n\nWorked.\n\nNext: try wider stores\nModel: m\n continued\n"
    trailers = "Next\x1ftry wider stores\x1eModel\x1fm"
    fields = ["1" * 40, "2" * 40, "", "a", "a@x", "a", "a@x", "0", "0", message, trailers]
    (record,) = parse_commits("".join(f"{field}\0" for field in fields).encode())
    assert record.body == "Worked.\n\nNext: try wider stores"
    assert record.trailers["Model"] == "m"


def test_trailers_continue_a_block_only_when_asked():
    assert with_trailers("S\n\nModel: x", {"Agent": "a"}, join=True) == "S\n\nModel: x\nAgent: a\n"
    assert with_trailers("S\n\nReviewed-by: forged", {"Agent": "a"}) == "S\n\nReviewed-by: forged\n\nAgent: a\n"


def test_attempts_follow_each_other_on_a_branch_and_lineage_is_the_parent_link(attempts):
    first = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int a;\n", "tile.h": b"t\n"}, "Try a")
    second = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int b;\n"}, "Try b")
    other = attempts.commit_attempt(BOB, {"kernel.cpp": b"int c;\n"}, "Try c")
    assert attempts.commit(second).parents == (first,)
    assert dict(attempts.attempt_refs()) == {ALICE: second, BOB: other}
    assert dict(attempts.attempt_refs("softmax")) == {BOB: other}
    assert dict(attempts.attempt_refs("soft")) == {}
    assert attempts.new_commits(None, second) == [first, second]
    assert attempts.new_commits(first, second) == [second]
    assert attempts.nearest_ancestor(second, {first, second, other}) == first
    assert attempts.nearest_ancestor(first, {second, first}) is None
    assert attempts.read_kernel(second, ALICE) == {"kernel.cpp": b"int b;\n"}


def test_equal_kernels_have_equal_trees_whatever_their_commits_say(attempts):
    fork = AttemptRef.parse("attempts/rmsnorm/cpp/bob/copy")
    first = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int a;\n"}, "Try a")
    copy = attempts.commit_attempt(fork, {"kernel.cpp": b"int a;\n"}, "The same", parent=first)
    changed = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int b;\n"}, "Try b")
    assert attempts.kernel_tree(first, ALICE) == attempts.kernel_tree(copy, fork)
    assert attempts.kernel_tree(first, ALICE) != attempts.kernel_tree(changed, ALICE)
    assert attempts.kernel_tree(first, AttemptRef.parse("attempts/rmsnorm/cuda/alice/x")) is None


def test_an_exported_kernel_is_plain_files_in_an_empty_directory(attempts, tmp_path):
    files = {"kernel.cpp": b"int a;\n", "sub/wide_ä.hpp": bytes(range(256))}
    oid = attempts.commit_attempt(ALICE, files, "Try a")
    out = tmp_path / "out"
    attempts.export_kernel(oid, ALICE, out)
    assert {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()} == files
    with pytest.raises(GitStoreError, match="is not empty"):
        attempts.export_kernel(oid, ALICE, out)


def test_a_link_that_was_put_in_past_the_policy_is_not_exported(attempts, tmp_path):
    base = attempts.resolve(MAIN)
    tree = attempts.write_tree(base, [], {"kernels/rmsnorm/cpp/evil.h": ("120000", b"/etc/passwd")})
    from agentcore.gitstore import SYSTEM

    oid = attempts.write_commit(tree, [base], "x", SYSTEM)
    with pytest.raises(GitStoreError, match=r"evil\.h' has mode 120000"):
        attempts.export_kernel(oid, ALICE, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_attempt_against_the_policy_is_refused_and_changes_nothing(attempts):
    for files, words in (
        ({"kernel.cpp": b"x", "a.so": b"\x7fELF"}, "only these kinds of file"),
        ({"other.h": b"x"}, "kernel.cpp is missing"),
        ({"kernel.cpp": b"x" * ((1 << 20) + 1)}, "more than 1048576"),
    ):
        with pytest.raises(GitStoreError, match=words):
            attempts.commit_attempt(ALICE, files, "Try")
    with pytest.raises(GitStoreError, match="its author is bob"):
        attempts.commit_attempt(ALICE, {"kernel.cpp": b"x"}, "Try", author="bob")
    assert dict(attempts.attempt_refs()) == {}


def test_a_branch_that_moved_meanwhile_is_not_overwritten(attempts, monkeypatch):
    first = attempts.commit_attempt(ALICE, {"kernel.cpp": b"int a;\n"}, "Try a")
    real = attempts.check_push

    def with_a_rival(*arguments):
        monkeypatch.setattr(attempts, "check_push", real)
        with AttemptsRepository.open(attempts.path) as rival:
            rival.commit_attempt(ALICE, {"kernel.cpp": b"int rival;\n"}, "Rival")
        return real(*arguments)

    monkeypatch.setattr(attempts, "check_push", with_a_rival)
    with pytest.raises(Lost):
        attempts.commit_attempt(ALICE, {"kernel.cpp": b"int b;\n"}, "Try b")
    tip = dict(attempts.attempt_refs())[ALICE]
    assert attempts.read_kernel(tip, ALICE) == {"kernel.cpp": b"int rival;\n"}
    assert attempts.commit(tip).parents == (first,)


def test_the_diff_is_limited_to_a_path_and_bounded(attempts):
    main = attempts.resolve(MAIN)
    oid = attempts.commit_attempt(ALICE, {"kernel.cpp": b"line\n" * 100_000}, "Try a")
    whole = attempts.diff(main, oid, ALICE.kernel_path, limit=4096)
    assert len(whole) < 4300
    assert "longer than 4096 bytes" in whole
    assert attempts.diff(main, oid, "kernels/softmax") == ""
    assert "+int start;" in attempts.diff(None, main, "kernels/softmax")
    assert "Binary files" in attempts.diff(
        main, attempts.commit_attempt(BOB, {"kernel.cpp": b"\0\xff" * 100}, "Binary"), BOB.kernel_path
    )


@pytest.mark.parametrize("oid", ["HEAD", "--all", "main", "../x", "f" * 39, "g" * 40, "-" * 40, ""])
def test_only_full_object_ids_reach_git(attempts, oid):
    for call in (attempts.commit, attempts.entries, attempts.blob, lambda o: attempts.diff(None, o)):
        with pytest.raises(GitStoreError, match="full object id"):
            call(oid)
    assert not attempts.has_commit(oid)


def test_an_unknown_commit_is_an_error_and_not_a_guess(attempts):
    with pytest.raises(GitStoreError, match="bad object"):
        attempts.commit("f" * 40)
    assert not attempts.has_commit("f" * 40)


def test_main_is_updated_in_one_commit_and_only_if_it_changes(attempts):
    before = attempts.resolve(MAIN)
    assert attempts.update_main([("README.md", b"Start here.\n")], "Same") is None
    new = attempts.update_main([("problems/gemm/definition.json", b"{}\n")], "Add gemm", remove=["problems/softmax"])
    assert attempts.commit(new).parents == (before,)
    assert attempts.names(new, "problems") == ["gemm", "rmsnorm"]
    assert attempts.read_file(new, "problems/gemm/definition.json") == b"{}\n"
    assert attempts.read_file(new, "problems/softmax/definition.json") is None


def test_one_opened_repository_is_not_shared_across_threads(attempts):
    caught: list[BaseException] = []

    def use() -> None:
        try:
            attempts.resolve(MAIN)
        except GitStoreError as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "another thread" in str(caught[0])


def test_a_hostile_date_or_name_does_not_break_reading(attempts):
    main = attempts.resolve(MAIN)
    tree = attempts.commit(main).tree
    raw = (
        f"tree {tree}\nparent {main}\nauthor \xc3\x28 <> 99999999999999 +9999\n"
        "committer x <y> 18446744073709551615 -0000\n\n\xff\xfe\n"
    ).encode("latin-1")
    oid = subprocess.run(
        ["git", "-C", str(attempts.path), "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        input=raw, capture_output=True, check=True,
    ).stdout.decode().strip()
    record = attempts.commit(oid)
    assert 1970 <= record.authored_at.year <= 3000
    assert record.trailers == {}


def test_packing_keeps_everything_readable_and_sweeps_what_killed_processes_left(attempts):
    oids = [attempts.commit_attempt(ALICE, {"kernel.cpp": b"int v%d;\n" % n}, f"Try {n}") for n in range(3)]
    old, fresh = attempts.path / "refs/heads/old.lock", attempts.path / "refs/heads/fresh.lock"
    quarantine = attempts.path / "objects/tmp_objdir-incoming-x"
    quarantine.mkdir()
    for path in (old, fresh):
        path.touch()
    for path in (old, quarantine):
        os.utime(path, (time.time() - 7200,) * 2)
    attempts.pack()
    assert not old.exists()
    assert not quarantine.exists()
    assert fresh.exists()
    with AttemptsRepository.open(attempts.path) as again:
        assert [record.oid for record in again.commits(oids)] == oids
        assert dict(again.attempt_refs()) == {ALICE: oids[-1]}

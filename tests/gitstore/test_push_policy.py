"""Hostile and honest pushes through git itself, with the checks running in quarantine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentcore.gitstore import AttemptsRepository
from agentcore.gitstore.policy import MAX_COMMITS

KERNEL = "kernels/rmsnorm/cpp/kernel.cpp"
BRANCH = "refs/heads/attempts/rmsnorm/cpp/alice/first"


def landed(attempts: AttemptsRepository) -> dict[str, str]:
    return {ref.ref: oid for ref, oid in attempts.attempt_refs()}


def refused(done: subprocess.CompletedProcess[str], attempts: AttemptsRepository, *words: str) -> None:
    """The push failed, says each of ``words`` in the terminal, and left neither a ref nor an object."""
    assert done.returncode != 0, done.stderr
    text = " ".join(line.removeprefix("remote: ").rstrip() for line in done.stderr.splitlines())
    for word in words:
        assert word in text, done.stderr
    assert landed(attempts) == {}
    assert not list((attempts.path / "objects").glob("tmp_objdir*")), "quarantine was left behind"


def test_an_attempt_lands_and_the_pusher_reads_where_its_result_appears(clone, attempts):
    clone.write(KERNEL)
    oid = clone.commit()
    done = clone.push()
    assert done.returncode == 0, done.stderr
    assert landed(attempts) == {BRANCH: oid}
    assert f"http://portal.example/attempts/{oid}/" in done.stderr
    assert f"yard result {oid[:12]}" in done.stderr


def test_several_commits_and_a_second_push_extend_a_branch(clone, attempts):
    for number in range(3):
        clone.write(KERNEL, b"int v%d;\n" % number)
        clone.commit()
    assert clone.push().returncode == 0
    clone.write("kernels/rmsnorm/cpp/more/wide_ä.hpp")
    oid = clone.commit()
    assert clone.push().returncode == 0
    assert landed(attempts) == {BRANCH: oid}


def test_an_attempt_may_build_on_another_agents_attempt(clone, attempts, tmp_path):
    clone.write(KERNEL)
    first = clone.commit()
    assert clone.push().returncode == 0
    bob = type(clone)(tmp_path / "bob", "bob")
    bob.path.mkdir()
    bob.git("clone", "-q", "--branch", BRANCH.removeprefix("refs/heads/"), str(attempts.path), ".")
    bob.identify()
    bob.write(KERNEL, b"int better;\n")
    bob.commit()
    assert bob.push("refs/heads/attempts/rmsnorm/cpp/bob/second").returncode == 0
    assert attempts.nearest_ancestor(bob.head(), {first, bob.head()}) == first


def test_an_unchanged_kernel_may_be_measured_by_an_empty_commit(clone, attempts):
    oid = clone.commit(None, "--allow-empty")
    assert clone.push().returncode == 0
    assert landed(attempts) == {BRANCH: oid}


def test_a_symbolic_link_is_refused(clone, attempts):
    (clone.path / "kernels/rmsnorm/cpp/secret.h").symlink_to("/etc/passwd")
    clone.commit()
    refused(clone.push(), attempts, "kernels/rmsnorm/cpp/secret.h", "a symbolic link")


def test_a_submodule_is_refused(clone, attempts):
    clone.git("update-index", "--add", "--cacheinfo", f"160000,{clone.head()},kernels/rmsnorm/cpp/sub.h")
    clone.git("commit", "-q", "-m", clone.message())
    refused(clone.push(), attempts, "sub.h", "a submodule")


def test_an_executable_is_refused(clone, attempts):
    clone.write(KERNEL).chmod(0o755)
    clone.commit()
    refused(clone.push(), attempts, KERNEL, "is executable", "update-index --chmod=-x")


@pytest.mark.parametrize(
    "name", [".gitattributes", ".gitmodules", ".GITattributes", "git~1.h", "a/.gitignore", ".git\u200battributes"]
)
def test_files_that_mean_something_to_git_are_refused(clone, attempts, name):
    clone.write(f"kernels/rmsnorm/cpp/{name}", b"* text=auto\n")
    clone.commit()
    refused(clone.push(), attempts, "kernels/rmsnorm/cpp/", "push refused")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a\x1b[31mred.h", "a control character (U+001B)"),
        ("new\nline.h", "a control character (U+000A)"),
        ("gpj.\u202eh", "an invisible formatting character (U+202E)"),
        ("-o.h", "may not start with '-'"),
        ("back\\slash.h", "which some systems cannot store"),
        ("payload.so", "only these kinds of file"),
        ("d/" * 9 + "deep.h", "directories deep"),
        ("d/" * 40 + "deep.h", "lies more than 12 directories deep"),
        ("problem.h/a.h", "problem.h is the generated header"),
        ("more/Problem.h/a.h", "problem.h is the generated header"),
        ("result.json", "taken by the record of the evaluation"),
        ("Solution.json", "taken by the record of the evaluation"),
        ("solution.json/a.h", "taken by the record of the evaluation"),
    ],
)
def test_a_hostile_name_is_refused_and_shown_escaped(clone, attempts, name, words):
    clone.write(f"kernels/rmsnorm/cpp/{name}")
    clone.commit()
    done = clone.push()
    refused(done, attempts, words)
    assert "\x1b[31m" not in done.stderr
    assert "\u202e" not in done.stderr


def test_names_that_differ_only_in_case_are_refused(clone, attempts):
    clone.write("kernels/rmsnorm/cpp/Tile.h")
    clone.write("kernels/rmsnorm/cpp/tile.h")
    clone.commit()
    refused(clone.push(), attempts, "Tile.h", "differ only in case")


def test_a_directory_spelt_in_another_case_is_outside(clone, attempts):
    clone.write("Kernels/rmsnorm/cpp/kernel.cpp")
    clone.commit()
    refused(clone.push(), attempts, "'Kernels/rmsnorm/cpp/kernel.cpp' lies outside")


@pytest.mark.parametrize("name", ["kernels/softmax/cpp/kernel.cpp", "README.md", "kernels/rmsnorm/cuda/kernel.cu"])
def test_files_of_other_problems_languages_or_the_root_are_refused(clone, attempts, name):
    clone.write(name)
    clone.commit()
    refused(clone.push(), attempts, name, "lies outside kernels/rmsnorm/cpp/")


def test_an_intermediate_commit_that_is_put_right_later_is_refused(clone, attempts):
    before = (clone.path / "README.md").read_bytes()
    clone.write("README.md", b"taken over\n")
    bad = clone.commit()
    clone.write("README.md", before)
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push(), attempts, bad[:12], "README.md")


def test_a_huge_file_is_refused(clone, attempts):
    clone.write("kernels/rmsnorm/cpp/table.h", os.urandom((1 << 20) + 1))
    clone.commit()
    refused(clone.push(), attempts, "table.h", "1048577 bytes")


def test_too_many_bytes_together_are_refused(clone, attempts):
    for number in range(5):
        clone.write(f"kernels/rmsnorm/cpp/t{number}.h", os.urandom(1 << 20))
    clone.commit()
    refused(clone.push(), attempts, "kernels/rmsnorm/cpp/ takes")


def test_too_many_files_are_refused(clone, attempts):
    for number in range(64):
        clone.write(f"kernels/rmsnorm/cpp/t{number}.h", b"%d\n" % number)
    clone.commit()
    refused(clone.push(), attempts, "holds 65 files")


def test_a_kernel_without_its_source_is_refused(clone, attempts):
    (clone.path / KERNEL).unlink()
    clone.write("kernels/rmsnorm/cpp/other.h")
    clone.commit()
    refused(clone.push(), attempts, f"file {KERNEL} is missing")


def test_another_agents_namespace_is_refused(clone, attempts):
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push("refs/heads/attempts/rmsnorm/cpp/bob/x"), attempts, "belongs to agent 'bob'", "you are 'alice'")


@pytest.mark.parametrize("ref", ["refs/heads/main", "refs/heads/work", "refs/notes/evaluations", "refs/tags/v1"])
def test_refs_that_are_no_attempts_are_refused(clone, attempts, ref):
    main = attempts.resolve("refs/heads/main")
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push(ref), attempts, "agents push only to their own attempts")
    assert attempts.resolve("refs/heads/main") == main


@pytest.mark.parametrize(
    ("branch", "words"),
    [
        ("attempts/rmsnorm/cpp/alice", "is not attempts/<problem>/<language>/<agent>/<slug>"),
        ("attempts/rmsnorm/fortran/alice/x", "language 'fortran'"),
        ("attempts/RMSnorm/cpp/alice/x", "problem 'RMSnorm'"),
        ("attempts/rmsnrom/cpp/alice/x", "Did you mean: rmsnorm"),
        ("attempts/zzz/cpp/alice/x", "there is no problem 'zzz'. `./yard problems` lists all"),
    ],
)
def test_a_malformed_branch_name_is_refused_with_the_part_at_fault(clone, attempts, branch, words):
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push(f"refs/heads/{branch}"), attempts, words)


def test_deleting_a_branch_is_refused(clone, attempts):
    clone.write(KERNEL)
    oid = clone.commit()
    assert clone.push().returncode == 0
    done = clone.git("push", "origin", f":{BRANCH}", check=False)
    assert done.returncode != 0
    assert landed(attempts) == {BRANCH: oid}


def test_a_forced_push_that_would_lose_commits_is_refused(clone, attempts):
    clone.write(KERNEL)
    oid = clone.commit()
    assert clone.push().returncode == 0
    clone.git("commit", "-q", "--amend", "-m", clone.message().replace("something", "else"))
    done = clone.push(BRANCH, "--force")
    assert done.returncode != 0
    assert "would be lost" in done.stderr
    assert landed(attempts) == {BRANCH: oid}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("No trailers", "the trailer Problem: is missing"),
        ("X\n\nProblem: softmax\nLanguage: cpp\nAgent: alice\n", "the trailer Problem: says 'softmax'"),
        ("X\n\nProblem: rmsnorm\nLanguage: cuda\nAgent: alice\n", "the trailer Language: says 'cuda'"),
        ("X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: bob\n", "the trailer Agent: says 'bob'"),
        ("X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\nagent: bob\n", "says 'alice', 'bob'"),
        ("X\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\nModel: a\nModel: b\n", "Model: occurs 2 times"),
        ("X\x1b[2J\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\n", "the control character U+001B"),
        ("X " + "long " * 14_000 + "\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\n", "Shorten the message"),
    ],
)
def test_a_message_that_disagrees_with_the_branch_is_refused(clone, attempts, message, words):
    clone.write(KERNEL)
    clone.commit(message)
    refused(clone.push(), attempts, words)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"GIT_COMMITTER_NAME": "bob"}, "its committer is bob <alice@agents.kernelyard>"),
        ({"GIT_COMMITTER_EMAIL": "root@example.org"}, "its committer is alice <root@example.org>"),
        ({"GIT_AUTHOR_NAME": "bob", "GIT_AUTHOR_EMAIL": "bob@agents.kernelyard"}, "its author is bob"),
        ({"GIT_AUTHOR_DATE": "@4102444800 +0000"}, "author date 2100-01-01 is not plausible"),
    ],
)
def test_a_forged_identity_or_date_is_refused(clone, attempts, environment, words):
    clone.write(KERNEL)
    clone.commit(None, **environment)
    refused(clone.push(), attempts, words)


def test_a_history_that_does_not_connect_to_main_is_refused(clone, attempts):
    clone.git("checkout", "-q", "--orphan", "fresh")
    clone.git("rm", "-rqf", "--cached", ".")
    clone.git("add", KERNEL)
    clone.git("commit", "-q", "-m", clone.message())
    refused(clone.push(), attempts, "it has no parent")


def test_a_history_that_hangs_on_a_notes_commit_is_refused(clone, attempts):
    main = attempts.resolve("refs/heads/main")
    attempts.append_notes("evaluations", [(main, "{}")])
    clone.git("fetch", "-q", "origin", "refs/notes/evaluations")
    clone.git("checkout", "-q", "FETCH_HEAD")
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push(), attempts, "it has no parent")


def test_a_merge_is_refused(clone, attempts):
    clone.git("checkout", "-q", "-b", "other")
    clone.write("kernels/rmsnorm/cpp/a.h")
    clone.commit()
    clone.git("checkout", "-q", "main")
    clone.write("kernels/rmsnorm/cpp/b.h")
    clone.commit()
    clone.git("merge", "-q", "-m", clone.message(), "other")
    refused(clone.push(), attempts, "merges 2 commits")


def test_a_branch_without_a_new_commit_is_refused(clone, attempts):
    refused(clone.push(), attempts, "holds no new commit")


def test_more_commits_than_anyone_reviews_are_refused(clone, attempts):
    parent, tree = clone.head(), clone.git("rev-parse", "HEAD^{tree}").stdout.strip()
    for _ in range(MAX_COMMITS + 1):
        parent = clone.git("commit-tree", tree, "-p", parent, "-m", clone.message()).stdout.strip()
    refused(clone.push(source=parent), attempts, f"more than {MAX_COMMITS} new commits")


def test_a_good_and_a_bad_branch_in_one_push_are_refused_together(clone, attempts):
    clone.write(KERNEL)
    clone.commit()
    done = clone.git(
        "push", "origin", f"HEAD:{BRANCH}", "HEAD:refs/heads/attempts/softmax/cpp/alice/x", check=False
    )
    refused(done, attempts, "the trailer Problem: says 'rmsnorm', but the branch says 'softmax'")


def test_without_a_signed_in_agent_nothing_is_accepted(clone, attempts):
    clone.environment.pop("KERNELYARD_AGENT")
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push(), attempts, "no agent is signed in")


def test_every_fault_of_a_push_is_reported_at_once(clone, attempts):
    (clone.path / "kernels/rmsnorm/cpp/link.h").symlink_to("kernel.cpp")
    clone.write("README.md", b"x\n")
    clone.commit("No trailers", GIT_AUTHOR_NAME="bob")
    refused(clone.push(), attempts, "link.h", "README.md", "Problem: is missing", "its author is bob")


def test_a_hook_that_cannot_run_refuses_the_push(clone, attempts):
    (attempts.path / "hooks/pre-receive").write_text("#!/bin/sh\nexec /nonexistent/python\n")
    clone.write(KERNEL)
    clone.commit()
    refused(clone.push(), attempts, "nonexistent")


def test_the_pusher_never_sees_a_traceback_and_the_operator_does(clone, attempts):
    hook = attempts.path / "hooks/pre-receive"
    hook.write_text(hook.read_text().replace("exec ", "GIT_OBJECT_DIRECTORY=/nonexistent exec "))
    clone.write(KERNEL)
    clone.commit()
    done = clone.push()
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "could not be checked" in done.stderr
    assert "Traceback" in (attempts.path / "kernelyard-hook.log").read_text()
    assert Path(attempts.path / "kernelyard-hook.log").stat().st_size < 1 << 20

"""Trees that stand for more directories than can be listed: refused at once, wherever they lie."""

from __future__ import annotations

import subprocess
import time

import pytest

from agentcore.gitstore import GitStoreError
from agentcore.gitstore.process import GitProcess
from agentcore.gitstore.shape import MAX_TREES

AT_ONCE_S = 15.0  # against for ever


class Trees:
    """Writes tree objects into a clone that no working tree could make, and commits them below a path."""

    def __init__(self, clone) -> None:
        self.clone = clone

    def write(self, *entries: str) -> str:
        """A tree of ``entries``, each ``mode kind oid TAB name``."""
        done = subprocess.run(
            ["git", "mktree"],
            cwd=self.clone.path,
            input="".join(f"{entry}\n" for entry in entries),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def bomb(self, levels: int, leaf: str | None = None) -> str:
        """``levels`` trees that stand for 2**levels directories."""
        tree = leaf or self.write()
        for _ in range(levels):
            tree = self.write(f"040000 tree {tree}\ta", f"040000 tree {tree}\tb")
        return tree

    def commit_at(self, path: str, tree: str, parents: list[str] | None = None) -> str:
        """A commit of the clone's head with ``tree`` at ``path``, whose parents are the head unless given."""
        git = self.clone.git
        rows = git("ls-tree", "HEAD").stdout.splitlines()
        root = self._with(rows, path.split("/"), tree, "HEAD:")
        above = [f"-p{parent}" for parent in (parents if parents is not None else [self.clone.head()])]
        return git("commit-tree", root, *above, "-m", self.clone.message()).stdout.strip()

    def _with(self, rows: list[str], names: list[str], tree: str, where: str) -> str:
        name, rest = names[0], names[1:]
        if rest:
            inside = self.clone.git("ls-tree", f"{where}{name}", check=False).stdout.splitlines()
            tree = self._with(inside, rest, tree, f"{where}{name}/")
        return self.write(*[row for row in rows if row.partition("\t")[2] != name], f"040000 tree {tree}\t{name}")


@pytest.fixture
def trees(clone) -> Trees:
    return Trees(clone)


def refused_at_once(clone, attempts, source: str, words: str) -> None:
    started = time.monotonic()
    done = clone.push(source=source)
    assert time.monotonic() - started < AT_ONCE_S
    assert done.returncode != 0, done.stderr
    text = " ".join(line.removeprefix("remote: ").rstrip() for line in done.stderr.splitlines())
    assert words in text, done.stderr
    assert list(attempts.attempt_refs()) == []


@pytest.mark.parametrize("place", ["kernels/rmsnorm/cpp/z", "elsewhere", "kernels/softmax/cpp/z"])
def test_a_tree_bomb_is_refused_at_once(clone, attempts, trees, place):
    refused_at_once(clone, attempts, trees.commit_at(place, trees.bomb(45)), f"more than {MAX_TREES} directories")


def test_a_tree_bomb_with_files_at_its_leaves_is_refused_at_once(clone, attempts, trees):
    blob = clone.git("rev-parse", "HEAD:kernels/rmsnorm/cpp/kernel.cpp").stdout.strip()
    bomb = trees.bomb(45, trees.write(f"100644 blob {blob}\ta.h"))
    refused_at_once(clone, attempts, trees.commit_at("kernels/rmsnorm/cpp/z", bomb), "directories")


@pytest.mark.parametrize("parents", [0, 1, 2])
def test_a_tree_bomb_in_the_parent_of_a_harmless_commit_is_refused_at_once(clone, attempts, trees, parents):
    head = clone.head()
    side = trees.commit_at("kernels/rmsnorm/cpp/y", trees.write())
    bad = trees.commit_at("kernels/rmsnorm/cpp/z", trees.bomb(45), [head, side][:parents])
    tree = clone.git("rev-parse", f"{bad}^{{tree}}").stdout.strip()
    # The same trees again: of this commit nothing differs from its parent, and the kernel's directory holds the bomb.
    child = clone.git("commit-tree", tree, "-p", bad, "-m", clone.message()).stdout.strip()
    refused_at_once(clone, attempts, child, "commit")


def test_an_empty_directory_is_refused_by_name(clone, attempts, trees):
    commit = trees.commit_at("kernels/rmsnorm/cpp/z", trees.write())
    refused_at_once(clone, attempts, commit, "directory 'kernels/rmsnorm/cpp/z' is empty")


def test_more_changed_entries_than_a_kernel_can_have_are_refused(clone, attempts, trees):
    blob = clone.git("rev-parse", "HEAD:kernels/rmsnorm/cpp/kernel.cpp").stdout.strip()
    wide = trees.write(*[f"100644 blob {blob}\tf{number}.h" for number in range(3000)])
    refused_at_once(clone, attempts, trees.commit_at("kernels/rmsnorm/cpp/z", wide), "more than 2048 files")


def test_a_command_that_would_not_end_is_stopped_and_named(clone, trees):
    bomb = trees.bomb(45)
    started = time.monotonic()
    with GitProcess(clone.path / ".git", timeout_s=0.5) as git:
        with pytest.raises(GitStoreError, match=r"git ls_tree in \.git took longer than 0\.5 s"):
            git.head("ls_tree", "-r", bomb, limit=100)
        with pytest.raises(GitStoreError, match="took longer"):
            list(git.lines("ls_tree", "-r", bomb))
        with pytest.raises(GitStoreError, match="ls_tree failed"):
            git.run("ls_tree", "-r", bomb)
    assert time.monotonic() - started < AT_ONCE_S


def test_the_time_between_two_lines_is_the_readers_own(clone):
    with GitProcess(clone.path / ".git", timeout_s=0.5) as git:
        names = []
        for name in git.lines("ls_tree", "--name-only", "HEAD"):
            names.append(name)
            time.sleep(0.3)
    assert names == ["README.md", "kernels", "problems", "yard"]


def test_a_command_that_fails_is_no_empty_answer(clone):
    with GitProcess(clone.path / ".git") as git, pytest.raises(GitStoreError, match="status 128: fatal: not a"):
        git.head("ls_tree", "0" * 40, limit=100)

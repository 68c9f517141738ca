"""Whether the trees of a commit are small enough to be listed whole: looked at before anything recursive runs on them.

A few kilobytes of tree objects that name each other can stand for more directories than git could ever list, and pass
its own checks. Here only what differs from the parent is walked, level by level, and the walk stops at its limits.
Not for what lies in the trees: names, modes and sizes of files are the policy's.
"""

from __future__ import annotations

from agentcore.gitstore.process import GitProcess, GitStoreError
from agentcore.paths import MAX_DEPTH, MAX_FILES, shown

MAX_TREE_DEPTH = 12
MAX_TREES = 256
MAX_ENTRIES = 2048
MAX_TREE_BYTES = 1 << 20
_TREE_MODE = b"40000"
assert MAX_TREE_DEPTH >= 3 + MAX_DEPTH - 1  # kernels/<problem>/<language>/ and what a path inside it may add
assert MAX_ENTRIES >= 2 * MAX_FILES


def shape_fault(git: GitProcess, before: str, after: str) -> str | None:
    """Why the tree ``after`` may not be listed recursively, with what to do; None if it may.

    ``before`` is the parent's tree, found good by this function or made by the operator: then the walk reads at most
    MAX_TREES trees of at most MAX_TREE_BYTES each, and as many of the parent's.
    """
    pending: list[tuple[str, str, str | None]] = [("", after, before)]
    trees = entries = 0
    for depth in range(MAX_TREE_DEPTH + 1):
        deeper: list[tuple[str, str, str | None]] = []
        for path, new, old in pending:
            size = git.object_size(new)
            if size > MAX_TREE_BYTES:
                return f"directory {shown(path or '/')} has too many entries. Remove some."
            if size == 0 and path:
                return f"directory {shown(path)} is empty, which git itself never commits. Remove it."
            known = read_tree(git, old) if old else {}
            for name, (mode, oid) in read_tree(git, new).items():
                if known.get(name) == (mode, oid):
                    continue
                entries += 1
                if entries > MAX_ENTRIES:
                    return f"it changes more than {MAX_ENTRIES} files and directories. Change fewer."
                if mode != _TREE_MODE:
                    continue
                trees += 1
                if trees > MAX_TREES:
                    return f"it changes more than {MAX_TREES} directories. Put the files into fewer."
                was_mode, was_oid = known.get(name, (b"", ""))
                here = f"{path}/{name.decode(errors='surrogateescape')}".removeprefix("/")
                deeper.append((here, oid, was_oid if was_mode == _TREE_MODE else None))
        if not deeper:
            return None
        if depth == MAX_TREE_DEPTH:
            return f"directory {shown(deeper[0][0])} lies more than {MAX_TREE_DEPTH} directories deep. Move it up."
        pending = deeper
    return None


def read_tree(git: GitProcess, oid: str) -> dict[bytes, tuple[bytes, str]]:
    """``{name: (mode, oid)}`` of one tree, not recursive; modes without leading zeros. Raises GitStoreError."""
    found = git.read_object(oid)
    if found is None or found[0] != "tree":
        raise GitStoreError(f"{oid} is no tree in {git.path.name}")
    data, width = found[1], len(oid) // 2
    entries: dict[bytes, tuple[bytes, str]] = {}
    start = 0
    while start < len(data):
        end = data.find(b"\0", start)
        mode, space, name = data[start:end].partition(b" ")
        if end < 0 or not space or end + 1 + width > len(data):
            raise GitStoreError(f"tree {oid} in {git.path.name} is malformed")
        entries[name] = (mode.lstrip(b"0"), data[end + 1 : end + 1 + width].hex())
        start = end + 1 + width
    return entries

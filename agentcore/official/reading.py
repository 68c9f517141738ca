"""Getting a ``solution.json`` from disk: one file that carries its sources, or a directory with the sources beside it.

Everything read is hostile until the model has accepted it. Nothing here writes or runs anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentcore.build.source import SourceError, read_tree
from agentcore.official.solution import OfficialSolution
from agentcore.paths import shown
from agentcore.problems.documents import parse_json, read_text, validate
from agentcore.problems.errors import DocumentError

NAME = "solution.json"
MAX_BYTES = 16 << 20
SOURCE_SUFFIXES = frozenset(".c .cc .cpp .cu .cuh .cxx .h .hpp .inc .inl .ptx .py".split())  # noqa: SIM905


class SolutionError(DocumentError):
    """A ``solution.json`` cannot be used. The message names file, line (where known) and field."""


def is_solution(path: Path) -> bool:
    """Whether ``path`` is meant as an official solution: a file, or a directory whose solution.json has a ``spec``.

    A published kernel has a solution.json of its own beside it, without one.
    """
    if not path.is_dir():
        return path.is_file() or path.suffix == ".json"
    try:
        data = parse_json(path / NAME, read_text(path / NAME, max_bytes=MAX_BYTES, error=SolutionError))
    except DocumentError:
        return False
    return isinstance(data, dict) and "spec" in data


def read_solution(path: Path) -> OfficialSolution:
    """The solution in the file ``path``, or in the directory ``path``: its solution.json and the sources beside it.

    In a directory, sources without ``content`` are read from the files of their paths, and a missing ``sources`` means
    every source file there. Raises SolutionError.
    """
    in_directory = path.is_dir()
    file = path / NAME if in_directory else path
    text = read_text(file, max_bytes=MAX_BYTES, follow_links=False, error=SolutionError)
    data = parse_json(file, text, error=SolutionError)
    if not isinstance(data, dict):
        raise SolutionError.at(file, 1, "", "is not a JSON object")
    if in_directory:
        data = data | {"sources": _with_files(path, file, data.get("sources"))}
    try:
        return validate(OfficialSolution, data, file, text, error=SolutionError)
    except RecursionError:
        raise SolutionError.at(file, None, "", "is nested too deeply") from None


def _with_files(directory: Path, file: Path, sources: Any) -> Any:
    """``sources`` with the content of the files beside solution.json, where it has none of its own."""
    if isinstance(sources, list) and all(isinstance(s, dict) and s.get("content") is not None for s in sources):
        return sources
    try:
        tree = read_tree(directory)
    except SourceError as error:
        raise SolutionError.at(file, None, "sources", f"the directory cannot be read: {error}") from None
    if sources is None:
        return [
            {"path": name, "content": _text(file, "sources", name, content)}
            for name, content in tree.items()
            if Path(name).suffix in SOURCE_SUFFIXES
        ]
    if not isinstance(sources, list):
        return sources  # for the model to refuse
    filled = []
    for index, source in enumerate(sources):
        name = source.get("path") if isinstance(source, dict) else None
        if not isinstance(name, str) or source.get("content") is not None:
            filled.append(source)
            continue
        if name not in tree:
            raise SolutionError.at(
                file, None, f"sources[{index}]", f"has no content, and no file {shown(name)} lies beside solution.json"
            )
        filled.append(source | {"content": _text(file, f"sources[{index}]", name, tree[name])})
    return filled


def _text(file: Path, field: str, name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SolutionError.at(file, None, field, f"{shown(name)} is not UTF-8: {error}") from None

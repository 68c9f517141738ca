"""JSON documents that people and agents write: read within bounds, and refused with file, line and field.

Not for what is in them: a model of pydantic says that.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from agentcore.problems.errors import DocumentError, InconsistentError, ProblemError
from agentcore.problems.locate import line_of

Model = TypeVar("Model", bound=BaseModel)

MAX_FILE_BYTES = 32 << 20
_SHOWN_ERRORS = 10
_UNSTORABLE = re.compile(r"\x00|\\u(?:0000|[dD][89a-fA-F])")


def read_text(
    file: Path, *, max_bytes: int = MAX_FILE_BYTES, follow_links: bool = True, error: type[DocumentError] = ProblemError
) -> str:
    """The text of a regular file of at most ``max_bytes``. Raises ``error`` naming the file."""
    try:
        with _opened(file, follow_links, error) as stream:
            content = stream.read(max_bytes + 1)
    except OSError as fault:
        raise error.at(file, None, "", f"cannot be read: {fault.strerror or fault}") from None
    if len(content) > max_bytes:
        raise error.at(file, None, "", f"is larger than {max_bytes >> 20} MiB")
    try:
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as fault:
        raise error.at(file, None, "", f"is not UTF-8: {fault}") from None


def read_lines(
    file: Path, *, max_line_bytes: int, error: type[DocumentError] = ProblemError
) -> Iterator[tuple[int, str]]:
    """The lines of a regular file with their numbers from 1, however long the file is. Raises ``error``."""
    try:
        with _opened(file, True, error) as stream:
            number = 0
            while line := stream.readline(max_line_bytes + 1):
                number += 1
                if len(line) > max_line_bytes:
                    raise error.at(file, number, "", f"is longer than {max_line_bytes >> 20} MiB")
                try:
                    yield number, line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as fault:
                    raise error.at(file, number, "", f"is not UTF-8: {fault}") from None
    except OSError as fault:
        raise error.at(file, None, "", f"cannot be read: {fault.strerror or fault}") from None


@contextmanager
def _opened(file: Path, follow_links: bool, error: type[DocumentError]) -> Iterator[BinaryIO]:
    # Not blocking, so that a pipe in the file's place cannot hold us.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    with os.fdopen(os.open(file, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise error.at(file, None, "", "is not a regular file")
        yield stream


def parse_json(file: Path, text: str, first_line: int = 1, *, error: type[DocumentError] = ProblemError) -> Any:
    """The JSON value in ``text``, which starts on ``first_line`` of ``file``. Raises ``error``, also for a field
    that is given twice.
    """
    try:
        found = json.loads(text, object_pairs_hook=_no_duplicates)
        # An escape can smuggle in half a surrogate pair or a NUL, which no file, page or database would take.
        unstorable = find_unstorable(found) if _UNSTORABLE.search(text) else None
    except json.JSONDecodeError as fault:
        line = first_line + fault.lineno - 1
        raise error.at(file, line, "", f"is not JSON: {fault.msg} (column {fault.colno})") from None
    except RecursionError:
        raise error.at(file, first_line, "", "is nested too deeply") from None
    except ValueError as fault:
        raise error.at(file, first_line, "", str(fault)) from None
    if unstorable is not None:
        raise error.at(file, first_line, dotted(unstorable), "holds a NUL or half a surrogate pair")
    return found


def validate(
    model: type[Model],
    data: Any,
    file: Path,
    text: str,
    first_line: int | None = 1,
    *,
    within: Sequence[str | int] = (),
    error: type[DocumentError] = ProblemError,
) -> Model:
    """``data``, parsed from ``text``, as ``model``. Raises ``error`` with a line for each of the first few faults.

    ``within`` is where ``data`` stands in ``text``; ``first_line`` None says that ``file`` has no lines (a table).
    A model may raise InconsistentError for several members at once.
    """
    try:
        return model.model_validate(data)
    except ValidationError as fault:
        found = [each for item in fault.errors(include_url=False, include_input=False) for each in _faults(item, data)]
        lines = []
        for steps, message in found[:_SHOWN_ERRORS]:
            line = None if first_line is None else first_line + line_of(text, (*within, *steps)) - 1
            lines.append(str(error.at(file, line, dotted((*within, *steps)), message)))
        if len(found) > _SHOWN_ERRORS:
            lines.append(f"{file}: and {len(found) - _SHOWN_ERRORS} more")
        joined = error("\n".join(lines))
        joined.file = file
        raise joined from None


def _faults(item: Any, data: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """The steps and the message of one error of a validator, of each of those that it carries."""
    steps = tuple(_steps(item["loc"], data))
    raised = item.get("ctx", {}).get("error")
    if isinstance(raised, InconsistentError):
        return [((*steps, *below), message) for below, message in raised.faults]
    return [(steps, item["msg"].removeprefix("Value error, "))]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"field {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return members


def dotted(path: Iterable[str | int]) -> str:
    """``a.b[3].c`` for the steps to a value."""
    name = ""
    for step in path:
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else str(step)
    return name


def _steps(location: Iterable[str | int], data: Any) -> list[str | int]:
    """A validator's location without the tags of unions, which are not in the file."""
    steps = list(location)
    kept: list[str | int] = []
    for position, step in enumerate(steps):
        inside = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        )
        if inside:
            data = data[step]
        elif position < len(steps) - 1 or not isinstance(data, dict):
            continue  # a union's tag
        kept.append(step)
    return kept


def find_unstorable(value: Any) -> list[str | int] | None:
    """The steps to a text in a JSON value that holds a NUL or half a surrogate pair, or to the object with such a name;
    None where there is none.
    """
    if isinstance(value, str):
        return [] if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value) else None
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for step, member in members:
        if isinstance(step, str) and find_unstorable(step) is not None:
            return []  # the name cannot be shown
        below = find_unstorable(member)
        if below is not None:
            return [step, *below]
    return None

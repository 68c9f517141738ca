"""What goes wrong with a problem's files, said so that its author can fix it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

MAX_SHOWN_LINES = 25
"""Of the faults of one problem no more lines are shown."""
_LONGEST_LINE = 1000


class DocumentError(ValueError):
    """A file that somebody wrote cannot be used. The message names file, line (where known) and field."""

    file: Path | None = None
    """The file at fault, or the directory it belongs to, where one is."""

    @classmethod
    def at(cls, file: Path, line: int | None, field: str, message: str) -> Self:
        """Build ``FILE:LINE: FIELD: MESSAGE``; ``line`` counts from 1; an empty ``field`` is left out."""
        place = f"{file}:{line}" if line is not None else str(file)
        error = cls(f"{place}: {field}: {message}" if field else f"{place}: {message}")
        error.file = file
        return error


class ProblemError(DocumentError):
    """A problem's files cannot be used."""


class Faults:
    """What is wrong with one problem, gathered so that its author hears of all of it at once."""

    def __init__(self, given: Iterable[ProblemError] = ()) -> None:
        self._found = list(given)

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def found(self) -> tuple[ProblemError, ...]:
        return tuple(self._found)

    @property
    def is_full(self) -> bool:
        """Whether more are found than will be shown: looking for others is in vain."""
        return len(self._found) > MAX_SHOWN_LINES

    def add(self, *errors: ProblemError) -> None:
        self._found += errors

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep a ProblemError that is raised inside, and go on after it."""
        try:
            yield
        except ProblemError as error:
            self._found.append(error)

    def raise_any(self) -> None:
        """Raise ProblemError with a line for each fault, where there is one."""
        if not self._found:
            return
        if len(self._found) == 1:
            raise self._found[0]
        lines = list(dict.fromkeys(line for error in self._found for line in str(error).splitlines()))
        more = len(lines) - MAX_SHOWN_LINES
        lines = [line[:_LONGEST_LINE] for line in lines]
        # Whoever gathers may have stopped there.
        said = [f"and {more} or more others"] if more > 0 else []
        joined = ProblemError("\n".join(lines[:MAX_SHOWN_LINES] + said))
        joined.file = self._found[0].file
        raise joined


class InconsistentError(ValueError):
    """Members of a document do not fit each other. ``faults``: the steps to each member, and what is wrong with it."""

    def __init__(self, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = tuple(faults)


class ExpressionError(ValueError):
    """An axis expression cannot be parsed or evaluated. The message names the expression."""

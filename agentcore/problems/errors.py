"""What goes wrong with a problem's files, said so that its author can fix it."""

from __future__ import annotations

from pathlib import Path
from typing import Self


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


class ExpressionError(ValueError):
    """An axis expression cannot be parsed or evaluated. The message names the expression."""

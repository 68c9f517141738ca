"""A JSON value together with where it came from, so that whatever is wrong with it can be said of its place."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from agentcore.problems.documents import dotted, parse_json, read_text, validate
from agentcore.problems.errors import MAX_SHOWN_LINES, Faults, ProblemError
from agentcore.problems.locate import line_of

Model = TypeVar("Model", bound=BaseModel)

_LONGEST_FIELD, _LIKENESS = 60, 0.8


@dataclass(frozen=True, slots=True)
class Item:
    """``value`` stands at ``within`` in the JSON ``text``, which starts on ``line`` of ``file``.

    ``line`` None: the file has no lines to point at (a table), and ``file`` says the row.
    """

    file: Path
    text: str
    value: Any
    line: int | None = 1
    within: tuple[str | int, ...] = ()

    @property
    def is_unread(self) -> bool:
        """Whether it stands for a file that could not be read: a table's row has no text either, but a value."""
        return not self.text and self.value is None

    def part(self, *steps: str | int, value: Any = None) -> Item:
        """The member at ``steps``; ``value`` replaces it where it was decoded from a string."""
        found = value
        if found is None:
            found = self.value
            for step in steps:
                found = found[step]
        return Item(self.file, self.text, found, self.line, (*self.within, *steps))

    def error(self, field: str, message: str, *, at: Sequence[str | int] = ()) -> ProblemError:
        """An error about ``field`` of this value; ``at`` are the steps to the line that it stands on."""
        line = None if self.line is None else self.line + line_of(self.text, (*self.within, *at)) - 1
        place = dotted(self.within)
        return ProblemError.at(self.file, line, f"{place}.{field}" if place and field else place or field, message)

    def as_model(self, model: type[Model]) -> Model:
        """The value as ``model``. Raises ProblemError with a line for each of the first few faults."""
        return validate(model, self.value, self.file, self.text, self.line, within=self.within)


def read_item(file: Path) -> Item:
    """The JSON value that ``file`` holds. Raises ProblemError."""
    text = read_text(file)
    return Item(file, text, parse_json(file, text, 1))


def read_items(file: Path, faults: Faults) -> list[Item]:
    """One JSON value for each line that is not blank. What cannot be read goes to ``faults``, line by line."""
    found: list[Item] = []
    with faults.gathered():
        for number, line in enumerate(read_text(file).split("\n"), start=1):
            if line.strip() and not faults.is_full:
                with faults.gathered():
                    found.append(Item(file, line, parse_json(file, line, number), number))
    return found


class Notes:
    """What does not stop a problem from loading but may not have been meant, each thing once for each file."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, str, str], tuple[str, int]] = {}
        self._passed_over = 0

    def add(self, item: Item, field: str, message: str, *, at: Sequence[str | int] = ()) -> None:
        """As :meth:`Item.error` says it. What is said of many lines of a file is shown for the first."""
        key = (item.file, field, message)
        if key not in self._found and len(self._found) >= MAX_SHOWN_LINES:
            self._passed_over += 1
            return
        first, times = self._found.get(key) or (str(item.error(field, message, at=at)), 0)
        self._found[key] = (first, times + 1)

    def add_misspelt(self, item: Item, model: type[BaseModel]) -> None:
        """Fields of ``item`` that are ignored and are nearly called like one of ``model``."""
        unknown = sorted(item.value.keys() - model.model_fields.keys()) if isinstance(item.value, dict) else []
        for name in unknown[:MAX_SHOWN_LINES]:
            near = difflib.get_close_matches(name[:_LONGEST_FIELD], model.model_fields, 1, _LIKENESS)
            if near:
                self.add(item, name, f"is no field and is ignored; {near[0]!r} is one", at=[name])

    def add_error(self, error: ProblemError) -> None:
        self._found[error.file or Path(), "", str(error)] = (str(error), 1)

    def lines(self) -> tuple[str, ...]:
        """One text for each, no more than are worth showing."""
        said = [f"{text}{f' (and {n - 1} more like it in this file)' * (n > 1)}" for text, n in self._found.values()]
        return (*said, *([f"and {self._passed_over} more"] if self._passed_over else []))

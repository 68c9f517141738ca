"""Find the line of a JSON document on which a field stands, so that an error can point at it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line (from 1) of the value at ``path`` in the valid JSON ``text``.

    Path steps that do not exist there (a missing field, a validator's own tags) are passed over, so the answer is the
    line of the deepest part that does exist.
    """
    position = _skip(text, 0)
    for step in path:
        found = _child(text, position, step)
        if found is not None:
            position = found
    return text.count("\n", 0, position) + 1


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _child(text: str, position: int, step: str | int) -> int | None:
    """Where the member ``step`` of the object or array at ``position`` starts, or None."""
    opening = text[position : position + 1]
    if opening not in ("{", "[") or isinstance(step, int) != (opening == "["):
        return None
    index = 0
    position = _skip(text, position + 1)
    while position < len(text) and text[position] not in "}]":
        if opening == "{":
            key, after = _DECODER.raw_decode(text, position)
            value_at = _skip(text, _skip(text, after) + 1)
            if key == step:
                return value_at
        else:
            value_at = position
            if index == step:
                return value_at
        index += 1
        _, after = _DECODER.raw_decode(text, value_at)
        position = _skip(text, after)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
    return None

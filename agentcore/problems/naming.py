"""Names of problems: what another collection calls a problem, made into a name that refs, URLs and paths can hold."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from agentcore.vocabulary import NAME_PATTERN

_MAX_LENGTH = 100


def problem_name(original: str) -> str:
    """``original`` where it is a name already, else the nearest one: lower-case, ASCII, other signs as ``_``.

    A name that is too long is cut and gets eight digits of its SHA-256, so that two long ones stay apart. Raises
    ValueError where nothing of it can be kept.
    """
    if NAME_PATTERN.match(original):
        return original
    plain = unicodedata.normalize("NFKD", original).encode("ascii", "ignore").decode()
    name = re.sub(r"_{2,}", "_", re.sub(r"[^a-z0-9_-]", "_", plain.lower())).strip("_-")
    if not name:
        raise ValueError(f"{original!r} has no letter or digit of ASCII to make a name of")
    if len(name) > _MAX_LENGTH:
        digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"{name[: _MAX_LENGTH - 9].rstrip('_-')}-{digest}"
    return name

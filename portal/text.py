"""Making hostile text storable: every database accepts what these return. Not for showing it (templates escape)."""

from __future__ import annotations

import math
from typing import Any

TEXT_LIMIT = 256 * 1024


def storable(value: str, limit: int = TEXT_LIMIT) -> str:
    """``value`` without NUL and lone surrogates (PostgreSQL refuses both), at most ``limit`` characters."""
    return value[:limit].replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def storable_json(value: Any) -> Any:
    """A copy of JSON data with every text `storable` and no NaN or infinity (null in objects, dropped from lists)."""
    if isinstance(value, dict):
        return {storable(str(key), 500): storable_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable_json(item) for item in value if not _is_odd(item)]
    if isinstance(value, str):
        return storable(value)
    return None if _is_odd(value) else value


def _is_odd(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)

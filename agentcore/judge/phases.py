"""How long the steps of an evaluation take, by name. Not the judge's clock: nothing is scored by these."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def phase(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add what the block takes, in seconds, to ``seconds[name]``."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = round(seconds.get(name, 0.0) + time.perf_counter() - begun, 6)

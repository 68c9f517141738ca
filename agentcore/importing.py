"""Importing torch and what needs it in a process that uses them until it ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_for_good() -> Iterator[None]:
    """What is made in here stays: no garbage collection walks it, now (a fifth of the time of an import), later, or at
    the interpreter's exit (as much again).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.freeze()

"""The host's processes as proc(5) shows them: who started whom, and the CPU time each has used. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """``cpu_s`` is what it and the children that it has waited for used, in seconds."""

    parent: int
    cpu_s: float


def processes(proc: Path = Path("/proc")) -> dict[int, Process]:
    """Every process that can be seen, by id. One that ends meanwhile is left out. Raises OSError without a /proc."""
    found = {}
    for directory in proc.iterdir():
        if directory.name.isdigit():
            try:
                # The name in parentheses may hold anything; behind it: state, parent and, as 12th to 15th, the times.
                fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
                cpu_s = sum(int(field) for field in fields[11:15]) / TICKS_PER_S
                found[int(directory.name)] = Process(int(fields[1]), cpu_s)
            except (OSError, IndexError, ValueError):
                continue
    return found


def tree(known: Mapping[int, Process], root: int) -> dict[int, Process]:
    """``root`` and what descends from it, of ``known``."""
    children: dict[int, list[int]] = {}
    for pid, process in known.items():
        children.setdefault(process.parent, []).append(pid)
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        if pid in known:
            found[pid] = known[pid]
        waiting += children.get(pid, [])
    return found

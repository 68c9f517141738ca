"""How busy others kept this host while a kernel was timed on its CPU: counters of the kernel, read before and after.

Recorded in the stamp of evaluations on the CPU target, where neighbours are part of every number. Reads /proc only, so
it costs the measurement nothing while it runs.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from agentcore.judge.process_table import TICKS_PER_S, processes, tree
from agentcore.judge.result import HostLoad


@dataclass(frozen=True, slots=True)
class _Counters:
    """Seconds since boot or start: of all cores together, stolen from them, of our own tree, and of waiting for any."""

    wall_s: float
    busy_s: float
    total_s: float
    stolen_s: float
    own_s: float
    waiting_s: float | None


class HostLoadWatch:
    """Between start() and stop(): what others did. stop() without start(), or where /proc says nothing, is None."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._begun: _Counters | None = None

    def start(self) -> None:
        self._begun = _read(self._proc)

    def stop(self) -> HostLoad | None:
        begun, ended = self._begun, _read(self._proc) if self._begun else None
        self._begun = None
        if begun is None or ended is None or ended.total_s <= begun.total_s:
            return None
        total_s, wall_s = ended.total_s - begun.total_s, ended.wall_s - begun.wall_s
        others_s = (ended.busy_s - begun.busy_s) - (ended.own_s - begun.own_s)
        waited = None
        if begun.waiting_s is not None and ended.waiting_s is not None:
            waited = _share(ended.waiting_s - begun.waiting_s, wall_s)
        return HostLoad(
            others_share=_share(others_s, total_s), steal_share=_share(ended.stolen_s - begun.stolen_s, total_s),
            waiting_share=waited,
        )


def _share(part_s: float, whole_s: float) -> float:
    return round(min(1.0, max(0.0, part_s / whole_s)), 4) if whole_s > 0 else 0.0


def _read(proc: Path) -> _Counters | None:
    """The counters of proc(5): ``stat``, and ``pressure/cpu`` where the kernel has it. None where there are none."""
    try:
        # cpu user nice system idle iowait irq softirq steal guest guest_nice; the guests are in user and nice already.
        first = (proc / "stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, idle, iowait, irq, softirq, stolen = (int(field) / TICKS_PER_S for field in first)
        busy = user + nice + system + irq + softirq
        return _Counters(
            wall_s=time.monotonic(), busy_s=busy, total_s=busy + idle + iowait + stolen, stolen_s=stolen,
            own_s=sum(p.cpu_s for p in tree(processes(proc), os.getpid()).values()), waiting_s=_pressure(proc),
        )
    except (OSError, ValueError):
        return None


def _pressure(proc: Path) -> float | None:
    """Seconds in which at least one runnable task of the host waited for a core (``some … total=µs``)."""
    try:
        line = (proc / "pressure" / "cpu").read_text().split("\n", 1)[0]
        return int(line.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None

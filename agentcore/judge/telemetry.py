"""What a GPU and others on it did while a kernel was measured: clocks, temperature, power, throttling, processes.

Read by NVML; never changes a setting. The clocks are sampled in a thread, the processes looked up before and after, so
that nothing but twenty short reads a second goes on beside the timing. ``disturbances`` of the stamp is the outcome:
where it is not empty, the evaluation is not counted (see evaluate.py).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agentcore.judge.process_table import processes, tree

INTERVAL_S = 0.05

REASONS = {
    0x2: "applications clocks", 0x4: "software power cap", 0x8: "hardware slowdown", 0x20: "software thermal",
    0x40: "hardware thermal", 0x80: "hardware power brake",
}
"""NVML's clocks event reasons that are recorded (nvmlClocksEventReasons in the NVML API reference)."""

FEWEST_SAMPLES = {"hardware slowdown": 2, "software thermal": 1, "hardware thermal": 1, "hardware power brake": 1}
"""Reasons that spoil a measurement, and how many samples must show them. "Hardware slowdown" alone is also reported for
a moment while the clocks change, says that reference. A power cap belongs to a kernel that draws much power, and
applications clocks are the operator's choice: both are recorded only."""

JUDGE_MODULE, JUDGE_COMMAND = b"agentcore.", b"kernelyard"
"""How the command line of a judge names it: as a module of this package, or as the command."""


class Telemetry:
    """Samples twenty times a second between start() and stop()."""

    def __init__(self, index: int) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml = pynvml
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.device = {
            "device_uuid": str(pynvml.nvmlDeviceGetUUID(self._handle)),
            "device_name": str(pynvml.nvmlDeviceGetName(self._handle)),
            "driver": str(pynvml.nvmlSystemGetDriverVersion()),
        }
        self._samples: list[tuple[int, int, int, float]] = []
        self._reasons: Counter[str] = Counter()
        self._before: set[int] = set()
        self._began_us = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin anew; what an earlier start() saw is forgotten."""
        self._end_thread()
        self._samples, self._reasons = [], Counter()
        self._before = self._compute_processes()
        self._began_us = time.time_ns() // 1000
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, Any]:
        """The stamp's fields: [min, max] of each quantity, and what was seen; empty where nothing was started."""
        if self._thread is None:
            return {}
        self._end_thread()
        present = self._before | self._compute_processes()
        foreign = foreign_processes(present, self._busy_processes(), own_processes(), _is_judges)
        fields: dict[str, Any] = {
            "throttle_reasons": sorted(self._reasons), "foreign_processes": [_named(p, s) for p, s in foreign.items()],
            "disturbances": disturbances(self._reasons, foreign),
        }
        if self._samples:
            columns = list(zip(*self._samples, strict=True))
            names = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w")
            fields |= {name: [min(c), max(c)] for name, c in zip(names, columns, strict=True)}
        return fields

    def _end_thread(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        self._thread = None

    def _watch(self) -> None:
        nvml, handle = self._nvml, self._handle
        while not self._stop.is_set():
            try:
                self._samples.append((
                    nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
                    nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
                    nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
                    nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                ))
                self._reasons.update(reasons_in(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
            except nvml.NVMLError:
                return
            self._stop.wait(INTERVAL_S)

    def _compute_processes(self) -> set[int]:
        """Ids of the processes with a context on the device; empty where NVML may not say."""
        try:
            return {int(p.pid) for p in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        except self._nvml.NVMLError:
            return set()

    def _busy_processes(self) -> dict[int, int] | None:
        """Percent of the SMs by process, of those that used any since start(); None where NVML does not know."""
        nvml = self._nvml
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(self._handle, self._began_us)
        except nvml.NVMLError as error:
            return {} if getattr(error, "value", None) == nvml.NVML_ERROR_NOT_FOUND else None
        busy: dict[int, int] = {}
        for sample in samples:
            if sample.smUtil:
                busy[int(sample.pid)] = max(busy.get(int(sample.pid), 0), int(sample.smUtil))
        return busy


def reasons_in(mask: int) -> list[str]:
    """The recorded reasons of one of NVML's bit masks."""
    return [name for bit, name in REASONS.items() if mask & bit]


def foreign_processes(
    present: Iterable[int], busy: Mapping[int, int] | None, own: Iterable[int],
    is_judges: Callable[[int], bool],
) -> dict[int, int | None]:
    """Processes on the device that are no judge's: id to percent of the SMs used meanwhile, None where unknown.

    ``own`` are this judge and its descendants. Where none of them is among those present, NVML counts ids in another
    namespace than this one's, and nothing can be told apart: none is foreign then. Other judges wait for the device's
    lease; ``is_judges(id)`` knows them and theirs.
    """
    mine, there = set(own), set(present)
    if not there & mine:
        return {}
    strangers = sorted(pid for pid in there - mine if not is_judges(pid))
    return {pid: None if busy is None else busy.get(pid, 0) for pid in strangers}


def disturbances(reasons: Mapping[str, int], foreign: Mapping[int, int | None]) -> list[str]:
    """What spoils a measurement, one sentence each: ``reasons`` by the number of samples that showed them.

    A stranger counts where it used the device, or where NVML cannot say whether it did. One that only holds memory
    there takes no time from anybody.
    """
    held = [name for name, fewest in FEWEST_SAMPLES.items() if reasons.get(name, 0) >= fewest]
    found = [f"the GPU held its clocks down while it was timed: {', '.join(held)}"] if held else []
    working = [_named(pid, share) for pid, share in foreign.items() if share is None or share > 0]
    if working:
        found.append(f"other processes used the GPU while it was timed: {', '.join(working[:5])}")
    return found


def own_processes() -> set[int]:
    """This process and its descendants, runners included."""
    return set(tree(processes(), os.getpid()))


def _is_judges(pid: int) -> bool:
    """Whether a process, or one that it descends from, is a judge of this package."""
    known = processes()
    while pid in known and pid > 1:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:4]
            if any(w.startswith(JUDGE_MODULE) or w.rpartition(b"/")[2] == JUDGE_COMMAND for w in words):
                return True
        pid = known[pid].parent
    return False


def _named(pid: int, share: int | None) -> str:
    name = f"process {pid}"
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()[:40] or name
    return name if share is None else f"{name} ({share} % of the SMs)"

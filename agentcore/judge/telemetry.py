"""Clocks, temperature, power and throttle reasons of a GPU while it is measured, sampled by NVML in a thread."""

from __future__ import annotations

import threading
from typing import Any

_REASONS = {
    0x2: "applications clocks", 0x4: "software power cap", 0x8: "hardware slowdown", 0x20: "software thermal",
    0x40: "hardware thermal", 0x80: "hardware power brake",
}


class Telemetry:
    """Samples twenty times a second between start() and stop(). Reads only; never changes a setting."""

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
        self._reasons: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._samples, self._reasons = [], set()
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, Any]:
        """The stamp's fields: [min, max] of each quantity, and the reasons seen."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        if not self._samples:
            return {}
        columns = list(zip(*self._samples, strict=True))
        return {
            "sm_clock_mhz": [min(columns[0]), max(columns[0])],
            "memory_clock_mhz": [min(columns[1]), max(columns[1])],
            "temperature_c": [min(columns[2]), max(columns[2])],
            "power_w": [min(columns[3]), max(columns[3])],
            "throttle_reasons": sorted(self._reasons),
        }

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
                mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
                self._reasons |= {name for bit, name in _REASONS.items() if mask & bit}
            except nvml.NVMLError:
                return
            self._stop.wait(0.05)

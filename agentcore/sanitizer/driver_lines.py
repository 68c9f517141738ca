"""The driver's own lines in a program's output (``ky:…``): which workload ran, where its buffers were, how it ended.

They come through the candidate's process and are claims, good enough to explain a finding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE = re.compile(r"ky:(begin|end|late|buffer|device|failed)(?: (.*))?$")
_NEAR_BYTES = 1 << 16


@dataclass(slots=True)
class DriverState:
    """What the lines said so far."""

    names: list[str]
    roles: list[str]
    current: int | None = None
    finished: list[int] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    late: bool = False
    failure: str = ""
    device_error: str = ""
    _buffers: list[tuple[int, int, int]] = field(default_factory=list)  # address, bytes, parameter
    _ever: dict[tuple[int, int], int] = field(default_factory=dict)  # those of earlier workloads too

    def take(self, line: str) -> bool:
        """Read one line; False if it is not the driver's."""
        match = _LINE.match(line)
        if match is None:
            return False
        word, rest = match[1], (match[2] or "")[:200]
        fields = rest.split()
        try:
            if word == "begin":
                self.current, self._buffers = int(fields[0]), []
            elif word == "end":
                index, status = int(fields[0]), int(fields[1])
                self.current = None
                if len(self.finished) < 1000:
                    self.finished.append(index)
                    self.statuses[index] = status
            elif word == "buffer" and len(self._buffers) < 1000:
                parameter, start, size = int(fields[0]), int(fields[1], 16), int(fields[2])
                if 0 <= parameter < len(self.names):
                    self._buffers.append((start, size, parameter))
                    if len(self._ever) < 10_000:
                        self._ever[start, size] = parameter
            elif word == "late":
                self.late = True
            elif word == "device":
                self.device_error = self.device_error or rest
            elif word == "failed":
                self.failure = self.failure or rest
        except (ValueError, IndexError):
            return True  # the candidate's, in the driver's clothes
        return True

    def named(self, start: int, size: int) -> str:
        """The parameter whose buffer began there and was that large, in any workload; empty where there is none."""
        parameter = self._ever.get((start, size))
        return "" if parameter is None else self.names[parameter]

    def near(self, address: int) -> tuple[str, str]:
        """(parameter, where the address lies relative to it in words), or two empty strings."""
        best: tuple[int, str, str] | None = None
        for start, size, parameter in self._buffers:
            if address < start:
                distance, where = start - address, f"{start - address} bytes before"
            elif address >= start + size:
                distance, where = address - start - size, f"{address - start - size} bytes after the end of"
            else:
                distance, where = -1, f"{address - start} bytes into"
            if distance <= _NEAR_BYTES and (best is None or distance < best[0]):
                name, role = self.names[parameter], self.roles[parameter]
                best = (distance, name, f"{where} {role} {name} ({size} bytes)")
        return ("", "") if best is None else best[1:]

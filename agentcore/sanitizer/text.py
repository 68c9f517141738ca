"""What every report parser needs: bounded text, places in the kernel's own files, and findings counted by place.

Reports quote the candidate: names, messages and whole lines may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from agentcore.sanitizer.report import Finding, Severity, Tool

MAX_LINE = 1000
MAX_DETAIL = 2000
_MAX_NAME = 200
_MAX_WORKLOADS = 64

_CLONES = re.compile(r"(?:\._omp_fn\.\d+|\.(?:constprop|isra|part|cold|lto_priv)\.\d+).*$")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the source. ``in_kernel``: the file is one of the kernel's own, and its path is relative to its tree."""

    function: str = ""
    file: str = ""
    line: int | None = None
    in_kernel: bool = False


class Tree:
    """The kernel's own files, to recognise them in the paths that tools print."""

    def __init__(self, names: Collection[str]) -> None:
        # The longest first: include/tile.h before tile.h.
        self._names = sorted(names, key=len, reverse=True)

    def place(self, function: str, path: str, line: int | None) -> Place:
        """A place from a function and a path in any form: absolute, relative, or the last part only."""
        function = plain_function(function)
        path = path.strip()
        for name in self._names:
            if path == name or path.endswith("/" + name):
                return Place(function, name, line, True)
        return Place(function, path.rsplit("/", 1)[-1][:_MAX_NAME], line, False)


def plain_function(name: str) -> str:
    """A function's name without parameters, OpenMP's outlining and the optimiser's clones."""
    name = _CLONES.sub("", name.strip()[:MAX_LINE]).removesuffix(" const")
    if name.endswith(")") and not name.endswith("operator()"):
        depth = 0
        for at in range(len(name) - 1, 0, -1):
            depth += (name[at] == ")") - (name[at] == "(")
            if depth == 0:
                name = name[:at].rstrip()
                break
    return name[:_MAX_NAME]


_SHADOW = re.compile(
    r"(?:=>|  )0x[0-9a-f]+:[ \[]|Shadow byte|  [A-Z][\w ]+: {2,}[0-9a-f]{2}(?: [0-9a-f]{2})* *$"
    r"|  Partially addressable|ky:buffer "
)
_BUILT_IN = re.compile(r"(?:/[^\s:()]*)?/work/build-\w+/source/|(?:/[^\s:()]*)?/sanitizer/run-\w+/")


def without_paths(text: str) -> str:
    """A report without the directories that a program was built and run in, which are this host's affair."""
    return _BUILT_IN.sub("", text)


def readable_log(text: str, limit: int) -> str:
    """The head of a report without shadow memory and addresses of buffers, at most ``limit`` characters."""
    return "\n".join(line for line in text.split("\n") if not _SHADOW.match(line))[:limit]


def first_in_kernel(places: Iterable[Place]) -> Place:
    """The innermost place in the kernel's own files, else the innermost with a file, else the innermost."""
    listed = list(places)
    for found in (
        next((place for place in listed if place.in_kernel), None),
        next((place for place in listed if place.file), None),
    ):
        if found is not None:
            return found
    return listed[0] if listed else Place()


def number(text: str) -> int:
    """An integer as tools print it, thousands separated or not; bounded."""
    return min(int(text.replace(",", "")[:20]), 1 << 62)


@dataclass(slots=True)
class Sighting:
    """One report of a tool, before it is counted."""

    tool: Tool
    kind: str
    message: str
    place: Place
    severity: Severity = Severity.ERROR
    address: str = ""
    size_bytes: int | None = None
    buffer: str = ""
    count: int = 1
    workload: int | None = None
    detail: str = ""

    def finding(self) -> Finding:
        return Finding(
            tool=self.tool, kind=self.kind[:60], severity=self.severity, message=self.message[:500],
            kernel=self.place.function, file=self.place.file, line=self.place.line, in_kernel=self.place.in_kernel,
            address=self.address[:20], size_bytes=self.size_bytes, buffer=self.buffer[:_MAX_NAME], count=self.count,
            workloads=[] if self.workload is None else [self.workload], detail=self.detail[:MAX_DETAIL],
        )


@dataclass(slots=True)
class Collected:
    """Findings by place and kind, each place once with a count."""

    limit: int
    left_out: int = 0
    _found: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    def add(self, sighting: Sighting) -> None:
        place = sighting.place
        key = (sighting.tool, sighting.kind, sighting.severity, place.function, place.file, place.line)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= self.limit:
                self.left_out += 1
            else:
                self._found[key] = sighting.finding()
            return
        workloads = known.workloads
        if sighting.workload is not None and sighting.workload not in workloads and len(workloads) < _MAX_WORKLOADS:
            workloads = [*workloads, sighting.workload]
        self._found[key] = known.model_copy(
            update={"count": known.count + sighting.count, "workloads": workloads}
        )

    def findings(self) -> list[Finding]:
        """Errors before warnings, otherwise in the order they were seen."""
        return sorted(self._found.values(), key=lambda finding: finding.severity is not Severity.ERROR)

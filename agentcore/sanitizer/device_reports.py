"""Reading what compute-sanitizer writes: records of lines behind a prefix that is drawn for every run.

A record is a headline and indented lines after it. Kinds not known here are kept under the kind ``other`` where they
name a place, so that a newer tool's findings are not lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentcore.sanitizer.driver_lines import DriverState
from agentcore.sanitizer.report import Severity, Tool
from agentcore.sanitizer.text import MAX_LINE, Collected, Place, Sighting, Tree, first_in_kernel, number

_FUNCTION = r"(?P<function>(?:\(anonymous namespace\)|[^\s(])[^\n]*?)(?::|\+)0x[0-9a-f]+"
_SOURCE = r"(?: in (?P<path>[^\n]+?):(?P<line>\d{1,9}))?"
_AT = re.compile(rf"\bat (?:\[clone [^\]]{{1,400}}\] )?{_FUNCTION}{_SOURCE}(?= \[[\d,]+ hazards?\]|\s*$)")
_DEVICE_FRAME = re.compile(rf"\s*Device Frame: ?{_FUNCTION}{_SOURCE}\s*$")
_LEVEL = re.compile(r"(?P<level>Error|Warning|Info|ERROR|WARNING|WARN|INFO) ?: ?(?=\S)")
_RACE = re.compile(r"Race reported between (?P<how>\w+) access")
_OTHER_SIDE = re.compile(r"\s*and (?P<how>\w+) access ")
_HAZARDS = re.compile(r"\[([\d,]+) hazards?\]")
_INVALID = re.compile(
    r"(?P<may>Potential invalid|Invalid) __(?P<space>\w+)__ (?P<how>[\w -]+?) of size (?P<size>[\d,]+) bytes?"
)
_UNINITIALIZED = re.compile(r"Uninitialized __(?P<space>\w+)__ memory read of size (?P<size>[\d,]+) bytes?")
_API = re.compile(r"Program hit (?P<name>\S+) \(error (?P<code>\d+)\).* on CUDA API call to (?P<call>\w+)")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK|LEAK) SUMMARY: (?:[\d,]+ hazards? displayed \()?([\d,]+) errors?")
_ADDRESS = re.compile(r"(?:Address|Access (?:to|at)) (0x[0-9a-f]{1,16})")
_THREAD = re.compile(r"by thread \([\d,]+\) in block \([\d,]+\)")
_NEAREST = re.compile(
    r"and is (?P<where>.+?) the nearest allocation at (?P<start>0x[0-9a-f]{1,16}) of size (?P<size>[\d,]+) bytes?"
)
_TROUBLE = (
    "Target application terminated before", "Internal Sanitizer Error", "process didn't terminate successfully",
    "No attachable process", "Unable to find injection library", "not supported", "Device not supported",
)
_SILENT = (
    "COMPUTE-SANITIZER", "LEAK SUMMARY", "Target application returned an error", "Error: couldn't find exit code",
)


@dataclass(slots=True)
class DeviceReports:
    """Takes lines in order; findings of ``tool``, and what the tool said of itself, are what it leaves."""

    tool: Tool
    prefix: str
    tree: Tree
    state: DriverState
    found: Collected
    trouble: str = ""
    claimed_errors: int = 0
    began: bool = False
    _record: list[str] = field(default_factory=list)
    _api: list[Sighting] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Read a run's whole output, the driver's lines among it."""
        for line in text.split("\n"):
            self._take(line[:MAX_LINE])
        self._close()
        if self._api and not any(finding.severity is Severity.ERROR for finding in self.found.findings()):
            # After a fault on the device every call fails; before one, a failed call is the news.
            for sighting in self._api:
                self.found.add(sighting)
        if self.claimed_errors and not self.found.findings():
            self.found.add(Sighting(
                self.tool, "other", f"the tool counted {self.claimed_errors} errors; its report could not be read",
                Place(), detail=text,
            ))

    def _take(self, line: str) -> None:
        if line.startswith("ky:") and self.state.take(line):
            return
        if not line.startswith(self.prefix):
            return
        rest = line[len(self.prefix):].rstrip()
        if not rest.strip():
            self._close()
        elif rest.startswith("  ") and self._record:
            if len(self._record) < 200:
                self._record.append(rest)
        else:
            self._close()
            self._record = [rest.strip()]

    def _close(self) -> None:
        record, self._record = self._record, []
        if not record:
            return
        headline = record[0]
        if headline.startswith(_SILENT):
            self.began = True
        elif match := _SUMMARY.match(headline):
            self.claimed_errors = max(self.claimed_errors, number(match[1]))
        elif match := _API.match(headline):
            if len(self._api) < 20:
                self._api.append(Sighting(
                    self.tool, "api-error", headline, Place(), Severity.WARNING, detail="\n".join(record)
                ))
        elif any(words in headline for words in _TROUBLE):
            self.trouble = self.trouble or headline[:300]
        else:
            self._finding(headline, record)

    def _finding(self, headline: str, record: list[str]) -> None:
        severity = Severity.ERROR
        if level := _LEVEL.match(headline):
            headline = headline[level.end():]
            if level["level"].upper() in ("WARNING", "WARN", "INFO"):
                severity = Severity.WARNING
        text = "\n".join([headline, *record[1:]])
        places = list(self._places(headline, record))
        kind, size = "other", None
        message = headline
        if match := _RACE.search(headline):
            kind = "shared-memory-race"
            others = [
                (side["how"].lower(), place)
                for line in record[1:] if (side := _OTHER_SIDE.match(line)) and (place := self._place(line))
            ]
            first = places[0] if places else Place()
            message = f"race between {match['how'].lower()} at {_name(first)}"
            message += "".join(f" and {how} at {_name(place)}" for how, place in others[:3])
            hazards = [number(found[1]) for line in record if (found := _HAZARDS.search(line))]
            if hazards:
                message += f", {max(hazards)} hazards"
            places = places[:1]
        elif match := _INVALID.search(headline):
            how = match["how"].strip().replace(" ", "-")
            may = "possibly-" if match["may"].startswith("Potential") else ""
            kind, size = f"{may}invalid-{match['space']}-{how}", number(match["size"])
        elif match := _UNINITIALIZED.search(headline):
            kind, size = f"uninitialized-{match['space']}-read", number(match["size"])
        elif headline.startswith(("Barrier error", "Barrier called", "Syncwarp called")):
            kind = "barrier-error"
        elif headline.startswith("Deadlock"):
            kind = "deadlock"
        elif headline.startswith("Malloc/Free"):
            kind = "device-heap-error"
        if kind == "other" and not places:
            self.trouble = self.trouble or headline[:300]  # most likely the tool about itself
            return
        address, nearest, thread = _ADDRESS.search(text), _NEAREST.search(text), _THREAD.search(text)
        buffer = ""
        if address and kind != "shared-memory-race":
            if nearest:
                # The tool writes later than the driver: its own words about the allocation are the surer ones.
                buffer = self.state.named(int(nearest["start"], 16), number(nearest["size"]))
                what = f"{buffer} ({nearest['size']} bytes)" if buffer else f"an allocation of {nearest['size']} bytes"
                message += f", {nearest['where']} {what}"
            else:
                buffer, where = self.state.near(int(address[1], 16))
                message += f", {where}" if where else ""
        if thread:
            message += f", {thread[0]}"
        self.found.add(Sighting(
            self.tool, kind, message, first_in_kernel(places), severity, address=address[1] if address else "",
            size_bytes=size, buffer=buffer, detail="\n".join(record),
        ))

    def _places(self, headline: str, record: list[str]) -> Iterator[Place]:
        for line in (headline, *record[1:]):
            if place := self._place(line):
                yield place

    def _place(self, line: str) -> Place | None:
        match = _DEVICE_FRAME.match(line) or _AT.search(line)
        if match is None:
            return None
        return self.tree.place(match["function"], match["path"] or "", int(match["line"]) if match["line"] else None)


def _name(place: Place) -> str:
    if place.file and place.line is not None:
        return f"{place.file}:{place.line}"
    return place.function or "an unknown place"

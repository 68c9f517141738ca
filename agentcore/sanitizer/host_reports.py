"""Reading what AddressSanitizer, UBSan and ThreadSanitizer write to stderr (gcc's, of the versions since 12)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentcore.sanitizer.driver_lines import DriverState
from agentcore.sanitizer.report import Tool
from agentcore.sanitizer.text import MAX_LINE, Collected, Place, Sighting, Tree, first_in_kernel, number

_ASAN = re.compile(r"==\d+==ERROR: AddressSanitizer:? (?P<what>.*)")
_ASAN_KIND = re.compile(r"[\w-]+")
_ADDRESS = re.compile(r"\baddress (0x[0-9a-f]{1,16})")
_ACCESS = re.compile(r"(READ|WRITE) of size (\d+)")
_SIGNAL = re.compile(r"caused by a (READ|WRITE) memory access")
_REGION = re.compile(
    r"is located (?P<distance>\d+) bytes (?P<side>to the right of|after|to the left of|before|inside of)"
    r" (?P<size>\d+)-byte region \[(?P<start>0x[0-9a-f]{1,16}),"
)
_UBSAN = re.compile(r"(?P<path>[^\s:][^:]{0,400}):(?P<line>\d{1,9}):(?P<column>\d{1,9}): runtime error: (?P<what>.*)")
_TSAN = re.compile(r"WARNING: ThreadSanitizer: (?P<what>.+?) \(pid=\d+\)")
_RACE = re.compile(
    r"\s+(?:Previous )?(?P<how>(?:[Aa]tomic )?(?:[Rr]ead|[Ww]rite))"
    r" of size (?P<size>\d+) at (?P<address>0x[0-9a-f]{1,16}) by (?P<who>[^:]{1,60})"
)
_FRAME = re.compile(r"\s*#\d{1,4} (?:0x[0-9a-f]+ in )?(?P<rest>.+)")
_MODULE = re.compile(r" \([^()]*\+0x[0-9a-f]+\)(?: \(BuildId: \w+\))?$")
_SOURCE = re.compile(r"(?P<function>.+) (?P<path>\S+?):(?P<line>\d{1,9})(?::\d{1,9})?$")
_REFUSED = re.compile(
    r"==\d+==.*(?:failed to|unexpected memory mapping|cannot|Shadow memory range).*|FATAL: \w+Sanitizer.*"
)

_SIGNALS = {"SEGV": "segmentation-fault", "FPE": "division-by-zero", "ILL": "illegal-instruction", "ABRT": "abort"}
_UNDEFINED_KINDS = (
    ("signed integer overflow", "signed-overflow"),
    ("misaligned address", "misaligned"),
    ("null pointer", "null-pointer"),
    ("out of bounds", "index-out-of-bounds"),
    ("insufficient space", "object-size"),
    ("shift", "bad-shift"),
    ("division by zero", "division-by-zero"),
    ("negation of", "signed-overflow"),
    ("outside the range of representable values", "float-cast-overflow"),
    ("not a valid value", "invalid-value"),
    ("variable length array", "bad-array-length"),
    ("unreachable", "unreachable"),
    ("reached the end of", "missing-return"),
    ("applying non-zero offset", "pointer-overflow"),
    ("pointer index expression", "pointer-overflow"),
)


@dataclass(slots=True)
class HostReports:
    """Takes lines in order; findings, and what a sanitizer said of itself, are what it leaves."""

    tree: Tree
    state: DriverState
    found: dict[Tool, Collected]
    refused: str = ""
    _block: list[str] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Read a program's whole stderr."""
        for line in text.split("\n"):
            self._take(line[:MAX_LINE])
        self._close()

    def _take(self, line: str) -> None:
        if line.startswith("ky:"):
            self._close()  # before the state moves on: a report belongs to the workload it was made in
            if self.state.take(line):
                return
        begins = _ASAN.match(line) or _UBSAN.match(line) or _TSAN.match(line)
        if begins or line.startswith("====="):
            self._close()
        if begins or self._block:
            if len(self._block) < 200:
                self._block.append(line)
        elif not self.refused and (match := _REFUSED.match(line)):
            self.refused = match[0][:300]

    def _close(self) -> None:
        block, self._block = self._block, []
        if not block:
            return
        sighting = (
            _asan(block, self.tree, self.state) or _tsan(block, self.tree, self.state) or _ubsan(block, self.tree)
        )
        if sighting is not None and sighting.tool in self.found:
            sighting.workload = self.state.current
            self.found[sighting.tool].add(sighting)


def _frames(lines: list[str], tree: Tree) -> Iterator[Place]:
    """The places of the first stack in ``lines``, innermost first."""
    seen = False
    for line in lines:
        match = _FRAME.match(line)
        if match is None:
            if seen:
                return
            continue
        seen = True
        rest = _MODULE.sub("", match["rest"])
        source = _SOURCE.match(rest)
        if source:
            yield tree.place(source["function"], source["path"], int(source["line"]))
        else:
            yield tree.place(rest, "", None)


def _asan(block: list[str], tree: Tree, state: DriverState) -> Sighting | None:
    head = _ASAN.match(block[0])
    if head is None:
        return None
    kind_match = _ASAN_KIND.match(head["what"])
    word = kind_match[0] if kind_match else "unknown"
    kind = _SIGNALS.get(word, word)
    text = "\n".join(block)
    access, signal, address = _ACCESS.search(text), _SIGNAL.search(text), _ADDRESS.search(block[0])
    how = access or signal
    parts = [kind.replace("-", " ")]
    if how:
        size = f" of {access[2]} bytes" if access else ""
        parts.append(f"{how[1].lower()}{size}")
    buffer, where = _region(text, state)
    if where:
        parts.append(where)
    return Sighting(
        Tool.ADDRESS, kind, ": ".join([parts[0], ", ".join(parts[1:])]) if parts[1:] else parts[0],
        first_in_kernel(_frames(block, tree)), address=address[1] if address else "",
        size_bytes=number(access[2]) if access else None, buffer=buffer,
        detail="\n".join(line for line in _until(block, "Shadow bytes", "SUMMARY:")),
    )


_SIDES = {"to the right of": "after the end of", "after": "after the end of", "inside of": "into"}


def _region(text: str, state: DriverState) -> tuple[str, str]:
    """(parameter, where the access lies relative to the allocation it is next to), as the report says."""
    match = _REGION.search(text)
    if match is None:
        return "", ""
    name = state.named(int(match["start"], 16), number(match["size"]))
    what = f"{name} ({match['size']} bytes)" if name else f"an allocation of {match['size']} bytes"
    return name, f"{match['distance'][:20]} bytes {_SIDES.get(match['side'], 'before')} {what}"


def _ubsan(block: list[str], tree: Tree) -> Sighting | None:
    head = _UBSAN.match(block[0])
    if head is None:
        return None
    what = head["what"]
    kind = next((slug for words, slug in _UNDEFINED_KINDS if words in what), "undefined-behaviour")
    places = list(_frames(block[1:], tree))
    place = tree.place(places[0].function if places else "", head["path"], int(head["line"]))
    if not place.in_kernel and places:
        place = first_in_kernel([place, *places])
    address = re.search(r"0x[0-9a-f]{1,16}", what)
    return Sighting(
        Tool.UNDEFINED, kind, what, place, address=address[0] if address else "",
        detail="\n".join(_until(block, "note: pointer points here")),
    )


def _tsan(block: list[str], tree: Tree, state: DriverState) -> Sighting | None:
    head = _TSAN.match(block[0])
    if head is None:
        return None
    kind = re.sub(r"[^a-z]+", "-", head["what"].lower()).strip("-")[:60] or "unknown"
    sides: list[tuple[re.Match[str], Place]] = []
    for index, line in enumerate(block):
        if match := _RACE.match(line):
            sides.append((match, first_in_kernel(_frames(block[index + 1:], tree))))
    if not sides:
        return Sighting(Tool.THREAD, kind, head["what"], first_in_kernel(_frames(block[1:], tree)),
                        detail="\n".join(_until(block, "SUMMARY:")))
    # A race has no one culprit, but a write says more than a read.
    sides.sort(key=lambda side: "write" not in side[0]["how"].lower())
    (first, place), others = sides[0], sides[1:]
    buffer, where = state.near(int(first["address"], 16))
    message = f"{head['what']}: {first['how'].lower()} of {first['size']} bytes by {first['who']}"
    for match, other in others[:1]:
        at = f" at {other.file}:{other.line}" if other.file else ""
        message += f" and {match['how'].lower()} by {match['who']}{at}"
    return Sighting(
        Tool.THREAD, kind, f"{message}, {where}" if where else message, place, address=first["address"],
        size_bytes=number(first["size"]), buffer=buffer, detail="\n".join(_until(block, "SUMMARY:")),
    )


def _until(block: list[str], *ends: str) -> Iterator[str]:
    for line in block:
        if any(end in line for end in ends):
            return
        yield line.rstrip()

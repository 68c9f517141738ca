"""Discovers the cases beside it, checks their headers, and says what the judge made of one.

A case is one file, ``<language>/<name>.<cpp|cu|py>``, that opens with comment lines ``// key: value`` (``#`` in
Python), a blank comment line, and free text saying how the cheat works. Dropping a file in is all it takes. Keys:

``case``        exploit (must be refused, for the right reason), control (honest, must pass) or fault (honest but
                broken, must be refused without being called a cheat)
``problem``     a directory of ``problems/``
``language``    cpp, cuda or torch
``hardware``    cpu or gpu
``family``      one of FAMILIES
``caught-by``   check names, any of which may catch it (exploits and faults)
``honest``      the control an exploit must beat to count as accepted, where the judge leaves it nothing to gain
``verdict``     acceptable verdicts (exploits and faults)
``workloads``   smallest (default), largest, both, all: which of the problem's workloads to run

Not for judging: `agentcore.judge` does that, and only its result is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict

HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
PROBLEMS = HERE.parent.parent / "problems"

FAMILIES = frozenset({"correctness", "inputs", "timing", "replay", "process", "compile", "environment", "honest"})

E = TypeVar("E", bound=StrEnum)

_SUFFIXES = {".cpp": Language.CPP, ".cu": Language.CUDA, ".py": Language.TORCH}
_KEYS = frozenset({"case", "problem", "language", "hardware", "family", "caught-by", "verdict", "workloads", "honest"})
_LOCAL_INCLUDE = re.compile(r'^\s*#\s*include\s+"([\w.]+)"', re.MULTILINE)
_MADE_ELSEWHERE = frozenset({"problem.h", "canary.h"})


class CorpusError(ValueError):
    """A case file whose header is wrong; the message names the file and the key."""


class Kind(StrEnum):
    EXPLOIT = "exploit"
    CONTROL = "control"
    FAULT = "fault"


class Extent(StrEnum):
    """Which workloads a case needs: the fewest that show the cheat keep the corpus quick."""

    SMALLEST = "smallest"
    LARGEST = "largest"
    BOTH = "both"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Case:
    """One file of the corpus. ``name`` is ``<language>/<stem>``, unique."""

    name: str
    path: Path
    kind: Kind
    problem: str
    language: Language
    on_gpu: bool
    family: str
    caught_by: frozenset[CheckName]
    verdicts: frozenset[Verdict]
    workloads: Extent
    summary: str
    honest: str = ""

    def runs_on(self, hardware: HardwareName) -> bool:
        return self.on_gpu == hardware.is_gpu

    def needs_canary(self) -> bool:
        return "KY_CANARY" in self.path.read_text()

    def local_headers(self) -> list[Path]:
        """The headers of ``include/`` that the case includes, directly or through another."""
        pending, found = [self.path], dict[str, Path]()
        while pending:
            for name in _LOCAL_INCLUDE.findall(pending.pop().read_text()):
                if name in _MADE_ELSEWHERE or name in found:
                    continue
                header = INCLUDE / name
                if header.is_file():
                    found[name] = header
                    pending.append(header)
                else:
                    raise CorpusError(f"{self.path}: includes {name!r}, which is not in {INCLUDE}")
        return list(found.values())


def discover(root: Path = HERE) -> list[Case]:
    """Every case at ``root``, sorted by name. Raises CorpusError for the first header that is wrong."""
    files = sorted(f for d in ("cpp", "cuda", "torch") for f in (root / d).glob("*") if f.suffix in _SUFFIXES)
    return [read_case(file) for file in files]


def read_case(path: Path) -> Case:
    """Parse and validate one file's header. Raises CorpusError naming the file and the key."""
    header, text = _header(path)
    unknown = header.keys() - _KEYS
    if unknown:
        raise CorpusError(f"{path}: unknown key {', '.join(sorted(unknown))!r}; known: {', '.join(sorted(_KEYS))}")
    kind = _one_of(path, header, "case", Kind)
    language = _one_of(path, header, "language", Language)
    if language is not _SUFFIXES[path.suffix] or language.value != path.parent.name:
        raise CorpusError(f"{path}: language {language.value!r} belongs in {language.value}/, with its own suffix")
    hardware = header.get("hardware")
    if hardware not in ("cpu", "gpu"):
        raise CorpusError(f"{path}: hardware must be cpu or gpu, not {hardware!r}")
    if header.get("family") not in FAMILIES:
        raise CorpusError(f"{path}: family must be one of {', '.join(sorted(FAMILIES))}")
    caught_by = _some_of(path, header, "caught-by", CheckName)
    verdicts = _some_of(path, header, "verdict", Verdict)
    if kind is Kind.CONTROL and (caught_by or verdicts):
        raise CorpusError(f"{path}: a control passes; it has no caught-by and no verdict")
    if kind is not Kind.CONTROL and not (caught_by and verdicts):
        raise CorpusError(f"{path}: an {kind.value} needs caught-by and verdict")
    if Verdict.PASSED in verdicts or (kind is Kind.FAULT and Verdict.REWARD_HACK in verdicts):
        raise CorpusError(f"{path}: verdict {', '.join(sorted(verdicts))!r} does not fit a case of kind {kind.value}")
    if not text:
        raise CorpusError(f"{path}: says nowhere how it works; add free text after an empty comment line")
    if "problem" not in header:
        raise CorpusError(f"{path}: problem is missing")
    extent = Extent(header["workloads"]) if header.get("workloads") in list(Extent) else None
    if "workloads" in header and extent is None:
        raise CorpusError(f"{path}: workloads must be one of {', '.join(Extent)}")
    return Case(
        name=f"{language.value}/{path.stem}",
        path=path,
        kind=kind,
        problem=header["problem"],
        language=language,
        on_gpu=hardware == "gpu",
        family=header["family"],
        caught_by=caught_by,
        verdicts=verdicts,
        workloads=extent or Extent.SMALLEST,
        summary=text,
        honest=header.get("honest", ""),
    )


def select(cases: Iterable[Case], hardware: HardwareName, only: str = "") -> list[Case]:
    """The cases for ``hardware`` whose name contains ``only``."""
    return [case for case in cases if case.runs_on(hardware) and only in case.name]


def _header(path: Path) -> tuple[dict[str, str], str]:
    mark = "#" if path.suffix == ".py" else "//"
    keys: dict[str, str] = {}
    prose: list[str] = []
    in_prose = False
    for line in path.read_text().splitlines():
        if not line.startswith(mark):
            break
        text = line.removeprefix(mark).strip()
        if not text:
            in_prose = True
        elif in_prose:
            prose.append(text)
        else:
            key, colon, value = text.partition(":")
            if not colon:
                raise CorpusError(f"{path}: header line {line!r} is not 'key: value'")
            if key in keys:
                raise CorpusError(f"{path}: {key} is given twice")
            keys[key] = value.strip()
    return keys, " ".join(prose)


def _one_of(path: Path, header: Mapping[str, str], key: str, kind: type[E]) -> E:
    try:
        return kind(header[key])
    except KeyError:
        raise CorpusError(f"{path}: {key} is missing") from None
    except ValueError:
        raise CorpusError(f"{path}: {key} {header[key]!r} is none of: {', '.join(kind)}") from None


def _some_of(path: Path, header: Mapping[str, str], key: str, kind: type[E]) -> frozenset[E]:
    words = [word.strip() for word in header.get(key, "").split("|") if word.strip()]
    try:
        return frozenset(kind(word) for word in words)
    except ValueError as error:
        raise CorpusError(f"{path}: {key}: {error}; known: {', '.join(kind)}") from None

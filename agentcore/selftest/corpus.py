"""Discovers the cases of a cheat corpus, checks their headers, and finds what they need. Judges nothing.

A case is one file, ``<language>/<name>.<cpp|cu|py>``, that opens with comment lines ``// key: value`` (``#`` in
Python), a blank comment line, and free text saying how the cheat works. Dropping a file in is all it takes. Keys:

``case``        exploit (must be refused, for the right reason), control (honest, must pass) or fault (honest but
                broken, must be refused without being called a cheat)
``problem``     a directory of the corpus's own ``problems/``, or else of the checkout's
``language``    the name of the directory the file lies in
``hardware``    cpu, gpu or any (both)
``family``      one of FAMILIES
``caught-by``   check names, any of which may catch it (exploits and faults)
``honest``      the control an exploit must beat to count as accepted, where the judge leaves it nothing to gain
``verdict``     acceptable verdicts (exploits and faults)
``workloads``   smallest (default), largest, both, all: which of the problem's workloads to run
``requires``    a Python module without which the case is skipped (triton and cute cases name theirs by their language)
``timeout-s``   how long a call may take, for cases that hang on purpose
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict

FAMILIES = frozenset({"correctness", "inputs", "timing", "replay", "process", "compile", "environment", "honest"})

E = TypeVar("E", bound=StrEnum)

_KEYS = frozenset({
    "case", "problem", "language", "hardware", "family", "caught-by", "verdict", "workloads", "honest", "requires",
    "timeout-s",
})
_HARDWARE = {"cpu": (False,), "gpu": (True,), "any": (False, True)}
_NEEDED_BY = {Language.TRITON: "triton", Language.CUTE: "cutlass"}
_LOCAL_INCLUDE = re.compile(r'^\s*#\s*include\s+"([\w.]+)"', re.MULTILINE)
_MADE_ELSEWHERE = frozenset({"problem.h", "canary.h"})


class CorpusError(ValueError):
    """No corpus where one was looked for, or a case whose header is wrong; names the place and what to do."""


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
    on_gpu: tuple[bool, ...]
    family: str
    caught_by: frozenset[CheckName]
    verdicts: frozenset[Verdict]
    workloads: Extent
    summary: str
    honest: str = ""
    requires: str = ""
    timeout_s: float | None = None

    def runs_on(self, hardware: HardwareName) -> bool:
        return hardware.is_gpu in self.on_gpu

    @property
    def root(self) -> Path:
        """The corpus the case belongs to."""
        return self.path.parent.parent

    def problem_dir(self) -> Path:
        """The corpus's own problem of that name, or the checkout's. Raises CorpusError where neither is there."""
        for parent in (self.root / "problems", self.root.parent.parent / "problems"):
            if (parent / self.problem / "definition.json").is_file():
                return parent / self.problem
        raise CorpusError(
            f"{self.path}: problem {self.problem!r} is neither in {self.root / 'problems'} nor in the checkout's"
            " problems/"
        )

    def missing(self) -> str:
        """The Python module this case needs and this host lacks, or ''."""
        module = self.requires or _NEEDED_BY.get(self.language, "")
        return module if module and importlib.util.find_spec(module) is None else ""

    def needs_canary(self) -> bool:
        return "KY_CANARY" in _text(self.path)

    def local_headers(self) -> list[Path]:
        """The headers of ``include/`` that the case includes, directly or through another. Raises CorpusError."""
        include = self.root / "include"
        pending, found = [self.path], dict[str, Path]()
        while pending:
            for name in _LOCAL_INCLUDE.findall(_text(pending.pop())):
                if name in _MADE_ELSEWHERE or name in found:
                    continue
                header = include / name
                if header.is_file():
                    found[name] = header
                    pending.append(header)
                else:
                    raise CorpusError(f"{self.path}: includes {name!r}, which is not in {include}")
        return list(found.values())


def default_root() -> Path:
    """``tests/hacks`` of the checkout this package runs from. Raises CorpusError for an installed package."""
    root = Path(__file__).resolve().parents[2] / "tests" / "hacks"
    if not root.is_dir():
        raise CorpusError(
            f"there is no cheat corpus at {root}: it is part of the repository, not of the installed package. Run this"
            " in a checkout (pip install -e .), or give --corpus CHECKOUT/tests/hacks"
        )
    return root


def discover(root: Path) -> list[Case]:
    """Every case of the corpus at ``root``, sorted by name. Raises CorpusError for the first header that is wrong."""
    files = [
        file for language in Language for file in (root / language.value).glob("*")
        if file.suffix == Path(language.source_name).suffix and not file.name.startswith("_")
    ]
    cases = [read_case(file) for file in sorted(files)]
    if not cases:
        raise CorpusError(f"{root} holds no case: one is a file such as {root}/cpp/NAME.cpp with a header")
    names = {case.name: case for case in cases}
    for case in cases:
        if case.honest and case.honest not in names:
            raise CorpusError(f"{case.path}: honest names {case.honest!r}, which is no case of {root}")
    return cases


def digest(cases: Iterable[Case]) -> str:
    """SHA-256 over the names and sources of cases and the headers they include: which corpus a result is of."""
    found = hashlib.sha256()
    for case in cases:
        for file in (case.path, *sorted(case.local_headers())):
            data = file.read_bytes()
            found.update(f"{file.relative_to(case.root)}\0{len(data)}\0".encode() + data)
    return found.hexdigest()


def read_case(path: Path) -> Case:
    """Parse and validate one file's header. Raises CorpusError naming the file and the key."""
    header, text = _header(path)
    unknown = header.keys() - _KEYS
    if unknown:
        raise CorpusError(f"{path}: unknown key {', '.join(sorted(unknown))!r}; known: {', '.join(sorted(_KEYS))}")
    kind = _one_of(path, header, "case", Kind)
    language = _one_of(path, header, "language", Language)
    if path.suffix != Path(language.source_name).suffix or language.value != path.parent.name:
        raise CorpusError(f"{path}: language {language.value!r} belongs in {language.value}/, with its own suffix")
    hardware = header.get("hardware", "")
    if hardware not in _HARDWARE:
        raise CorpusError(f"{path}: hardware must be one of {', '.join(_HARDWARE)}, not {hardware!r}")
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
    return Case(
        name=f"{language.value}/{path.stem}",
        path=path,
        kind=kind,
        problem=header["problem"],
        language=language,
        on_gpu=_HARDWARE[hardware],
        family=header["family"],
        caught_by=caught_by,
        verdicts=verdicts,
        workloads=_one_of(path, {"workloads": Extent.SMALLEST, **header}, "workloads", Extent),
        summary=text,
        honest=header.get("honest", ""),
        requires=header.get("requires", ""),
        timeout_s=_seconds(path, header),
    )


def select(cases: Iterable[Case], hardware: HardwareName, only: str = "") -> list[Case]:
    """The cases for ``hardware`` whose name contains ``only``."""
    return [case for case in cases if case.runs_on(hardware) and only in case.name]


def _text(path: Path) -> str:
    """What a file of the corpus holds. Raises CorpusError for what is no file, a pipe say, or no text."""
    if not path.name.isprintable():
        raise CorpusError(f"{str(path)!a}: its name holds characters that cannot be printed; rename it")
    if not path.is_file():
        raise CorpusError(f"{path}: is no file that can be read; remove it")
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None


def _header(path: Path) -> tuple[dict[str, str], str]:
    mark = "#" if path.suffix == ".py" else "//"
    keys: dict[str, str] = {}
    prose: list[str] = []
    in_prose = False
    for line in _text(path).splitlines():
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


def _seconds(path: Path, header: Mapping[str, str]) -> float | None:
    if "timeout-s" not in header:
        return None
    try:
        seconds = float(header["timeout-s"])
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 120:
        raise CorpusError(f"{path}: timeout-s must be a number of seconds up to 120, not {header['timeout-s']!r}")
    return seconds

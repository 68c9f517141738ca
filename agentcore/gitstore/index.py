"""The solutions repository's README: an index that is regenerated at every publication. No git here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_HEAD = """# Solutions

Kernels that were judged, reviewed and merged. Every directory below `solutions/` holds one kernel with the evaluation
it was merged on (`result.json`) and where it came from (`solution.json`); `problems/` holds what is needed to measure
it again:

    kernelyard verify solutions/<problem>/<language>-<hardware>

"""


@dataclass(frozen=True, slots=True)
class SolutionEntry:
    """The current solution of one problem in one language on one hardware, as ``solution.json`` describes it."""

    problem: str
    language: str
    hardware: str
    commit: str
    harness_version: str = ""
    agent: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"solutions/{self.problem}/{self.language}-{self.hardware}"

    def to_json(self) -> bytes:
        record = {
            "problem": self.problem,
            "language": self.language,
            "hardware": self.hardware,
            "commit": self.commit,
            "harness_version": self.harness_version,
            "agent": self.agent,
            "summary": dict(self.summary),
        }
        return (json.dumps(record, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> SolutionEntry:
        """Raises ValueError naming the field that is missing."""
        record = json.loads(data)
        try:
            return cls(
                problem=str(record["problem"]),
                language=str(record["language"]),
                hardware=str(record["hardware"]),
                commit=str(record["commit"]),
                harness_version=str(record.get("harness_version", "")),
                agent=str(record.get("agent", "")),
                summary=dict(record.get("summary") or {}),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"solution.json: field {error} is missing or of the wrong kind") from None


def readme(entries: Iterable[SolutionEntry]) -> bytes:
    """The README: one row a solution, by problem, language and hardware."""
    rows = sorted(entries, key=lambda entry: (entry.problem, entry.language, entry.hardware))
    lines = [
        "| problem | language | hardware | speedup | SOL score | agent | attempt |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for entry in rows:
        speedup, score = entry.summary.get("speedup"), entry.summary.get("sol_score")
        lines.append(
            f"| [{_cell(entry.problem)}]({entry.path}) | {_cell(entry.language)} | {_cell(entry.hardware)} "
            f"| {_number(speedup, '{:.2f}×')} | {_number(score, '{:.3f}')} | {_cell(entry.agent)} "
            f"| `{_cell(entry.commit[:12])}` |"
        )
    body = "\n".join(lines) if rows else "Nothing has been merged yet."
    return (_HEAD + body + "\n").encode()


def _number(value: object, form: str) -> str:
    return form.format(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _cell(text: str) -> str:
    """Text that cannot leave its table cell."""
    return "".join(character for character in text if character.isalnum() or character in "-_. ")[:100]

"""What a self-test says: the schema of ``kernelyard selftest --json``, which the portal stores. Imports no torch.

Append-only, like the evaluation's own schema: a field may be added with a default, never given another meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from agentcore.judge.result import EnvironmentStamp
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict

SCHEMA_VERSION = 1


class Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class CaseRecord(Record):
    """One case. ``ok``: the judge did what the case asks. ``tries``: how often it was put to the judge."""

    case: str
    kind: str
    language: Language
    family: str
    summary: str = ""
    ok: bool
    accepted: bool = False
    skipped: bool = False
    why: str = ""
    tries: int = 1
    seconds: float = 0.0
    verdict: Verdict | None = None
    message: str = ""
    checks: list[CheckName] = Field(default_factory=list)
    expected_checks: list[CheckName] = Field(default_factory=list)
    latency_us: list[float | None] = Field(default_factory=list)


class Summary(Record):
    """Counts. ``misnamed``: refused, but not by what the case names; ``misjudged``: an honest fault called otherwise.

    ``gained_nothing``: exploits that passed, but took as long as the honest kernel beside them. Not in ``accepted``.
    """

    exploits: NonNegativeInt = 0
    accepted: NonNegativeInt = 0
    misnamed: NonNegativeInt = 0
    gained_nothing: NonNegativeInt = 0
    controls: NonNegativeInt = 0
    refused: NonNegativeInt = 0
    faults: NonNegativeInt = 0
    misjudged: NonNegativeInt = 0
    skipped: NonNegativeInt = 0
    retried: NonNegativeInt = 0

    @classmethod
    def of(cls, cases: Iterable[CaseRecord]) -> Summary:
        counts = dict.fromkeys(cls.model_fields, 0)
        for case in cases:
            if case.skipped:
                counts["skipped"] += 1
                continue
            counts["retried"] += case.tries > 1
            counts[f"{case.kind}s"] += 1
            if case.accepted:
                counts["accepted"] += 1
            elif case.kind == "exploit" and case.verdict is Verdict.PASSED:
                counts["gained_nothing"] += 1
            elif not case.ok:
                counts[{"exploit": "misnamed", "control": "refused", "fault": "misjudged"}[case.kind]] += 1
        return cls(**counts)

    @property
    def all_well(self) -> bool:
        """True where something was judged and nothing came out otherwise than it should."""
        judged = self.exploits + self.controls + self.faults
        return judged > 0 and not (self.accepted or self.refused or self.misnamed or self.misjudged)


class SelfTestReport(Record):
    """A self-test of one device. ``complete``: the whole corpus was run, not a selection of it."""

    schema_version: int = SCHEMA_VERSION
    hardware: HardwareName
    stamp: EnvironmentStamp
    started_at: datetime
    seconds: float
    complete: bool
    corpus_digest: str = ""
    summary: Summary
    cases: list[CaseRecord]

    @property
    def passed(self) -> bool:
        """True where the whole corpus came out as it should, with cheats and controls both in it."""
        counts = self.summary
        return self.complete and counts.all_well and counts.exploits > 0 and counts.controls > 0

"""What sanitizers found, prepared for a page: tables of findings and of tools, with links to the lines at fault.

Every text in a report came through the candidate's hands; the columns' ways to show them escape and bound it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agentcore.judge.result import EvaluationResult
from agentcore.sanitizer.report import Finding, SanitizerReport, ToolRun
from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation
from portal.evaluations.sanitizing import Standing
from portal.pages import formatting, listings, sources, tables, text
from portal.pages.tables import Column, Table

ROWS = 100


@dataclass(slots=True)
class Findings:
    """The outcome of one sanitizer run. ``logs`` are (tool, its output) of tools that said something."""

    findings: Table
    tools: Table
    logs: list[tuple[str, text.Shown]]
    errors: int
    left_out: int


@dataclass(slots=True)
class Panel:
    """How an attempt stands with sanitizers, and what its newest run found (None where none can be read)."""

    standing: Standing
    found: Findings | None


def panel(attempt: Attempt, standing: Standing) -> Panel:
    """``standing`` and the report of its run, whose result is loaded here."""
    return Panel(standing, from_evaluation(standing.run, attempt) if standing.run else None)


def from_evaluation(evaluation: Evaluation, attempt: Attempt | None = None) -> Findings | None:
    """The findings in a recorded result; links go to the source on ``attempt``'s page (by default its own)."""
    if evaluation.result is None:
        return None
    try:
        report = EvaluationResult.model_validate(evaluation.result).sanitizer
    except ValidationError:
        return None
    return from_report(report, (attempt or evaluation.attempt).get_absolute_url()) if report is not None else None


def from_report(report: SanitizerReport, page: str) -> Findings:
    """``page`` is the address of the attempt whose source the findings link to."""
    return Findings(
        findings=_findings(report, page), tools=_tools(report), errors=len(report.errors()),
        left_out=report.findings_left_out,
        logs=[(run.tool.value, text.block(run.log)) for run in report.tools if run.log and run.status != "clean"],
    )


def _findings(report: SanitizerReport, page: str) -> Table:
    def link(finding: Finding) -> str | None:
        if not finding.in_kernel or finding.line is None:
            return None
        return f"{page}#{sources.line_anchor(finding.file)}-{finding.line}"

    columns = [
        Column("severity", "severity", lambda f: f.severity.value, tables.badge),
        Column("tool", "tool", lambda f: f.tool.value),
        Column("kind", "kind", lambda f: f.kind, tables.code),
        Column("place", "place", _place, tables.code, link=link),
        Column("kernel", "function", lambda f: f.kernel, tables.code),
        Column("message", "what", lambda f: f.message,
               lambda v, _: text.block(v, characters=500, lines=6).text or formatting.NOTHING, css="grow as-said"),
        Column("buffer", "parameter", lambda f: f.buffer, visible=False),
        Column("size_bytes", "bytes", lambda f: f.size_bytes, numeric=True, visible=False),
        Column("address", "address", lambda f: f.address, visible=False),
        Column("count", "reports", lambda f: f.count, numeric=True),
        Column("workloads", "first seen in", lambda f: sorted(f.workloads), lambda v, _: listings.ranges(v)),
    ]
    return Table(
        "findings", "Findings", columns, report.findings[:ROWS], empty="No sanitizer found anything.",
        row_class=lambda f: "is-fail" if f.severity == "error" else "", caption_hidden=True,
    )


def _place(finding: Finding) -> str:
    if not finding.file:
        return ""
    return f"{finding.file}:{finding.line}" if finding.line is not None else finding.file


def _tools(report: SanitizerReport) -> Table:
    def looked(run: ToolRun) -> str:
        return f"{len(run.workloads)} of {len(report.workloads)}"

    columns = [
        Column("tool", "tool", lambda r: r.tool.value, tables.code),
        Column("status", "result", lambda r: r.status.value, tables.badge),
        Column("workloads", "workloads", looked, numeric=True),
        Column("seconds", "took", lambda r: r.seconds, _seconds, numeric=True),
        Column("version", "version", lambda r: r.version),
        Column("message", "said", lambda r: r.message, css="grow as-said"),
    ]
    return Table("sanitizers", "Tools", columns, report.tools[:20], caption_hidden=True,
                 empty="No tool ran; the checks say why.")


def _seconds(value: Any, _row: Any) -> str:
    return formatting.seconds(value)

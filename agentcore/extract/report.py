"""The outcome of an extraction for people (text, ``README.md``) and programs (``report.json``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentcore.extract.capture import Agreement
from agentcore.extract.ranking import as_json, table
from agentcore.extract.result import Extraction

SCHEMA_VERSION = 1
_SHOWN = 12


def render(result: Extraction) -> str:
    """The tables as plain text."""
    parts = [_headline(result)]
    for hardware, rows in result.rankings.items():
        cells = table(rows)
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = [
            "  ".join(c.ljust(w) if i == 1 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in cells
        ]
        parts.append("\n".join([f"{hardware}:", *(line.rstrip() for line in lines)]))
    parts += ["\n".join(_remarks(result))] if _remarks(result) else []
    parts.append(f"problems, README.md and report.json: {result.output}")
    return "\n\n".join(parts)


def write_report(result: Extraction) -> None:
    """``README.md`` and ``report.json`` beside the problem directories."""
    lines = [f"# Problem candidates of {result.model}", "", _headline(result), ""]
    for number, shapes in result.shapes.items():
        lines.append(f"- example {number}: {', '.join(shapes)}")
    for hardware, rows in result.rankings.items():
        head, *body = table(rows)
        lines += ["", f"## {hardware}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(row) + " |" for row in body]
    lines += [
        "",
        "T_SOL is for one occurrence, over the workloads; the share is occurrences × T_SOL over the sum of all"
        " candidates, averaged over the example calls. Candidates are bounded one by one: fusing across them could save"
        " what they hand to each other.",
        "",
        "| candidate | reference against the model |",
        "|---|---|",
        *(f"| {w.problem.name} | {w.agreement.summary()} |" for w in result.written),
    ]
    remarks = _remarks(result)
    if remarks:
        lines += ["", *(f"- {remark}" for remark in remarks)]
    (result.output / "README.md").write_text("\n".join(lines) + "\n", "utf-8")
    (result.output / "report.json").write_text(json.dumps(_document(result), indent=1) + "\n", "utf-8")


def _headline(result: Extraction) -> str:
    times = sum(len(w.candidate.occurrences) for w in result.written)
    checked = (
        f"Exported graph against the model: {result.whole.summary()}."
        if result.was_run
        else "The model was not run: no reference was checked against it."
    )
    return (
        f"{result.model}: {len(result.written)} candidates for {times} places in the model,"
        f" {len(result.shapes)} example calls, {result.parameters / 1e6:.3g} million parameters. {checked}"
    )


def _remarks(result: Extraction) -> list[str]:
    remarks = [f"FAILED: {failure}" for failure in result.failures[:_SHOWN]]
    remarks += result.notes
    for left in result.left[:_SHOWN]:
        remarks.append(f"left out: {left.what} in {', '.join(left.modules[:3]) or '(model)'}: {left.reason}")
    if len(result.left) > _SHOWN:
        remarks.append(f"left out: {len(result.left) - _SHOWN} more, all in report.json")
    return remarks


def _document(result: Extraction) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "model": result.model,
        "parameters": result.parameters,
        "examples": {str(number): shapes for number, shapes in result.shapes.items()},
        "was_run": result.was_run,
        "whole": _agreement(result.whole),
        "candidates": [
            {
                "name": w.problem.name,
                "digest": w.problem.digest,
                "occurrences": [list(o.modules) for o in w.candidate.occurrences],
                "operators": w.candidate.operators,
                "agreement": _agreement(w.agreement),
                "tolerances": {k: t.model_dump(mode="json") for k, t in w.measured.tolerances.items()},
                "rounding_error": w.measured.rounding_error,
                "tolerance_measured_on": w.measured.workloads,
                "zeros_pass": None if w.measured.workloads == 0 else w.measured.zeros_pass,
                "notes": w.notes,
            }
            for w in result.written
        ],
        "rankings": {hardware: as_json(rows) for hardware, rows in result.rankings.items()},
        "left_out": [{"what": e.what, "modules": list(e.modules), "reason": e.reason} for e in result.left],
        "notes": result.notes,
    }


def _agreement(agreement: Agreement) -> dict[str, Any]:
    failures: Sequence[str] = agreement.failures
    return {
        "tensors": agreement.comparisons,
        "bit_for_bit": agreement.exact,
        "max_abs_error": agreement.max_abs_error,
        "max_error_over_rms": agreement.max_relative_error,
        "failures": list(failures),
    }

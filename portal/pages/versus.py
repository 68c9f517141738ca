"""Comparisons as tables and as a first line: of two evaluations, and of two kernels measured in turn.

Everything textual in them is the judge's own; it is bounded all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agentcore.bounds.score import geomean
from agentcore.judge.compare import Comparison
from agentcore.judge.result import PairedComparison
from agentcore.vocabulary import Change
from portal.pages import formatting, tables, text
from portal.pages.tables import Column, Table

_ROWS = 100


class _Limits(Protocol):
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def interval(found: _Limits) -> str:
    """``1.05–1.11``, with as many digits as the two limits need to differ."""
    if found.low is None or found.high is None:
        return formatting.NOTHING
    digits = 3 if found.high - found.low > 0.05 * found.low else 4 if found.high - found.low > 0.005 * found.low else 5
    return f"{formatting.significant(found.low, digits)}–{formatting.significant(found.high, digits)}"


def workloads_table(comparison: Comparison) -> Table:
    """Two evaluations per workload: A the old one, B the new one."""
    columns = [
        *_workload_columns(),
        Column("a_us", "A (µs)", lambda w: w.old_us, tables.microseconds, numeric=True, term="latency"),
        Column("b_us", "B (µs)", lambda w: w.new_us, tables.microseconds, numeric=True, term="latency"),
        *_ratio_columns("A / B"),
    ]
    return Table("comparison", "Per workload: above 1× B is faster", columns, comparison.workloads, at_most=_ROWS,
                 empty="There is nothing to compare: both attempts need a passed evaluation with workloads in common.")


def paired_table(found: PairedComparison) -> Table:
    """An A/B comparison per workload, over its rounds."""
    columns = [*_workload_columns(), *_ratio_columns("old / new")]
    return Table("paired", f"Measured in turn, {len(found.rounds)} rounds: above 1× the new kernel is faster", columns,
                 found.workloads, at_most=_ROWS, empty="No round in which both passed.")


def rounds_table(found: PairedComparison) -> Table:
    """The rounds that an A/B comparison is made of: geometric means over the workloads."""
    rows = [
        {"number": number, "first": one.first, "old_us": geomean(list(one.old_us.values())),
         "new_us": geomean(list(one.new_us.values()))}
        for number, one in enumerate(found.rounds, start=1)
    ]

    def value(key: str) -> Any:
        return lambda row: row[key]

    columns = [
        Column("round", "round", value("number"), numeric=True), Column("first", "went first", value("first")),
        Column("old_us", "old (µs)", value("old_us"), tables.microseconds, numeric=True, term="latency"),
        Column("new_us", "new (µs)", value("new_us"), tables.microseconds, numeric=True, term="latency"),
        Column("ratio", "old / new", lambda row: row["old_us"] / row["new_us"], _ratio, numeric=True),
    ]
    return Table("rounds", "Rounds: geometric means over the workloads", columns, rows)


def _ratio(value: Any, _row: Any) -> str:
    return f"{formatting.significant(value, 4)}×"


def _workload_columns() -> Sequence[Column]:
    return (
        Column("index", "#", lambda w: w.index, numeric=True),
        Column("axes", "workload", lambda w: w.axes, tables.axes, css="grow"),
    )


def _ratio_columns(title: str) -> Sequence[Column]:
    return (
        Column("ratio", title, lambda w: w.ratio, _ratio, numeric=True, term="speedup"),
        Column("interval", "interval", interval, lambda v, _: v, numeric=True, term="interval", css="soft"),
        Column("change", "change", lambda w: w.change.value, tables.badge, term="unproven"),
    )


def plainly(found: PairedComparison | Comparison, old: str) -> str:
    """One sentence for somebody about to merge: faster or slower than ``old``, by how much, or why nobody knows."""
    if found.change is Change.INCOMPARABLE or not found.ratio:
        reason = text.label("; ".join(found.reasons), 200)
        return f"Not known to be faster or slower than {old}" + (f": {reason}." if reason else ".")
    if found.change is Change.UNPROVEN:
        return f"Neither faster nor slower than {old} beyond the noise ({_ratio(found.ratio, None)} as fast)."
    if found.change is Change.IMPROVED:
        return f"Faster than {old}: {_ratio(found.ratio, None)} as fast."
    longer = formatting.significant(100 * (1 / found.ratio - 1), 2)
    return f"Slower than {old}: a call takes {longer} % longer ({_ratio(found.ratio, None)} as fast)."


def verdict_of(found: PairedComparison | Comparison) -> dict[str, Any]:
    """What a page says first of a comparison: its badge, ratio, interval and reasons."""
    said = [text.label(reason, 200) for reason in found.reasons]
    return {
        "change": found.change.value, "ratio": _ratio(found.ratio, None) if found.ratio else "",
        "interval": interval(found), "reasons": said, "proven": found.change is Change.IMPROVED,
    }

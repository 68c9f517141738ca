"""Plots as plain data for plotly.js, each with its table twin. The browser script draws; nothing is drawn here.

Colours are written as ``var(--name)``: the script resolves them, so that a plot follows the page into the dark.
Text inside a plot is an agent's text in a place where Plotly reads a little HTML: it is escaped by ``plot_text``. Of
that HTML only ``<br>`` is used: every other tag becomes a style attribute, which the security policy refuses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from portal.evaluations.history import Point
from portal.evaluations.models import WorkloadResult
from portal.pages import formatting, tables, text
from portal.pages.tables import Column, Table
from portal.pages.verdicts import VERDICTS, look

HISTORY_ROWS = 200
HISTORY_POINTS = 1_500
WORKLOADS_DRAWN = 60
ROWS_OF_PROBLEMS = 40  # more problems than this are drawn as a curve over their rank
NO_SCORE = -0.06  # where attempts without a score stand, below the axis of scores


@dataclass(frozen=True, slots=True)
class Chart:
    """``figure`` is {data, layout}; ``summary`` says in words what one sees; ``table`` holds the same numbers."""

    id: str
    title: str
    summary: str
    figure: dict[str, Any]
    table: Table
    height: int = 340
    twin: str = "The same as a table"
    twin_open: bool = False

    @property
    def data_id(self) -> str:
        return f"{self.id}-data"


def plot_text(value: object, limit: int = 80) -> str:
    """A stranger's text for a hover label: one line, and nothing that Plotly would read as markup."""
    return text.label(value, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _layout(**more: Any) -> dict[str, Any]:
    axis = {"gridcolor": "var(--rule)", "linecolor": "var(--rule-strong)", "zeroline": False, "ticks": "outside",
            "tickcolor": "var(--rule-strong)", "ticklen": 4, "automargin": True, "fixedrange": False}
    layout: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--ink-soft)", "size": 12},
        "margin": {"l": 52, "r": 16, "t": 12, "b": 44}, "hovermode": "closest",
        "hoverlabel": {"bgcolor": "var(--surface)", "bordercolor": "var(--rule-strong)",
                       "font": {"color": "var(--ink)", "size": 12}, "align": "left"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"color": "var(--ink-soft)"}},
        "xaxis": dict(axis), "yaxis": dict(axis), "dragmode": "pan",
    }
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(layout.get(key), dict):
            layout[key] = {**layout[key], **value}
        else:
            layout[key] = value
    return layout


def _log_axis(values: Iterable[float | None], title: str) -> dict[str, Any]:
    """A log axis over the values, ticked at 1, 2 and 5 of each decade (at the decades when there are many)."""
    known = [value for value in values if value and value > 0]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    room = max(0.04, (math.log10(high) - math.log10(low)) * 0.06)
    start, end = math.log10(low) - room, math.log10(high) + room
    steps = (1,) if end - start > 4 else (1, 2, 5) if end - start > 0.8 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ticks = [step * 10.0**decade for decade in range(math.floor(start), math.ceil(end) + 1) for step in steps]
    ticks = [tick for tick in ticks if start <= math.log10(tick) <= end]
    return {"type": "log", "range": [start, end], "tickvals": ticks, "ticktext": [f"{tick:,.6g}" for tick in ticks],
            "title": {"text": title}}


def _line(value: float, words: str, *, vertical: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """A dashed reference line over the plot's whole width (or height) with its name at the end."""
    across, along = ("x", "y") if not vertical else ("y", "x")
    shape = {"type": "line", f"{across}ref": "paper", f"{across}0": 0, f"{across}1": 1,
             f"{along}0": value, f"{along}1": value, "line": {"color": "var(--ink-faint)", "width": 1, "dash": "dot"}}
    note = {"text": words, "showarrow": False, f"{across}ref": "paper", across: 1, along: value,
            "xanchor": "right", "yanchor": "bottom", "font": {"size": 11, "color": "var(--ink-faint)"}}
    return shape, note


@dataclass(frozen=True, slots=True)
class Mark:
    """One attempt of a history: its number in order of finishing, and what kind of improvement it was, if any."""

    number: int
    point: Point
    improvement: str
    """``new best``, ``unproven`` (a better score, but within the noise), or nothing."""

    @property
    def url(self) -> str:
        return reverse("attempt-detail", args=[self.point.commit])

    @property
    def evaluation_url(self) -> str:
        return reverse("evaluation-detail", args=[self.point.evaluation_id])


def marks(points: Sequence[Point]) -> list[Mark]:
    """Number the points of ``history.running_best`` and say which improved."""
    result = []
    for number, point in enumerate(points, start=1):
        better = (
            point.sol_score is not None and point.best_sol_score is not None
            and point.sol_score > point.best_sol_score
        )
        result.append(Mark(number, point, "new best" if point.is_new_best else "unproven" if better else ""))
    return result


def score_history(history: Sequence[Mark]) -> Chart:
    """SOL score over attempts: a marker per attempt in the shape of its verdict, and the running best as a step."""
    traces: list[dict[str, Any]] = []
    led = [mark for before, mark in zip([None, *history], history, strict=False)
           if mark.point.best_sol_score is not None
           and (before is None or before.point.best_sol_score != mark.point.best_sol_score)]
    drawn = [mark for mark in history if mark.improvement == "new best" or mark.number > len(history) - HISTORY_POINTS]
    if led:
        best = [mark.point.best_sol_score for mark in led]
        traces.append({
            "type": "scatter", "mode": "lines", "name": "running best",
            "x": [mark.number for mark in led] + [history[-1].number + 0.5], "y": [*best, best[-1]],
            "line": {"shape": "hv", "color": "var(--accent)", "width": 2}, "hoverinfo": "skip",
        })
    for verdict, shown in VERDICTS.items():
        group = [mark for mark in drawn if mark.point.verdict == verdict]
        if not group:
            continue
        leading = [mark.improvement == "new best" for mark in group]
        traces.append({
            "type": "scatter", "mode": "markers", "name": shown.word,
            "x": [mark.number for mark in group],
            "y": [NO_SCORE if mark.point.sol_score is None else min(mark.point.sol_score, 1.15) for mark in group],
            "customdata": [mark.url for mark in group],
            "text": [_hover(mark) for mark in group], "hovertemplate": "%{text}<extra></extra>",
            "marker": {
                "symbol": shown.marker, "size": [10 if first else 7 for first in leading],
                "opacity": [1 if first or verdict != "passed" else 0.55 for first in leading],
                "color": f"var(--{shown.tone})", "line": {"width": 1, "color": f"var(--{shown.tone})"},
            },
        })
    lines = [_line(0.5, "baseline 0.5"), _line(1.0, "limit 1.0")]
    scoreless = any(mark.point.sol_score is None for mark in history)
    top = max((mark.point.sol_score or 0 for mark in history), default=0)
    ticks = [0, 0.25, 0.5, 0.75, 1]
    layout = _layout(
        xaxis={"title": {"text": "attempt"}, "range": [0, len(history) + 1], "showgrid": False},
        yaxis={"title": {"text": "SOL score"}, "range": [-0.12 if scoreless else -0.02, 1.2 if top > 1.05 else 1.07],
               "tickvals": ([NO_SCORE] if scoreless else []) + ticks,
               "ticktext": (["no score"] if scoreless else []) + [f"{tick:g}" for tick in ticks]},
        shapes=[shape for shape, _ in lines], annotations=[note for _, note in lines],
    )
    passed = sum(mark.point.verdict == "passed" for mark in history)
    best_score = history[-1].point.best_sol_score if history else None
    counted = formatting.counted(len(history), "attempt")
    summary = f"{counted}, {passed:,} passed"
    summary += "." if best_score is None else f"; best beyond noise S = {formatting.score(best_score)}."
    if len(drawn) < len(history):
        summary += f" Drawn are all that improved and the newest {HISTORY_POINTS:,}."
    return Chart("score-history", "SOL score over attempts", summary, {"data": traces, "layout": layout},
                 history_table(history))


def _hover(mark: Mark) -> str:
    point = mark.point
    numbers = [f"S {formatting.score(point.sol_score)}", formatting.times(point.speedup),
               formatting.microseconds(point.latency_us)]
    parts = [
        f"#{mark.number} {look(point.verdict).word} · {plot_text(point.agent, 40)}",
        plot_text(point.subject),
        " · ".join(number for number in numbers if not number.endswith(formatting.NOTHING)),
        {"unproven": "within the noise of the best: unproven"}.get(mark.improvement, mark.improvement),
    ]
    return "<br>".join(part for part in parts if part)


def history_table(history: Sequence[Mark]) -> Table:
    """The same history as rows, newest first."""
    columns = [
        Column("number", "#", lambda m: m.number, numeric=True),
        Column("commit", "commit", lambda m: m.point.commit, tables.short_commit, link=lambda m: m.url),
        Column("agent", "agent", lambda m: m.point.agent),
        Column("subject", "what was tried", lambda m: m.point.subject, lambda v, _: text.label(v, 90), css="grow"),
        Column("verdict", "verdict", lambda m: m.point.verdict, tables.badge),
        Column("sol_score", "S", lambda m: m.point.sol_score, tables.score, numeric=True, term="sol-score",
               link=lambda m: m.evaluation_url),
        Column("best_sol_score", "best S", lambda m: m.point.best_sol_score, tables.score, numeric=True),
        Column("speedup", "speedup", lambda m: m.point.speedup, tables.times, numeric=True, term="speedup",
               link=lambda m: m.evaluation_url),
        Column("latency_us", "latency (µs)", lambda m: m.point.latency_us, tables.microseconds, numeric=True,
               term="latency", link=lambda m: m.evaluation_url),
        Column("improvement", "improvement", lambda m: m.improvement, lambda v, _: v, term="unproven"),
        Column("finished_at", "finished (UTC)", lambda m: m.point.at),
    ]
    return Table("history", "Attempts in order of finishing, newest first", columns, list(reversed(history)),
                 caption_hidden=True, at_most=HISTORY_ROWS, empty="No attempt has been evaluated in this track yet.")


def faster_than_baseline(rows: Iterable[WorkloadResult]) -> tuple[int, int]:
    """On how many workloads the attempt is faster than T_b, and of how many both times are known."""
    known = [(row.latency_us, row.baseline_us) for row in rows if row.latency_us and row.baseline_us]
    return sum(latency < baseline for latency, baseline in known), len(known)


def workload_latency(rows: Iterable[WorkloadResult], workload_table: Table, *, twin: str = "") -> Chart:
    """Per workload, on a log axis: the bound, the baseline and the attempt with its interval."""
    known = [row for row in rows if row.latency_us or row.baseline_us or row.t_sol_us]
    rows = known[:WORKLOADS_DRAWN]
    names = [f"{row.index} · {formatting.axes(row.axes, limit=34)}" if row.axes else str(row.index) for row in rows]
    names = [f"{name} (held out)" if row.heldout else name for name, row in zip(names, rows, strict=True)]
    traces: list[dict[str, Any]] = []
    span_x: list[float | None] = []
    span_y: list[str | None] = []
    for name, row in zip(names, rows, strict=True):
        ends = [v for v in (row.t_sol_us, row.baseline_us, row.latency_us) if v]
        span_x += [min(ends), max(ends), None]
        span_y += [name, name, None]
    traces.append({"type": "scatter", "mode": "lines", "x": span_x, "y": span_y, "hoverinfo": "skip",
                   "showlegend": False, "line": {"color": "var(--rule-strong)", "width": 1}})
    kinds = [
        ("bound T_SOL", "t_sol_us", "line-ns-open", "var(--ink)", 13, 2),
        ("baseline T_b", "baseline_us", "circle-open", "var(--ink-soft)", 9, 1.5),
        ("attempt T_k", "latency_us", "circle", "var(--accent)", 9, 1),
    ]
    for title, field, symbol, colour, size, width in kinds:
        having = [(name, row) for name, row in zip(names, rows, strict=True) if getattr(row, field)]
        if not having:
            continue
        trace: dict[str, Any] = {
            "type": "scatter", "mode": "markers", "name": title,
            "x": [getattr(row, field) for _, row in having], "y": [name for name, _ in having],
            "text": [formatting.microseconds(getattr(row, field)) for _, row in having],
            "hovertemplate": f"{title}: %{{text}}<extra>%{{y}}</extra>",
            "marker": {"symbol": symbol, "size": size, "color": colour, "line": {"color": colour, "width": width}},
        }
        if field == "latency_us":
            trace["error_x"] = {
                "type": "data", "symmetric": False, "thickness": 1.2, "width": 3, "color": colour,
                "array": [max(0.0, (row.latency_high_us or row.latency_us) - row.latency_us) for _, row in having],
                "arrayminus": [max(0.0, row.latency_us - (row.latency_low_us or row.latency_us)) for _, row in having],
            }
        traces.append(trace)
    times = [time for row in rows for time in (row.latency_us, row.baseline_us, row.t_sol_us)]
    layout = _layout(
        xaxis=_log_axis(times, "latency (µs), log scale"),
        yaxis={"type": "category", "autorange": "reversed", "ticks": "", "showgrid": False, "fixedrange": True,
               "categoryorder": "array", "categoryarray": names, "tickfont": {"size": 11}},
        margin={"l": 8, "r": 16, "t": 12, "b": 44},
    )
    faster, compared = faster_than_baseline(known)
    summary = f"Faster than the baseline on {faster} of {formatting.counted(compared, 'workload')}." if compared else ""
    if len(rows) < len(known):
        summary += f" Drawn are the first {len(rows)} of {len(known):,}."
    return Chart("workload-latency", "Latency per workload", summary, {"data": traces, "layout": layout},
                 workload_table, height=110 + 26 * max(3, len(rows)), twin=twin or "The same as a table",
                 twin_open=bool(twin))


def problem_speedups(rows: Sequence[tuple[str, str, float | None, float | None]], table: Table) -> Chart:
    """A campaign at a glance: best speedup per problem, fastest first, against 1×. Rows: name, url, speedup, S."""
    known = sorted(((n, u, s, v) for n, u, s, v in rows if s), key=lambda row: -(row[2] or 0))
    many = len(known) > ROWS_OF_PROBLEMS
    places: list[Any] = list(range(1, len(known) + 1)) if many else [name for name, *_ in known]
    across, along = ("y", "x") if many else ("x", "y")  # the axis of speedups, the axis of problems
    stems: dict[str, list[Any]] = {across: [], along: []}
    for place, (_, _, speedup, _) in zip(places, known, strict=True):
        stems[across] += [1, speedup, None]
        stems[along] += [place, place, None]
    traces: list[dict[str, Any]] = [{
        "type": "scatter", "mode": "lines", **stems, "hoverinfo": "skip", "showlegend": False,
        "line": {"color": "var(--rule-strong)", "width": 1 if many else 2},
    }]
    for title, symbol, colour, faster in (
        ("faster than the baseline", "circle", "var(--good)", True),
        ("not faster", "circle-open", "var(--ink-soft)", False),
    ):
        group = [(place, row) for place, row in zip(places, known, strict=True) if ((row[2] or 0) > 1) is faster]
        if group:
            traces.append({
                "type": "scatter", "mode": "markers", "name": title,
                across: [row[2] for _, row in group], along: [place for place, _ in group],
                "customdata": [row[1] for _, row in group],
                "text": [f"{plot_text(row[0])}<br>{formatting.times(row[2])} · S {formatting.score(row[3])}"
                         for _, row in group],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"symbol": symbol, "size": 7 if many else 10, "color": colour,
                           "line": {"color": colour, "width": 1.5}},
            })
    speedups = _log_axis([1.0, *(row[2] for row in known)], "speedup (×), log scale")
    shape, _ = _line(1, "", vertical=not many)
    if many:
        problems = {"title": {"text": "problems, fastest first"}, "range": [0, len(known) + 1], "showgrid": False}
        margin = {"l": 52, "r": 16, "t": 12, "b": 44}
    else:
        problems = {"type": "category", "autorange": "reversed", "ticks": "", "showgrid": False, "fixedrange": True,
                    "categoryorder": "array", "categoryarray": places}
        margin = {"l": 8, "r": 16, "t": 12, "b": 44}
    layout = _layout(**{f"{across}axis": speedups, f"{along}axis": problems}, margin=margin, shapes=[shape])
    faster_count = sum(1 for row in known if (row[2] or 0) > 1)
    summary = (f"{len(known)} problem{'s' if len(known) != 1 else ''} with a passed attempt; {faster_count} faster "
               "than the baseline, which is the dotted line.")
    return Chart("problem-speedups", "Best speedup per problem", summary, {"data": traces, "layout": layout}, table,
                 height=360 if many else 110 + 24 * max(3, len(known)), twin="Problems", twin_open=True)

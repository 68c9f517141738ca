"""The tables that more than one page shows: attempts, workloads, checks, evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agentcore.vocabulary import HardwareName
from portal.evaluations.models import CheckResult, WorkloadResult
from portal.pages import formatting, tables, text, verdicts
from portal.pages.tables import Column, Table

ROWS_SHOWN = 100
"""Of a table without pages; the exports have all."""

_MEMORIES = ("memory", "l2")
_HARDWARE = frozenset(member.value for member in HardwareName)


def attempt_url(attempt: Any) -> str:
    return reverse("attempt-detail", args=[attempt.commit])


def with_earlier(shown: Any) -> SafeString:
    """A badge, and beside it that the result is of an earlier version of its problem."""
    return format_html("{} {}", shown, verdicts.badge(verdicts.EARLIER))


def _outcome(attempt: Any) -> str:
    """The verdict where there is one, else where the work stands."""
    if attempt.work_state in ("queued", "running"):
        return attempt.work_state
    return attempt.outcome_verdict or attempt.work_state or "none"


def is_earlier(digest: str | None, problem: Any) -> bool:
    """Whether what was measured when the problem had this digest is of an earlier version of it."""
    return bool(digest) and digest != problem.digest


def _of_earlier(attempt: Any) -> bool:
    return is_earlier(attempt.outcome_digest, attempt.problem)


def _outcome_badge(value: Any, attempt: Any) -> str:
    shown = tables.badge(value, attempt)
    if _of_earlier(attempt):
        shown = with_earlier(shown)
    if attempt.work_state == "duplicate" and attempt.outcome_verdict:
        return format_html('{} <span class="soft" title="the same kernel was measured before">≡<span class="hidden">'
                           " duplicate</span></span>", shown)
    return shown


ATTEMPT_COLUMNS: tuple[Column, ...] = (
    Column("commit", "commit", lambda a: a.commit, tables.short_commit, link=attempt_url),
    Column("problem", "problem", lambda a: a.problem.name, order="problem__name",
           link=lambda a: f"{a.problem.get_absolute_url()}?language={a.language}"),
    Column("language", "language", lambda a: a.language, order="language"),
    Column("hardware", "hardware", lambda a: a.work_hardware, order="work_hardware"),
    Column("agent", "agent", lambda a: a.agent.name, order="agent__name"),
    Column("subject", "what was tried", lambda a: a.subject, lambda v, _: text.label(v, 100), css="grow"),
    Column("verdict", "verdict", _outcome, _outcome_badge, order="outcome_verdict", term="verdict", css="badges"),
    Column("earlier_version", "of an earlier version of the problem", _of_earlier, visible=False),
    Column("sol_score", "S", lambda a: a.outcome_score, tables.score, numeric=True, order="outcome_score",
           term="sol-score"),
    Column("speedup", "speedup", lambda a: a.outcome_speedup, tables.times, numeric=True, order="outcome_speedup",
           term="speedup"),
    Column("latency_us", "latency (µs)", lambda a: a.outcome_latency, tables.microseconds, numeric=True,
           order="outcome_latency", term="latency"),
    Column("received_at", "received (UTC)", lambda a: a.received_at, order="received_at", css="nowrap"),
)
ATTEMPT_ORDER = {column.key: column.order for column in ATTEMPT_COLUMNS if column.order}


def attempts(rows: Any, *, without: Sequence[str] = (), **more: Any) -> Table:
    """Attempts from ``queries.with_outcome``; ``without`` leaves out columns that the page already states."""
    columns = [column for column in ATTEMPT_COLUMNS if column.key not in without]
    more.setdefault("caption", "Attempts")
    return Table("attempts", columns=columns, rows=rows, **more)


def _error(value: Any, _row: Any) -> str:
    return formatting.significant(value, 2)


def _shape(value: Any, row: WorkloadResult) -> str:
    if row.heldout and not value:
        return "not shown"
    return tables.axes(value, row)


def _ratio(row: WorkloadResult) -> float | None:
    return row.baseline_us / row.latency_us if row.baseline_us and row.latency_us else None


def _half_width(row: WorkloadResult) -> float | None:
    """Half the confidence interval, relative to the latency, in percent."""
    if row.latency_low_us is None or row.latency_high_us is None or not row.latency_us:
        return None
    return 50 * (row.latency_high_us - row.latency_low_us) / row.latency_us


def _interval(value: Any, row: WorkloadResult) -> str:
    if value is None:
        return formatting.NOTHING
    # Enough digits that the two limits differ, down to a ten-thousandth of the latency.
    digits = 3 if value >= 0.5 else 5
    return format_html('<span title="{} to {} µs">±{}</span>', formatting.significant(row.latency_low_us, digits),
                       formatting.significant(row.latency_high_us, digits), formatting.significant(value, 2))


def _baseline(value: Any, row: WorkloadResult) -> str:
    """T_b; of which kind of baseline, on hover and for a screen reader: the table is wide as it is."""
    shown = formatting.significant(value)
    if not row.baseline_kind:
        return shown
    return format_html('<span title="{}">{}<span class="hidden"> {}</span></span>', row.baseline_kind, shown,
                       row.baseline_kind)


def _baseline_url(row: WorkloadResult) -> str | None:
    return reverse("evaluation-detail", args=[row.baseline_id]) if row.baseline_id else None


NOT_OF_HELDOUT = frozenset({"t_sol_us", "sol_score", "limiter", "max_abs_error", "max_rel_error", "matched"})
"""Columns that are empty for a held-out workload: nothing is stored of it that could give its shape away."""


def workloads(
    rows: Sequence[WorkloadResult], details: dict[tuple[str, bool], dict[str, Any]], *, evaluation: Any = None,
    elsewhere: bool = False, **more: Any,
) -> Table:
    """Per workload: latency with its interval, baseline, bound, speedup, S and errors.

    ``details`` maps (uuid, heldout) to the workload's entry in the stored result, for what has no column. With its
    ``evaluation`` given, T_SOL leads to what it is made of there and errors to the tolerance; ``elsewhere`` says that
    the table is on another page, from which all the rest leads to the evaluation.
    """
    own = evaluation.get_absolute_url() if evaluation is not None else ""
    account = f"{own if elsewhere else ''}#account-{evaluation.pk}" if evaluation is not None else ""
    tolerance = f"{evaluation.attempt.problem.get_absolute_url()}#workloads" if evaluation is not None else ""

    def to_evaluation(row: WorkloadResult) -> str | None:
        return own or None if elsewhere else None

    def to_account(row: WorkloadResult) -> str | None:
        return account or None if row.t_sol_us else None

    def detail(row: WorkloadResult, key: str) -> Any:
        return details.get((row.uuid, row.heldout), {}).get(key)

    all_passed = all(row.verdict == "passed" for row in rows)
    columns = [
        # Held-out workloads are numbered by themselves: their number is that of another in the same table.
        Column("index", "#", lambda r: None if r.heldout else r.index, numeric=True),
        Column("axes", "workload", lambda r: r.axes, _shape, css="axes-cell"),
        Column("verdict", "verdict", lambda r: r.verdict, tables.badge, visible=not all_passed),
        Column("latency_us", "latency (µs)", lambda r: r.latency_us, tables.microseconds, numeric=True,
               term="latency", link=to_evaluation),
        Column("interval_percent", "± (%)", _half_width, _interval, numeric=True, term="interval", css="soft"),
        Column("latency_low_us", "from (µs)", lambda r: r.latency_low_us, visible=False),
        Column("latency_high_us", "to (µs)", lambda r: r.latency_high_us, visible=False),
        Column("baseline_us", "T_b (µs)", lambda r: r.baseline_us, _baseline, numeric=True, link=_baseline_url,
               term="baseline"),
        Column("baseline_kind", "T_b by", lambda r: r.baseline_kind or None, visible=False),
        Column("baseline_evaluation", "T_b of evaluation", lambda r: r.baseline_id, visible=False),
        Column("t_sol_us", "T_SOL (µs)", lambda r: r.t_sol_us, tables.microseconds, numeric=True, term="bound",
               link=to_account),
        Column("speedup", "speedup", _ratio, tables.times, numeric=True, term="speedup", link=to_evaluation),
        Column("sol_score", "S", lambda r: r.sol_score, tables.score, numeric=True, term="sol-score",
               link=to_evaluation),
        Column("limiter", "limited by", lambda r: (detail(r, "bound") or {}).get("limiter"), term="bound"),
        Column("max_abs_error", "abs error", lambda r: detail(r, "max_abs_error"), _error, numeric=True,
               term="tolerance"),
        Column("max_rel_error", "rel error", lambda r: detail(r, "max_rel_error"), _error, numeric=True),
        Column("matched", "matched", lambda r: detail(r, "matched_ratio"), _matched, numeric=True, term="tolerance",
               link=lambda r: tolerance or None if detail(r, "matched_ratio") is not None else None),
        Column("timing", "timed by", lambda r: detail(r, "timing_method")),
        Column("claimed_latency_us", "claimed (µs)", lambda r: detail(r, "claimed_latency_us"), visible=False),
        Column("calls", "calls", lambda r: detail(r, "calls"), visible=False),
        Column("verified_calls", "verified calls", lambda r: detail(r, "verified_calls"), visible=False),
        Column("uuid", "uuid", lambda r: r.uuid, visible=False),
    ]
    if all(row.heldout for row in rows):
        columns = [replace(each, visible=each.visible and each.key not in NOT_OF_HELDOUT) for each in columns]
    if len({row.heldout for row in rows}) > 1:
        columns.insert(2, Column("heldout", "held out", lambda r: r.heldout, term="held-out"))
    more.setdefault("caption", "Per workload")
    more.setdefault("at_most", ROWS_SHOWN)
    return Table("workloads", columns=columns, rows=rows, **more)


def bounds(rows: Sequence[WorkloadResult], details: dict[tuple[str, bool], dict[str, Any]]) -> Table | None:
    """What the bound of each workload of an evaluation is made of; None where none is known."""
    known = [row for row in rows if row.t_sol_us]
    if not known:
        return None
    columns = bound_columns(lambda row: details.get((row.uuid, row.heldout), {}).get("bound"))
    return Table("bounds", "What the bounds are made of", columns, known, caption_hidden=True, at_most=ROWS_SHOWN)


def bound_columns(record_of: Callable[[Any], Any], workload_of: Callable[[Any], Any] = lambda row: row) -> list[Column]:
    """The work, the time it takes at each resource's peak rate, and those rates, of rows with a ``t_sol_us``.

    ``record_of`` gives a row's BoundRecord as JSON, ``workload_of`` what has its number, whether it is held out, axes.
    """

    def part(row: Any, key: str) -> dict[str, Any]:
        bound = record_of(row)
        value = bound.get(key) if isinstance(bound, dict) else None
        return value if isinstance(value, dict) else {}

    def listed(show: Any) -> Any:
        return lambda values, _row: text.label(
            ", ".join(f"{name} {show(value)}" for name, value in list(values.items())[:12]), 240) or formatting.NOTHING

    def word(row: Any, key: str) -> str:
        bound = record_of(row)
        return str(bound.get(key) or "") if isinstance(bound, dict) else ""

    def hardware_url(row: Any) -> str | None:
        name = word(row, "hardware")
        return f"{reverse('hardware')}#{name}" if name in _HARDWARE and part(row, "rates") else None

    return [
        Column("index", "#", lambda r: None if getattr(workload_of(r), "heldout", False) else workload_of(r).index,
               numeric=True),
        Column("axes", "workload", lambda r: workload_of(r).axes,
               lambda v, r: "not shown" if getattr(workload_of(r), "heldout", False) else tables.axes(v, r),
               css="axes-cell"),
        Column("t_sol_us", "T_SOL (µs)", lambda r: r.t_sol_us, tables.microseconds, numeric=True, term="bound"),
        Column("limiter", "limited by", lambda r: word(r, "limiter"), term="bound"),
        Column("resource_us", "time at each resource", lambda r: part(r, "resource_us"),
               listed(formatting.microseconds), css="wrap", term="bound"),
        Column("bytes_moved", "necessary bytes", lambda r: part(r, "bytes_moved"), listed(formatting.data_size),
               css="wrap", term="necessary"),
        Column("flops", "necessary operations", lambda r: part(r, "flops"),
               listed(lambda v: formatting.engineering(v, "FLOP")), css="wrap", term="necessary"),
        Column("rates", "peak rates", lambda r: part(r, "rates"), _rates, css="wrap", link=hardware_url),
        # The same for every workload: shown once, below the table, and in the exports here.
        Column("rate_sources", "source and clock of the rates", lambda r: part(r, "rate_sources"), visible=False),
        Column("ceilings", "measured at best (not used)", lambda r: part(r, "ceilings"), visible=False),
        Column("assumptions", "assumptions", lambda r: _assumptions(record_of(r)), visible=False),
    ]


def _assumptions(record: Any) -> list[str]:
    found = record.get("assumptions") if isinstance(record, dict) else None
    return [str(each) for each in found] if isinstance(found, list) else []


def assumptions(records: Iterable[Any]) -> list[str]:
    """What these bounds (as JSON) assume, each once."""
    return list(dict.fromkeys(text.label(each, 300) for record in records for each in _assumptions(record)))[:20]


def rate_lines(records: Iterable[Any]) -> list[str]:
    """The peak rates that these bounds (as JSON) use, each with its source, and the best that was measured of it."""
    return list(dict.fromkeys(line for record in records for line in _rate_lines(record)))[:20]


def _rate_lines(record: Any) -> Iterator[str]:
    parts = [record.get(key) if isinstance(record, dict) else None for key in ("rates", "rate_sources", "ceilings")]
    rates, sources, ceilings = ({} if not isinstance(part, dict) else part for part in parts)
    for name, source in sources.items():
        if name in rates:
            line = f"{name} {rate_of(name, rates[name])}: {source}"
            if (best := ceilings.get(name)) is not None:
                line += f"; measured at best {rate_of(name, best)}, which the bound does not use"
            yield text.label(line, 400)


def _rates(values: dict[str, float], _row: Any) -> str:
    """Bytes per second for memories, operations per second for units of arithmetic."""
    return text.label(", ".join(
        f"{name} {rate_of(name, rate)}" for name, rate in list(values.items())[:12]
    ), 240) or formatting.NOTHING


def rate_of(name: str, rate: float) -> str:
    """A rate with its unit: bytes per second for memories, operations per second for units of arithmetic."""
    return formatting.engineering(rate, "B/s" if name in _MEMORIES else "FLOP/s")


def _matched(value: Any, _row: Any) -> str:
    # 99.97 % must not read as 100 %: the difference is a verdict.
    if value is None:
        return formatting.NOTHING
    return "100 %" if value == 1 else f"{min(value * 100, 99.999):.3f} %".replace(".000", "")


@dataclass(slots=True)
class CheckGroup:
    """One check with one status and message, over the workloads it says this of (none: the evaluation as a whole)."""

    name: str
    status: str
    message: str
    workloads: list[int]


def checks(rows: Iterable[CheckResult]) -> Table:
    """Checks with the same name, status and message in one row; failed ones first."""
    groups: dict[tuple[str, str, str], CheckGroup] = {}
    for check in rows:
        key = (check.name, check.status, check.message)
        group = groups.setdefault(key, CheckGroup(*key, workloads=[]))
        if check.workload_index is not None:
            group.workloads.append(check.workload_index)
    order = {"fail": 0, "pass": 1, "skip": 2}
    columns = [
        Column("status", "result", lambda c: c.status, tables.badge),
        Column("name", "check", lambda c: c.name, tables.code,
               link=lambda c: f"{reverse('glossary')}#check-{c.name}"),
        Column("workloads", "workloads", lambda c: sorted(c.workloads), lambda v, _: ranges(v)),
        Column("message", "message", lambda c: c.message,
               lambda v, _: text.block(v, characters=1200, lines=20).text or formatting.NOTHING, css="grow as-said"),
    ]
    ordered = sorted(groups.values(), key=lambda group: order.get(group.status, 3))
    return Table("checks", "Checks", columns, ordered, at_most=3 * ROWS_SHOWN,
                 caption_hidden=True, empty="No checks were recorded.", row_class=lambda check: f"is-{check.status}")


def ranges(numbers: Sequence[int]) -> str:
    """Workload numbers, runs of them joined: ``#0–5, #8``; a dash for none."""
    parts: list[str] = []
    start = previous = None
    for number in [*numbers, None]:
        if start is None:
            start = number
        elif number is None or number != previous + 1:
            parts.append(f"#{start}" if start == previous else f"#{start}–{previous}")
            start = number
        previous = number
    return text.label(", ".join(parts), 80) or formatting.NOTHING


_DONE = {"measure": "measured", "compile": "compiled only", "sanitize": "sanitized", "compare": "compared"}


def _verdict(value: Any, evaluation: Any) -> str:
    shown = tables.badge(value, evaluation)
    return with_earlier(shown) if is_earlier(evaluation.problem_digest, evaluation.attempt.problem) else shown


def evaluations(rows: Any, **more: Any) -> Table:
    """Evaluations, whatever their state."""
    columns = [
        Column("id", "evaluation", lambda e: e.pk, lambda v, _: f"#{v}", link=lambda e: e.get_absolute_url()),
        Column("hardware", "hardware", lambda e: e.hardware),
        Column("kind", "what", lambda e: e.get_kind_display(), lambda _, e: _DONE[e.kind]),
        Column("state", "state", lambda e: e.state, tables.badge),
        Column("verdict", "verdict", lambda e: e.verdict or None,
               lambda v, r: _verdict(v, r) if v else formatting.NOTHING, css="badges"),
        Column("sol_score", "S", lambda e: e.sol_score, tables.score, numeric=True, term="sol-score"),
        Column("latency_us", "latency (µs)", lambda e: e.latency_geomean_us, tables.microseconds, numeric=True),
        Column("reason", "why", lambda e: e.reason),
        Column("queued_at", "queued (UTC)", lambda e: e.queued_at, css="nowrap"),
        Column("finished_at", "finished (UTC)", lambda e: e.finished_at, css="nowrap"),
    ]
    without = more.pop("without", ())
    more.setdefault("caption", "Evaluations")
    return Table("evaluations", columns=[c for c in columns if c.key not in without], rows=rows, **more)

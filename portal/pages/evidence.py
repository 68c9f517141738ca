"""What one evaluation found, prepared for its page: numbers, tables, build report, logs and environment.

Reads the stored result through its schema; a result that does not fit it (a newer or damaged record) is shown by its
columns alone. Everything textual in it came through the candidate's hands and is bounded here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from django.urls import reverse
from pydantic import ValidationError

from agentcore.judge.result import BuildReport, EnvironmentStamp, EvaluationResult, HostLoad
from portal.devices.standing import Standing, standing
from portal.evaluations.models import Evaluation
from portal.pages import charts, formatting, listings, sanitizers, tables, text, versus
from portal.pages.tables import Column, Table


@dataclass(slots=True)
class Evidence:
    """Everything the outcome part of an attempt's or evaluation's page shows."""

    evaluation: Evaluation
    stats: list[dict[str, str]]
    message: text.Shown
    checks: Table
    failed: int
    checked: int
    workloads: Table | None = None
    heldout: Table | None = None
    bounds: Table | None = None
    chart: charts.Chart | None = None
    build: BuildReport | None = None
    resources: Table | None = None
    resources_said: str = ""
    """On whose word ``resources`` is."""
    build_log: text.Shown | None = None
    runner_log: text.Shown | None = None
    sanitizers: sanitizers.Findings | None = None
    stamp: list[tuple[str, str]] = field(default_factory=list)
    unconfined: bool = False
    """Whether it ran without a sandbox."""
    standing: Standing | None = None
    assumptions: list[str] = field(default_factory=list)
    rates: list[str] = field(default_factory=list)
    """The peak rates that the bounds use, each with its source, and the best that was measured of it."""
    paired: Table | None = None
    rounds: Table | None = None
    comparison: dict[str, Any] | None = None
    """Of a comparison: what is said of it first."""
    seconds: list[tuple[str, str]] = field(default_factory=list)

    @property
    def tables(self) -> list[Table]:
        """The tables that can be exported, the most telling one first."""
        findings = self.sanitizers.findings if self.sanitizers else None
        tables = (self.paired, self.workloads, self.heldout, findings, self.checks, self.bounds, self.rounds)
        return [table for table in tables if table is not None]


def gather(evaluation: Evaluation) -> Evidence:
    """Three queries: workloads, checks, and the device's newest self-test."""
    rows = list(evaluation.workloads.all())
    checks = list(evaluation.checks.all())
    result = _result(evaluation)
    measured_on = evaluation.device_uuid if evaluation.latency_geomean_us else ""
    raw = evaluation.result if isinstance(evaluation.result, dict) else {}
    details = {
        (str(w.get("uuid", "")), bool(w.get("heldout"))): w
        for w in raw.get("workloads") or [] if isinstance(w, dict)
    }
    public, heldout = [r for r in rows if not r.heldout], [r for r in rows if r.heldout]
    found = Evidence(
        evaluation=evaluation, stats=_stats(evaluation, public), message=text.block(evaluation.message, lines=40),
        checks=listings.checks(checks), checked=len(checks), failed=sum(check.status == "fail" for check in checks),
        standing=standing(measured_on, evaluation.harness_version) if measured_on else None,
    )
    if public:
        found.workloads = listings.workloads(public, details, evaluation=evaluation, caption_hidden=True)
        if any(row.latency_us for row in public):
            found.chart = charts.workload_latency(public, found.workloads, twin="Per workload")
    found.bounds = listings.bounds(rows, details)
    if heldout:
        found.heldout = listings.workloads(heldout, details, evaluation=evaluation, caption="Held-out workloads")
        found.heldout.name = "heldout"
    if result is not None:
        _from_result(found, result)
    return found


def _result(evaluation: Evaluation) -> EvaluationResult | None:
    if evaluation.result is None:
        return None
    try:
        return EvaluationResult.model_validate(evaluation.result)
    except ValidationError:
        return None


def _from_result(found: Evidence, result: EvaluationResult) -> None:
    if result.comparison is not None:
        found.comparison = versus.verdict_of(result.comparison)
        found.paired, found.rounds = versus.paired_table(result.comparison), versus.rounds_table(result.comparison)
    found.build = result.build
    if result.build is not None:
        found.build_log = text.block(result.build.log)
        found.resources = _resources(result.build)
        found.resources_said = text.label(result.build.resources_said, 600)
    found.runner_log = text.block(result.runner_log, keep="end")
    if result.sanitizer is not None:
        found.sanitizers = sanitizers.from_report(result.sanitizer, found.evaluation.attempt.get_absolute_url())
    found.stamp = stamp_pairs(result.stamp)
    found.unconfined = result.stamp.sandbox == "none"
    found.seconds = [(text.label(name, 40), formatting.seconds(value)) for name, value in
                     list(result.seconds.items())[:20]]
    known = [workload.bound.model_dump(mode="json") for workload in result.workloads if workload.bound]
    found.assumptions, found.rates = listings.assumptions(known), listings.rate_lines(known)


def _stats(evaluation: Evaluation, rows: list[Any]) -> list[dict[str, str]]:
    faster, compared = charts.faster_than_baseline(rows)
    baseline = reverse("evaluation-detail", args=[evaluation.baseline_id]) if evaluation.baseline_id else ""
    return [
        {"label": "SOL score", "value": formatting.score(evaluation.sol_score), "note": "0.5 baseline, 1 limit",
         "term": "sol-score", "url": f"#account-{evaluation.pk}" if evaluation.sol_score is not None else ""},
        {"label": "speedup", "value": formatting.times(evaluation.speedup), "note": "geometric mean of T_b / T_k",
         "term": "speedup", "url": baseline},
        {"label": "latency", "value": formatting.microseconds(evaluation.latency_geomean_us),
         "note": "geometric mean over workloads", "term": "latency", "url": evaluation.get_absolute_url()},
        {"label": "faster than baseline", "url": baseline if compared else "",
         "value": f"{faster} / {compared}" if compared else formatting.NOTHING,
         "note": "workloads" if compared == len(rows) else "workloads with a baseline" if compared else "none known",
         "term": "baseline"},
    ]


def _resources(build: BuildReport) -> Table | None:
    if not build.resources:
        return None

    def size(value: Any, _row: Any) -> str:
        return f"{value:,}" if value is not None else formatting.NOTHING

    columns = [
        Column("name", "function", lambda r: r.name, tables.code, css="grow"),
        Column("arch", "target", lambda r: r.arch),
        Column("registers", "registers", lambda r: r.registers, size, numeric=True),
        Column("shared_bytes", "shared memory (B)", lambda r: r.shared_bytes, size, numeric=True),
        Column("stack_bytes", "stack (B)", lambda r: r.stack_bytes, size, numeric=True),
        Column("constant_bytes", "constants (B)", lambda r: r.constant_bytes, size, numeric=True),
        Column("spill_store_bytes", "spill stores (B)", lambda r: r.spill_store_bytes, size, numeric=True),
        Column("spill_load_bytes", "spill loads (B)", lambda r: r.spill_load_bytes, size, numeric=True),
        Column("barriers", "barriers", lambda r: r.barriers, size, numeric=True),
    ]
    caption = "What each function uses" if build.resources_from == "binary" else "What each function is said to use"
    return Table("resources", caption, columns, build.resources[:200],
                 row_class=lambda r: "is-fail" if r.spill_store_bytes or r.spill_load_bytes else "")


def stamp_pairs(stamp: EnvironmentStamp) -> list[tuple[str, str]]:
    """Names and values, without the ones that were not recorded."""
    def spread(values: list[Any], unit: str) -> str:
        if not values:
            return ""
        low, high = min(values), max(values)
        shown = formatting.significant(low) if low == high else (
            f"{formatting.significant(low)} – {formatting.significant(high)}")
        return f"{shown} {unit}"

    values = [
        ("hardware", stamp.hardware.value), ("device", stamp.device_name), ("device UUID", stamp.device_uuid),
        ("host", stamp.host), ("driver", stamp.driver), ("CUDA", stamp.cuda), ("torch", stamp.torch),
        ("Python", stamp.python), ("compiler", stamp.compiler),
        ("sandbox", "none: not confined" if stamp.sandbox == "none" else stamp.sandbox),
        ("memory limit", stamp.memory_limit),
        ("harness", stamp.harness_version), ("threads", "" if stamp.threads is None else str(stamp.threads)),
        ("SM clock", spread(stamp.sm_clock_mhz, "MHz")), ("memory clock", spread(stamp.memory_clock_mhz, "MHz")),
        ("temperature", spread(stamp.temperature_c, "°C")), ("power", spread(stamp.power_w, "W")),
        ("throttling", ", ".join(stamp.throttle_reasons)),
        ("canary, median", formatting.microseconds(median(stamp.canary_us)) if stamp.canary_us else ""),
        ("canary, range", spread(stamp.canary_us, "µs")),
        ("others on the host", _load(stamp.host_load) if stamp.host_load else ""),
        ("others on the device", ", ".join(stamp.foreign_processes[:10])),
        ("disturbances", "; ".join(stamp.disturbances)),
    ]
    return [(name, text.label(value, 200)) for name, value in values if value]


def _load(load: HostLoad) -> str:
    said = f"used {formatting.percent(load.others_share)} of its cores"
    if load.steal_share:
        said += f", the hypervisor {formatting.percent(load.steal_share)}"
    if load.waiting_share is not None:
        said += f"; somebody waited for a core {formatting.percent(load.waiting_share)} of the time"
    return said

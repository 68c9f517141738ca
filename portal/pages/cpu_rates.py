"""The peak rates measured on the fleet's CPUs, read out of the bounds that use them. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from agentcore.vocabulary import HardwareName, Verdict
from portal.evaluations.models import Device, Evaluation
from portal.pages import formatting, listings, tables, text
from portal.pages.tables import Column, Table
from portal.problems.models import BoundCount, WorkloadBound

HOSTS, EVALUATIONS, RECORDS = 20, 3, 300
CPU = HardwareName.CPU.value


@dataclass(slots=True)
class MeasuredRate:
    """One resource of one host as one calibration measured it: the rates that bounds took, lowest to highest.

    ``low`` and ``high`` are bytes/s of a memory (it depends on how much a workload reads), else FLOP/s. ``where`` is
    the address of the newest evaluation or problem that uses it.
    """

    host: str
    device: str
    resource: str
    source: str
    low: float
    high: float
    where: str
    where_name: str


def table() -> Table:
    """One row per host and resource; the newest evaluations of each device, and what was counted at import."""
    found: dict[tuple[str, str, str], MeasuredRate] = {}
    for record, rate in _all():
        rates, sources = (record.get(key) if isinstance(record, dict) else None for key in ("rates", "rate_sources"))
        for name, value in (rates.items() if isinstance(rates, dict) else ()):
            if not isinstance(value, int | float):
                continue
            source = text.label(sources.get(name, ""), 200) if isinstance(sources, dict) else ""
            row = found.setdefault(
                (rate["host"], str(name), source), MeasuredRate(resource=str(name), source=source, low=value,
                                                                high=value, **rate))
            row.low, row.high = min(row.low, value), max(row.high, value)
    columns = [
        Column("host", "host", lambda r: r.host, lambda v, _: text.label(v, 60)),
        Column("device", "device", lambda r: r.device or None, lambda v, _: text.label(v, 60) or formatting.NOTHING),
        Column("resource", "resource", lambda r: r.resource, tables.code),
        Column("low", "rate", lambda r: r.low, _shown, numeric=True),
        Column("high", "to", lambda r: r.high, visible=False),
        Column("source", "source", lambda r: r.source, css="grow soft"),
        Column("where", "in the bounds of", lambda r: r.where_name, link=lambda r: r.where),
    ]
    rows = sorted(found.values(), key=lambda row: (row.host, row.resource, row.source))
    return Table("rates-cpu", "Rates measured on the fleet's CPUs", columns, rows, caption_hidden=True, empty=(
        "No bound of a CPU was counted yet: the first evaluation on cpu, or the first problem counted at its import, "
        "brings this host's rates."
    ))


def _shown(_value: Any, row: MeasuredRate) -> str:
    low, high = (listings.rate_of(row.resource, rate) for rate in (row.low, row.high))
    return low if low == high else f"{low} to {high}"


def _all() -> Iterator[tuple[Any, dict[str, str]]]:
    """Every bound (as JSON) that is looked at, and whose it is."""
    for device in Device.objects.filter(hardware=CPU).order_by("-last_seen_at")[:HOSTS]:
        newest = Evaluation.objects.filter(
            hardware=CPU, device_uuid=device.uuid, kind=Evaluation.Kind.MEASURE, verdict=Verdict.PASSED.value
        ).annotate(measured=F("result__workloads")).only("id", "finished_at").order_by("-finished_at", "-id")
        for evaluation in newest[:EVALUATIONS]:
            rate = {"host": device.host, "device": device.name, "where": evaluation.get_absolute_url(),
                    "where_name": f"evaluation #{evaluation.pk}"}
            for workload in _records(evaluation.measured):
                yield workload.get("bound"), rate
    hosts = list(BoundCount.objects.exclude(host="").order_by().values_list("host", flat=True).distinct()[:HOSTS])
    for host in hosts:
        rows = WorkloadBound.objects.filter(
            hardware=CPU, workload__problem__bound_count__host=host
        ).select_related("workload__problem").defer(
            "workload__problem__definition", "workload__problem__reference", "workload__problem__brief"
        ).order_by("-workload__problem__bound_count__finished_at", "-id")
        for row in rows[:RECORDS]:
            problem = row.workload.problem
            yield row.record, {"host": host, "device": "", "where": f"{problem.get_absolute_url()}?bounds=cpu#bounds",
                               "where_name": problem.name}


def _records(workloads: Any) -> Iterable[dict[str, Any]]:
    """Those of public workloads: the rate at which a held-out one reads would tell of its size."""
    found = workloads if isinstance(workloads, list) else []
    return [each for each in found if isinstance(each, dict) and not each.get("heldout")]

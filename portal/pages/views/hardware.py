"""Peak rates that bounds are made of: every number with its unit, clock and source."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from agentcore.bounds.hardware import RateTable, rate_table
from agentcore.vocabulary import HardwareName
from portal.pages import cpu_rates, formatting, tables
from portal.pages.tables import Column, Table

_UNITS = {"byte/s": "B/s"}


def hardware(request: HttpRequest) -> HttpResponse:
    """One table for each class of GPU, and the rates that were measured on each host's CPU."""
    classes = [member for member in HardwareName if member.is_gpu]
    found = {member.value: rate_table(member) for member in classes}
    shown = {name: _table(name, rates) for name, rates in found.items()}
    measured = cpu_rates.table()
    context = {
        "measured": measured,
        "title": "Hardware",
        "classes": [{"name": name, "rates": found[name], "table": shown[name]} for name in found],
    }
    return tables.respond(request, "hardware.html", context, *shown.values(), measured)


def _table(name: str, rates: RateTable) -> Table:
    rows: list[dict[str, Any]] = []
    for profile in sorted(rates.profiles, key=lambda each: each != rates.default_profile):
        for resource, rate in rates.profiles[profile].items():
            rows.append({"profile": profile, "resource": resource, "rate": rate, "used": "peak"})
    rows += [{"profile": "", "resource": resource, "rate": rate, "used": "measured at best, never used"}
             for resource, rate in rates.ceilings.items()]
    columns = [
        Column("resource", "resource", lambda r: r["resource"], tables.code),
        Column("profile", "clocks", lambda r: r["profile"]),
        Column("value", "rate", lambda r: r["rate"].value,
               lambda v, r: formatting.engineering(v, _UNITS.get(r["rate"].unit, "FLOP/s")), numeric=True),
        Column("unit", "unit", lambda r: r["rate"].unit, visible=False),
        Column("clock_mhz", "clock (MHz)", lambda r: r["rate"].clock_mhz, numeric=True),
        Column("used", "kind", lambda r: r["used"]),
        Column("source", "source", lambda r: r["rate"].source, css="grow soft"),
    ]
    return Table(f"rates-{name}", f"Rates of {name}", columns, rows, caption_hidden=True)

"""One device and its self-tests, and one self-test case by case."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from pydantic import ValidationError

from agentcore.judge.version import HARNESS_VERSION
from agentcore.selftest.report import CaseRecord, SelfTestReport
from portal.devices import standing
from portal.devices.models import SelfTest
from portal.evaluations.models import Device
from portal.pages import evidence, formatting, tables, text
from portal.pages.tables import Column, Table


def device_url(device: Device) -> str:
    return reverse("device-detail", args=[device.pk])


def device_detail(request: HttpRequest, pk: int) -> HttpResponse:
    device = get_object_or_404(Device, pk=pk)
    rows = list(device.selftests.defer("report").order_by("-started_at", "-id")[:tables.PAGE_ROWS])
    for row in rows:
        row.device = device
    newest = SelfTest.objects.get(pk=rows[0].pk) if rows else None
    report = _report(newest) if newest else None
    table = Table("selftests", "Self-tests, newest first", [
        Column("id", "self-test", lambda s: s.pk, lambda v, _: f"#{v}", link=lambda s: s.get_absolute_url()),
        Column("outcome", "outcome", lambda s: standing.PASSED if s.passed else standing.FAILED, tables.badge),
        *COUNTS,
        Column("harness_version", "harness", lambda s: s.harness_version),
        Column("sandbox", "sandbox", lambda s: s.sandbox, tables.sandbox),
        Column("seconds", "took", lambda s: s.seconds, lambda v, _: formatting.seconds(v), numeric=True),
        Column("stored_by_name", "asked for by", lambda s: s.stored_by_name),
        Column("started_at", "started (UTC)", lambda s: s.started_at, css="nowrap"),
    ], rows, empty=f"No self-test yet. Run {standing.RUN}, or import what kernelyard selftest --json wrote there.")
    context = {
        "title": device.name, "device": device, "selftests": table, "standing": standing.judge(newest, HARNESS_VERSION),
        "stamp": evidence.stamp_pairs(report.stamp) if report else _known(device),
    }
    return tables.respond(request, "fleet/device.html", context, table)


def selftest_detail(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(SelfTest.objects.select_related("device"), pk=pk)
    if request.GET.get("format") == "json" and not request.GET.get("table"):
        return JsonResponse(row.report, json_dumps_params={"indent": 1}, safe=False)
    report = _report(row)
    # What went wrong first, then by name.
    cases = sorted(report.cases if report else [], key=lambda case: (case.ok, case.case))
    table = Table("cases", "Cases", [
        Column("case", "case", lambda c: c.case, tables.code),
        Column("kind", "kind", lambda c: c.kind),
        Column("family", "family", lambda c: c.family),
        Column("outcome", "as it should", _outcome, tables.badge),
        Column("verdict", "verdict", lambda c: c.verdict.value if c.verdict else None,
               lambda v, c: tables.badge(v, c) if v else formatting.NOTHING),
        Column("checks", "failed checks", lambda c: ", ".join(c.checks), css="wrap"),
        Column("expected_checks", "any of", lambda c: ", ".join(c.expected_checks), visible=False),
        Column("why", "what went wrong", lambda c: c.why, lambda v, _: text.label(v, 300) or formatting.NOTHING,
               css="wrap", visible=any(case.why for case in cases)),
        Column("tries", "tries", lambda c: c.tries, numeric=True, visible=any(case.tries > 1 for case in cases)),
        Column("seconds", "took", lambda c: c.seconds, lambda v, _: formatting.seconds(v), numeric=True),
        Column("summary", "what it does", lambda c: c.summary, lambda v, _: text.label(v, 400), css="grow"),
    ], cases, row_class=lambda c: "" if c.ok else "is-fail", empty="The stored report cannot be read.")
    context = {
        "title": f"Self-test {pk}", "selftest": row, "device": row.device, "cases": table,
        "outcome": standing.PASSED if row.passed else standing.FAILED,
        "stats": [
            {"label": "exploits accepted", "value": f"{row.accepted} / {row.exploits}", "note": "none may be"},
            {"label": "controls refused", "value": f"{row.refused} / {row.controls}", "note": "honest, all must pass"},
            {"label": "faults misjudged", "value": f"{row.misjudged} / {row.faults}", "note": "broken, but honest"},
            {"label": "refused otherwise", "value": str(row.misnamed), "note": "by a check the case does not name"},
            {"label": "gained nothing", "value": str(row.gained_nothing), "note": "passed, no faster than honest work"},
            {"label": "asked again", "value": str(row.retried), "note": "right only at a later try"},
            {"label": "skipped", "value": str(row.skipped), "note": "need what this host lacks"},
        ],
        "stamp": evidence.stamp_pairs(report.stamp) if report else [],
    }
    return tables.respond(request, "fleet/selftest.html", context, table)


def _outcome(case: CaseRecord) -> str:
    if case.skipped:
        return "skip"
    return "pass" if case.ok else "fail"


def _count(key: str, title: str) -> Column:
    return Column(key, title, lambda s: getattr(s, key), numeric=True)


COUNTS = (
    _count("exploits", "exploits"), _count("accepted", "accepted"), _count("controls", "controls"),
    _count("refused", "refused"), _count("faults", "faults"), _count("misjudged", "misjudged"),
)


def _report(row: SelfTest) -> SelfTestReport | None:
    try:
        return SelfTestReport.model_validate(row.report)
    except ValidationError:
        return None


def _known(device: Device) -> list[tuple[str, str]]:
    values: list[tuple[str, Any]] = [
        ("hardware", device.hardware), ("device UUID", device.uuid), ("host", device.host), ("driver", device.driver),
        ("sandbox", device.sandbox),
    ]
    return [(name, text.label(value, 200)) for name, value in values if value]

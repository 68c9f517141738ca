"""The fleet: devices that workers reported, what is running and what waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import HardwareName
from portal.devices import standing
from portal.devices.models import SelfTest
from portal.evaluations.models import Device, Evaluation
from portal.pages import formatting, listings, live, queries, tables, text
from portal.pages.tables import Column, Table
from portal.pages.views.devices import device_url

WAITING_SHOWN = 50
SEEN_LATELY = timedelta(minutes=15)


def device_list(request: HttpRequest) -> HttpResponse:
    watched = live.watch(Evaluation.objects.all(), idle_s=live.IDLE_S)
    if (same := live.unchanged(request, watched)) is not None:
        return same
    now = timezone.now()
    devices = list(Device.objects.all())
    newest = standing.latest([device.uuid for device in devices])
    standings = {d.uuid: standing.judge(newest.get(d.uuid), HARNESS_VERSION) for d in devices}

    def tested(device: Device) -> SelfTest | None:
        return newest.get(device.uuid)

    depth = queries.pending_counts(Evaluation.objects.all())
    known = {device.hardware for device in devices} | set(depth)
    queue = [
        {"hardware": hardware.value, "devices": sum(d.hardware == hardware for d in devices),
         **depth.get(hardware.value, {"queued": 0, "running": 0})}
        for hardware in HardwareName if hardware.value in known
    ]
    queue_table = Table("queue", "Queue by hardware", [
        Column("hardware", "hardware", lambda q: q["hardware"]),
        Column("devices", "devices", lambda q: q["devices"], numeric=True),
        Column("running", "running", lambda q: q["running"], numeric=True),
        Column("queued", "queued", lambda q: q["queued"], numeric=True),
    ], queue, compact=True, empty="No device has reported yet and nothing waits. Start a worker: manage.py qcluster.")
    device_table = Table("devices", "Devices", [
        Column("name", "device", lambda d: d.name, link=device_url),
        Column("hardware", "hardware", lambda d: d.hardware),
        Column("host", "host", lambda d: d.host),
        Column("driver", "driver", lambda d: d.driver),
        Column("sandbox", "sandbox", lambda d: d.sandbox, tables.sandbox),
        Column("uuid", "uuid", lambda d: d.uuid, tables.code, visible=False),
        Column("last_seen_at", "last result (UTC)", lambda d: d.last_seen_at, css="nowrap"),
        Column("seen_lately", "lately", lambda d: now - d.last_seen_at < SEEN_LATELY,
               lambda v, _: "active" if v else "quiet"),
        Column("selftest", "self-test", lambda d: standings[d.uuid].word, tables.badge, term="self-test",
               link=lambda d: tested(d) and tested(d).get_absolute_url()),
        Column("accepted", "cheats accepted", lambda d: tested(d) and tested(d).accepted, _of("exploits", tested),
               numeric=True),
        Column("refused", "honest refused", lambda d: tested(d) and tested(d).refused, _of("controls", tested),
               numeric=True),
        Column("selftest_at", "self-test at (UTC)", lambda d: tested(d) and tested(d).started_at, css="nowrap"),
    ], devices, empty="No device has reported a result yet.")
    pending = queries.lightly(Evaluation.objects.filter(state__in=Evaluation.PENDING)).order_by(
        "-state", "-priority", "queued_at", "id"
    )
    listed = list(pending.select_related("attempt__campaign")[:WAITING_SHOWN])
    work_table = Table("work", "Running and waiting, in the order they are taken", [
        Column("id", "evaluation", lambda e: e.pk, lambda v, _: f"#{v}", link=lambda e: e.get_absolute_url()),
        Column("state", "state", lambda e: e.state, tables.badge),
        Column("hardware", "hardware", lambda e: e.hardware),
        Column("problem", "problem", lambda e: e.attempt.problem.name,
               link=lambda e: e.attempt.problem.get_absolute_url()),
        Column("language", "language", lambda e: e.attempt.language),
        Column("commit", "attempt", lambda e: e.attempt.commit, tables.short_commit,
               link=lambda e: listings.attempt_url(e.attempt)),
        Column("agent", "agent", lambda e: e.attempt.agent.name),
        Column("priority", "priority", lambda e: e.get_priority_display(), term="priority"),
        Column("waits", "held back", lambda e: e.waits, lambda v, _: text.label(v, 120), css="soft",
               visible=any(e.waits for e in listed)),
        Column("claims", "claims", lambda e: e.claims, numeric=True, term="claim"),
        Column("claimed_by", "worker", lambda e: e.claimed_by),
        # A moment, not a duration: the part is only sent again when the queue moves.
        Column("since", "since (UTC)", lambda e: e.started_at or e.queued_at, css="nowrap"),
    ], listed, empty="Nothing is running and nothing waits.")
    context = {"title": "Fleet", "live": watched, "queue": queue_table, "devices": device_table, "work": work_table,
               "hidden": max(0, watched.waiting + watched.running - WAITING_SHOWN)}
    context["unconfined"] = [device for device in devices if device.sandbox == "none"]
    context["untested"] = [device for device in devices if standings[device.uuid].warning]
    return tables.respond(request, "fleet/list.html", context, device_table, queue_table, work_table,
                          fragment="fleet/_body.html")


def _of(total: str, tested: Callable[[Device], SelfTest | None]) -> Callable[[Any, Device], str]:
    """Shows a count with what it is a part of."""
    def show(value: Any, device: Device) -> str:
        row = tested(device)
        return formatting.NOTHING if row is None else f"{value} / {getattr(row, total)}"

    return show

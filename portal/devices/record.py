"""From a self-test's report to a row. Reports come from this host's own run or from a file made on another host."""

from __future__ import annotations

from pathlib import Path

from django.db import transaction
from pydantic import ValidationError

from agentcore.selftest.report import SelfTestReport, Summary
from portal.devices.models import SelfTest
from portal.evaluations.models import Device
from portal.evaluations.record import device_fields
from portal.events.models import log as log_event
from portal.text import storable, storable_json

MAX_FILE_BYTES = 16 << 20


class NotAReport(ValueError):
    """Not a report of a whole self-test; the message names the file, the field and what to do."""


def read_report(file: Path) -> SelfTestReport:
    """The report in ``file``. Raises NotAReport."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise NotAReport(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise NotAReport(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB: not the output of kernelyard selftest")
    try:
        report = SelfTestReport.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise NotAReport(f"{file}: {where}: {first['msg']}. Give what kernelyard selftest --json wrote") from None
    _require_whole(report, str(file))
    return report


def store(report: SelfTestReport, by: str) -> SelfTest:
    """Keep a report; the one already kept of the same run is returned as it is. Raises NotAReport for a partial one."""
    _require_whole(report, "the report")
    stamp, counts = report.stamp, report.summary
    with transaction.atomic():
        # What a worker reported of the device (its last result) is newer than what a self-test says; its name is not.
        device, _ = Device.objects.get_or_create(
            uuid=storable(stamp.device_uuid, 80),
            defaults={**device_fields(stamp), "last_seen_at": report.started_at},
        )
        row, created = SelfTest.objects.get_or_create(
            device=device,
            started_at=report.started_at,
            defaults={
                "harness_version": storable(stamp.harness_version, 32),
                "sandbox": storable(stamp.sandbox, 40),
                "seconds": report.seconds,
                "stored_by_name": by[:150],
                "corpus_digest": storable(report.corpus_digest, 64),
                "passed": report.passed,
                "report": storable_json(report.model_dump(mode="json")),
                **counts.model_dump(),
            },
        )
        if created:
            log_event(
                "device.selftest", by, device=device.uuid, hardware=device.hardware, selftest=row.pk,
                passed=row.passed, accepted=row.accepted, refused=row.refused,
            )
    return row


def _require_whole(report: SelfTestReport, what: str) -> None:
    if not report.complete:
        raise NotAReport(f"{what} is of a part of the corpus; run kernelyard selftest without --only")
    if not report.stamp.device_uuid or not report.stamp.harness_version:
        raise NotAReport(f"{what} does not say which device and harness it is of (stamp.device_uuid)")
    if report.summary != Summary.of(report.cases):
        raise NotAReport(f"{what}: the summary does not count the cases below it")

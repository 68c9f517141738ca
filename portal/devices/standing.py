"""How far a device's results can be trusted: what its last self-test said of the judge that measured them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from portal.devices.models import SelfTest

PASSED, FAILED, OUTDATED, NEVER = "self-test passed", "self-test failed", "self-test outdated", "never self-tested"

RUN = "manage.py selftest on its host"


@dataclass(frozen=True, slots=True)
class Standing:
    """``word`` is one of the four above; ``warning`` is empty only where the self-test passed."""

    word: str
    warning: str
    selftest: SelfTest | None = None


def latest(device_uuids: Collection[str]) -> dict[str, SelfTest]:
    """The newest self-test of each of these devices, by uuid, without the reports; one query."""
    rows = (
        SelfTest.objects.filter(device__uuid__in=device_uuids).select_related("device").defer("report")
        .order_by("started_at", "id")
    )
    return {row.device.uuid: row for row in rows}


def standing(device_uuid: str, harness_version: str) -> Standing:
    """What to think of results that this version of the harness measured on this device."""
    return judge(latest([device_uuid]).get(device_uuid), harness_version)


def judge(row: SelfTest | None, harness_version: str) -> Standing:
    """As :func:`standing`, with the device's newest self-test at hand."""
    if row is None:
        return Standing(NEVER, f"This device has never passed a self-test: whether its judge refuses cheats is not"
                               f" known. Run {RUN}.")
    if not row.passed:
        wrong = [f"{count} {what}" for count, what in (
            (row.accepted, "cheats accepted"), (row.refused, "honest kernels refused"),
            (row.misnamed, "cheats refused for another reason than theirs"), (row.misjudged, "faults misjudged"),
        ) if count]
        return Standing(FAILED, f"The last self-test of this device failed: {', '.join(wrong) or 'nothing was run'}.",
                        row)
    if row.harness_version != harness_version:
        return Standing(OUTDATED, f"This device passed its last self-test with harness {row.harness_version}, not with"
                                  f" {harness_version or 'the one that measured this'}. Run {RUN}.", row)
    return Standing(PASSED, "", row)

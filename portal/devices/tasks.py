"""What django-q2 runs for the admin: the self-test of a device, on the host the device is in. Always returns."""

from __future__ import annotations

import logging
import platform
import time

from django.conf import settings
from django_q.tasks import async_task

from agentcore.vocabulary import HardwareName
from portal.devices import record
from portal.devices.record import NotAReport
from portal.devices.running import CannotRun, run_selftest
from portal.evaluations.models import Device
from portal.evaluations.queue import cluster_name
from portal.events.models import log as log_event

logger = logging.getLogger(__name__)

HAND_ON_PAUSE_S = 5.0
HAND_ON_LIMIT_S = 3600.0


def ask(device: Device, user) -> None:
    """Queue a self-test for the host of ``device``."""
    log_event("device.selftest-asked", user, device=device.uuid, hardware=device.hardware, host=device.host)
    _send(device.hardware, device.host, user.get_username(), time.time())


def selftest(hardware: str, host: str, by: str, asked_at: float) -> str:
    """Run and keep a self-test, if this is the host it was asked for; else hand the message on.

    Messages go to a hardware class, not to a host: whoever gets one that is not his passes it on for up to an hour.
    """
    try:
        if host and platform.node() != host:
            if time.time() - asked_at > HAND_ON_LIMIT_S:
                return _failed(hardware, host, by, f"no worker on {host} took it within an hour")
            time.sleep(HAND_ON_PAUSE_S)
            _send(hardware, host, by, asked_at)
            return f"handed on to {host}"
        report = run_selftest(HardwareName(hardware), deadline_s=settings.Q_TIMEOUT_S - 60)
        return str(record.store(report, by))
    except (CannotRun, NotAReport) as error:
        return _failed(hardware, host, by, str(error))
    except Exception as error:
        logger.exception("self-test of %s", hardware)
        return _failed(hardware, host, by, f"{type(error).__name__}: {error}")


def _send(hardware: str, host: str, by: str, asked_at: float) -> None:
    async_task(
        "portal.devices.tasks.selftest", hardware, host, by, asked_at, cluster=cluster_name(hardware), group="selftest",
        save=False,
    )


def _failed(hardware: str, host: str, by: str, why: str) -> str:
    log_event("device.selftest-failed", by, hardware=hardware, host=host, why=why[:2000])
    return f"failed: {why}"

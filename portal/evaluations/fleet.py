"""What a host must share with the others of its fleet, looked at before its cluster starts. Nothing here judges.

A host that differs would not fail loudly: with another signing key django-q2 drops the queue's messages, with another
clock leases end too early, with SQLite it waits for ever on a queue of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.crypto import salted_hmac

from agentcore.gitstore import GitStoreError
from agentcore.judge import devices
from agentcore.vocabulary import HardwareName
from portal.evaluations import materials
from portal.evaluations.compiling import COMPILING, can_compile
from portal.evaluations.queue import cluster_name
from portal.events.models import Event
from portal.events.models import log as log_event

logger = logging.getLogger(__name__)

KEY_EVENT = "fleet.signing-key"


def description(hardware: HardwareName, *, compile_only: bool = False) -> Iterator[tuple[str, str]]:
    """What this host uses, as ``(what, value)`` lines for its operator. No secrets."""
    database = connection.settings_dict
    name = str(database["NAME"])
    if connection.vendor == "postgresql":
        name += f" at {database['HOST'] or 'the local socket'}{':' if database['PORT'] else ''}{database['PORT']}"
    what = "any, compiled only and never measured" if compile_only else hardware.value
    yield "hardware", f"{what}, {settings.Q_CLUSTER['workers']} at a time"
    yield "database", f"{connection.vendor} {name}"
    if settings.GIT_URL:
        yield "kernels", f"fetched from {settings.GIT_URL} into {settings.ATTEMPTS_MIRROR}"
    else:
        yield "kernels", f"{settings.ATTEMPTS_REPOSITORY} (this is the portal's host)"
    yield "problems", f"by name in {settings.PROBLEMS_DIR}, or where they were imported from"
    yield "sandbox", settings.SANDBOX
    yield "cluster", served_cluster(hardware, compile_only=compile_only)


def served_cluster(hardware: HardwareName, *, compile_only: bool = False) -> str:
    """The django-q2 cluster to run here: on the portal's host its own one serves ``cpu``, and does the housekeeping."""
    if compile_only:
        return COMPILING
    if hardware is HardwareName.CPU and not settings.GIT_URL:
        return str(settings.Q_CLUSTER["name"])
    return cluster_name(hardware)


def obstacles(hardware: HardwareName = HardwareName.CPU, *, compile_only: bool = False) -> list[str]:
    """Everything that keeps this host from judging for the fleet, each with what to do; empty if nothing does."""
    found = []
    if not compile_only and not devices.is_here(hardware):
        # It would take every evaluation of that class and fail each.
        here = ", ".join(gpu["name"] for gpu in devices.gpus()) or "no NVIDIA GPU that its driver shows"
        found.append(f"there is no {hardware} here, but {here}. kernelyard devices lists what --hardware may name")
    if compile_only and not can_compile():
        found.append("there is no nvcc here to compile with. Install NVIDIA's cuda-toolkit, or set CUDA_HOME to it")
    attempts = Path(settings.ATTEMPTS_REPOSITORY)
    if settings.GIT_URL and attempts.exists():
        found.append(
            f"KERNELYARD_GIT_URL is set, but {attempts} is here. On the portal's host leave KERNELYARD_GIT_URL out; on "
            "any other host set KERNELYARD_HOME to a directory of its own"
        )
    if not settings.GIT_URL and not attempts.exists():
        found.append(
            f"there is no {attempts}. On the portal's host run: manage.py initrepos. On any other host set "
            "KERNELYARD_GIT_URL to the portal's address, such as http://portal:8000/git/attempts.git"
        )
    if settings.GIT_URL and connection.vendor == "sqlite":
        found.append(
            "KERNELYARD_GIT_URL is set, but the database is SQLite, which hosts cannot share. Set "
            "KERNELYARD_DATABASE_URL to the PostgreSQL database of the portal (a portal that still uses SQLite has to "
            "move to PostgreSQL first)"
        )
        return found
    try:
        found += [*_schema(), *_clock(), *_key()]
    except DatabaseError as error:
        found.append(f"the database cannot be used: {' '.join(str(error).split())}. Check KERNELYARD_DATABASE_URL")
    return found


def warnings() -> list[str]:
    """What will keep evaluations waiting but mends itself."""
    if settings.GIT_URL:
        try:
            materials.mirror().check()
        except GitStoreError as error:
            return [f"{error}. Evaluations wait until it does"]
    return []


def announce_key() -> None:
    """Log a check value of the portal's signing key where it changed, for other hosts to compare theirs with."""
    if _announced_key() != _key_check():
        log_event(KEY_EVENT, "system", check=_key_check())


def _schema() -> Iterator[str]:
    executor = MigrationExecutor(connection)
    loader = executor.loader
    if executor.migration_plan(loader.graph.leaf_nodes()):
        yield "the database lacks migrations of this checkout. Run manage.py migrate on the portal's host, or update it"
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("portal.")}
    unknown = sorted(set(loader.applied_migrations) - set(loader.disk_migrations))
    if unknown := [f"{label}.{name}" for label, name in unknown if label in ours]:
        yield f"this checkout is older than the database ({', '.join(unknown)}). Update it to the portal's version"


def _clock() -> Iterator[str]:
    """Leases are times of the hosts' own clocks, so they must agree well within one."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (theirs,) = cursor.fetchone()
    apart = abs((datetime.now(UTC) - theirs).total_seconds())
    if apart > settings.EVALUATION_LEASE_S / 6:
        yield f"this host's clock and the database's are {apart:.0f} s apart. Synchronise them (NTP)"


def _key() -> Iterator[str]:
    if settings.GIT_URL and _announced_key() not in (None, _key_check()):
        yield (
            "the signing key is not the portal's, so no message of the queue could be read. Set KERNELYARD_SECRET_KEY "
            "to the portal's, or replace secret_key in this host's KERNELYARD_HOME by the portal's"
        )


def _key_check() -> str:
    """Sixteen bits of a digest: enough to notice another key, too little to try guesses on."""
    return salted_hmac("kernelyard.fleet", "signing key").hexdigest()[:4]


def _announced_key() -> str | None:
    """The check value of the portal's key, or None before its first housekeeping."""
    event = Event.objects.filter(kind=KEY_EVENT).order_by("-id").first()
    return event and event.data.get("check")

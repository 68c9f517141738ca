"""Bringing database and repositories to where a campaign can start. Each step may be repeated without effect."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError

from agentcore.agents.tunables import parse
from agentcore.problems import find_problems
from agentcore.vocabulary import HardwareName, Language
from portal.attempts.repository import ensure_repositories
from portal.campaigns.models import Campaign
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.problems.importing import import_problem
from portal.problems.models import Problem

CAMPAIGN = "quickstart"
LANGUAGE, HARDWARE = Language.CPP, HardwareName.CPU


def find_suite(names: Sequence[str]) -> dict[str, Path]:
    """The suite's directories by name. Touches no database. Raises CommandError for one of ``names`` not among them."""
    found = {path.name: path for path in find_problems(Path(settings.PROBLEMS_DIR))}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise CommandError(f"there is no problem {', '.join(unknown)}; there are: {', '.join(sorted(found))}")
    return found


def import_suite(names: Sequence[str]) -> list[Problem]:
    """Import the suite; returned are the named problems, by default those with a kernel that a tuner can search.

    So the campaign grows with the kernels that declare parameters, not with the suite. Raises as find_suite.
    """
    found = find_suite(names)
    kernels = Path(settings.KERNELS_SEED_DIR) / "kernels"
    chosen = set(names) or {name for name in found if _has_tunables(kernels / name / LANGUAGE.value)}
    imported = {name: import_problem(found[name]).problem for name in (names or sorted(found))}
    return [problem for name, problem in imported.items() if problem is not None and name in chosen]


def _has_tunables(kernel: Path) -> bool:
    files = sorted(path for path in kernel.glob("*") if path.is_file())
    return any(parse(path.read_text("utf-8"), path.name) for path in files)


def open_campaign(problems: Sequence[Problem]) -> Campaign:
    """The quick start's campaign with ``problems`` among its own, active."""
    campaign, _ = Campaign.objects.get_or_create(
        name=CAMPAIGN, defaults={"language": LANGUAGE.value, "hardware": HARDWARE.value}
    )
    campaign.problems.add(*problems)
    if campaign.state != Campaign.State.ACTIVE:
        campaign.state = Campaign.State.ACTIVE
        campaign.save(update_fields=["state"])
    return campaign


def prepare() -> None:
    """Both repositories, and what an earlier run left half done put back into the queue."""
    ensure_repositories()
    release_abandoned()
    queue.wake_all()


def release_abandoned() -> int:
    """Requeue evaluations whose worker ran on this host and is gone, without waiting for their leases to expire."""
    released = 0
    for row in Evaluation.objects.filter(state=Evaluation.State.RUNNING):
        host, _, pid = row.claimed_by.rpartition(":")
        if host == socket.gethostname() and pid.isdigit() and not _alive(int(pid)):
            claim = queue.Claim(row.pk, row.lease_token, row.claims)
            released += queue.release(claim, "its worker is gone")
    return released


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""T_SOL of every workload before anybody attempts it: a queued job that counts in a sandbox, while the host is idle.

Asked for when a problem is imported, changes, or was counted by an older harness. Counting takes the cores that CPU
kernels are timed on, so it waits a minute for evaluations to be asked for, and until none of ``cpu`` is queued, under
way, or was a minute ago; where a problem waited for half an hour, one goes first every minute all the same. Torch is
imported in the sandbox only.
"""

from __future__ import annotations

import logging
import platform
import time
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django_q.tasks import async_task

from agentcore.bounds.confined import Bounds, confined_bounds
from agentcore.bounds.cpu import CalibrationError, calibrate_cpu
from agentcore.judge.version import HARNESS_VERSION
from agentcore.problems import ProblemError, load_problem
from agentcore.sandbox import SandboxError, find_sandbox
from agentcore.vocabulary import HardwareName
from portal.evaluations.models import Evaluation
from portal.problems.models import BoundCount, Problem, Workload, WorkloadBound
from portal.text import storable, storable_json

logger = logging.getLogger(__name__)

GPUS = (HardwareName.B200, HardwareName.H200, HardwareName.H100)
LIMIT_S = 300.0
MAX_TRIES = 3
_QUIET = timedelta(seconds=60)
_PATIENCE = timedelta(minutes=30)
_DEAD = timedelta(seconds=LIMIT_S + 120)
_PENDING, _RUNNING = BoundCount.State.PENDING, BoundCount.State.RUNNING


def ask(problem: Problem) -> bool:
    """Queue counting where the problem as it is was not counted, or that failed. Whether it is queued now.

    Inside a transaction the message is part of it.
    """
    row = BoundCount.objects.filter(problem=problem).first()
    same = row is not None and row.digest == problem.digest and row.harness_version == HARNESS_VERSION
    if same and row.state != BoundCount.State.FAILED:
        return row.state in (_PENDING, _RUNNING)
    if row is not None and row.digest != problem.digest:
        WorkloadBound.objects.filter(workload__problem=problem).delete()
    BoundCount.objects.update_or_create(problem=problem, defaults={
        "digest": problem.digest, "harness_version": HARNESS_VERSION, "state": _PENDING, "tries": 0, "message": "",
        "asked_at": timezone.now(), "started_at": None, "finished_at": None,
    })
    _wake()
    return True


def tick() -> int:
    """Ask again for what an older harness counted or a dead worker left, and wake; returns how many are waiting."""
    now = timezone.now()
    stale = Q(problem__is_active=True) & ~Q(harness_version=HARNESS_VERSION)
    BoundCount.objects.filter(stale).update(
        harness_version=HARNESS_VERSION, state=_PENDING, tries=0, asked_at=now, message=""
    )
    dead = BoundCount.objects.filter(state=_RUNNING, started_at__lt=now - _DEAD)
    dead.filter(tries__gte=MAX_TRIES).update(
        state=BoundCount.State.FAILED, finished_at=now, message=f"whoever counted them died, {MAX_TRIES} times"
    )
    dead.filter(tries__lt=MAX_TRIES).update(state=_PENDING)
    for problem in Problem.objects.filter(is_active=True, bound_count=None)[:200]:
        ask(problem)
    if _next(now) is not None:
        _wake()
    return BoundCount.objects.filter(state=_PENDING).count()


def work(budget_s: float) -> str:
    """Count one problem after another for about ``budget_s`` seconds while the host is idle. Says what was done."""
    end, done = time.monotonic() + budget_s, 0
    while (row := _claim(timezone.now())) is not None:
        _count(row)
        done += 1
        if not _is_idle(timezone.now()):
            return f"{done} counted; the host is wanted"
        if time.monotonic() > end:
            _wake()
            return f"{done} counted, more may wait"
    return f"{done} counted"


def _is_idle(now: datetime) -> bool:
    """Whether no CPU kernel is, was a moment ago or is about to be timed here."""
    busy = Evaluation.objects.filter(
        Q(state__in=Evaluation.PENDING) | Q(finished_at__gt=now - _QUIET),
        hardware=HardwareName.CPU.value,
    )
    return not busy.exclude(Evaluation.held_back()).exists()


def _next(now: datetime) -> BoundCount | None:
    """The one that waits longest and may begin now; those of problems in an active campaign go first."""
    waited = _QUIET if _is_idle(now) else _PATIENCE
    rows = BoundCount.objects.filter(state=_PENDING, asked_at__lt=now - waited).select_related("problem")
    wanted = Exists(Problem.objects.filter(pk=OuterRef("problem"), campaigns__state="active"))
    return rows.annotate(is_wanted=wanted).order_by("-is_wanted", "asked_at", "id").first()


def _claim(now: datetime) -> BoundCount | None:
    row = _next(now)
    if row is None or not BoundCount.objects.filter(pk=row.pk, state=_PENDING).update(
        state=_RUNNING, started_at=now, tries=row.tries + 1
    ):
        return None
    row.started_at, row.tries = now, row.tries + 1
    return row


def _count(row: BoundCount) -> None:
    problem = row.problem
    try:
        files = load_problem(problem.directory())
        if files.digest != row.digest:
            found = Bounds(trouble="the problem's files changed since its import: run manage.py importproblems again")
        else:
            sandbox = find_sandbox(settings.SANDBOX)
            try:
                rates, no_rates = calibrate_cpu(Path(settings.CACHE_DIR)), ""
            except CalibrationError as error:
                rates, no_rates = None, f"the CPU's rates cannot be measured: {error}"
            found = confined_bounds(files, sandbox, GPUS, rates, wall_s=LIMIT_S)
            found.trouble = found.trouble or no_rates
    except (ProblemError, SandboxError, OSError) as error:
        found = Bounds(trouble=str(error), transient=True)
    except Exception as error:
        logger.exception("bounds of %s", problem.name)
        found = Bounds(trouble=f"{type(error).__name__}: {error}", transient=True)
    _store(row, found)


def _store(row: BoundCount, found: Bounds) -> None:
    """Replace what is known of the problem, unless it changed meanwhile or another took over."""
    said = found.trouble or ("" if found.records else next(iter(found.troubles.values()), "there was no answer"))
    again = found.transient and not found.records and row.tries < MAX_TRIES
    state = _PENDING if again else BoundCount.State.DONE if found.records else BoundCount.State.FAILED
    with transaction.atomic():
        mine = BoundCount.objects.filter(
            pk=row.pk, state=_RUNNING, started_at=row.started_at, digest=row.digest,
            harness_version=row.harness_version,
        )
        if not mine.update(
            state=state, message=storable(said, 500), host=storable(platform.node(), 200),
            finished_at=timezone.now(), asked_at=timezone.now() if again else row.asked_at,
        ) or again:
            return
        WorkloadBound.objects.filter(workload__problem=row.problem).delete()
        WorkloadBound.objects.bulk_create(_rows(row.problem, found), batch_size=500)


def _rows(problem: Problem, found: Bounds) -> list[WorkloadBound]:
    listed = list(problem.workloads.filter(is_current=True).exclude(target=Workload.Target.HELDOUT))
    has_cpu_list = any(workload.target == Workload.Target.CPU for workload in listed)
    rows = []
    for workload in listed:
        on_cpu = workload.target == Workload.Target.CPU
        for hardware in [HardwareName.CPU] if on_cpu else [*GPUS, *([] if has_cpu_list else [HardwareName.CPU])]:
            record = found.records.get((workload.uuid, hardware))
            rows.append(WorkloadBound(
                workload=workload, hardware=hardware.value, t_sol_us=record.t_sol_us if record else None,
                record=storable_json(record.model_dump(mode="json")) if record else None,
                trouble="" if record else storable(
                    found.troubles.get((workload.uuid, hardware), found.trouble) or "not counted", 500
                ),
            ))
    return rows


def _wake() -> None:
    async_task("portal.evaluations.tasks.bounds", group="bounds", save=False)

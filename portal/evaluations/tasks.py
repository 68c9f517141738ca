"""What django-q2 runs: `work` (judge what is queued), `rescore` (a campaign whose rule changed), `bounds` (T_SOL of
imported problems), `tick` (every minute) and `pack` (every hour). All always return.

A message only says "there may be work"; losing one or running one twice changes nothing. Results never travel through
django-q2. The repositories are read and written on the portal's host alone, where KERNELYARD_GIT_URL is not set.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from pathlib import Path

from django.conf import settings

from agentcore.gitstore import AttemptsRepository, SolutionsRepository
from agentcore.vocabulary import HardwareName
from portal.evaluations import fleet, queue, rescoring
from portal.evaluations.models import Evaluation
from portal.evaluations.worker import Worker, start_compiler

logger = logging.getLogger(__name__)

_workers: dict[tuple[int, HardwareName, str], Worker] = {}


def work(hardware: str) -> str:
    """Judge queued evaluations of ``hardware`` until none is left, or until the task has run long enough.

    One more evaluation must always fit before django-q2's timeout, so a long queue is continued by a new message.
    """
    return _work([hardware], Evaluation.Kind.MEASURE)


def compile_queued() -> str:
    """Compile what is queued for any hardware class, and measure nothing."""
    return _work(list(HardwareName), Evaluation.Kind.COMPILE)


def _work(classes: Sequence[str], kind: str) -> str:
    try:
        until = time.monotonic() + _budget_s()
        judged, more = 0, False
        for hardware in classes:
            worker = _worker(HardwareName(hardware), kind)
            done, left = worker.run(budget_s=max(0.0, until - time.monotonic()), after_each=_after_each)
            judged, more = judged + done, more or left
            if left:
                queue.wake(hardware, kind)
                break
        return f"{judged} judged{', more may wait' if more else ''}"
    except Exception as error:
        logger.exception("work on %s (%s) failed; the queue is unchanged", ", ".join(classes), kind)
        return f"failed: {error}"


def rescore(campaign_id: int) -> str:
    """Score a campaign's attempts under its new rule, for some time; a long one is continued by a new message."""
    return str(_guarded(lambda: rescoring.work(campaign_id, _budget_s())))


def bounds() -> str:
    """Count T_SOL of problems that nobody has attempted yet, while nothing is timed on this host."""
    from portal.problems import bounds as counting

    return str(_guarded(lambda: counting.work(_budget_s())))


def tick() -> dict[str, object]:
    """Everything that makes up for something lost: leases, hooks, messages, notes, half-done publications."""
    # Imported here: these modules import the queue, and a worker host needs none of them to judge.
    from portal.attempts import intake, notes
    from portal.problems import bounds as counting
    from portal.solutions import publishing

    done: dict[str, object] = {"reaped": _guarded(queue.reap)}
    if _is_here(settings.ATTEMPTS_REPOSITORY):
        _guarded(fleet.announce_key)
        done["attempts"] = _guarded(lambda: len(intake.reconcile()))
        done["measured"] = _guarded(intake.measure_what_was_only_compiled)
        done["notes"] = _guarded(notes.write)
        done["bounds"] = _guarded(counting.tick)
    if _is_here(settings.SOLUTIONS_REPOSITORY):
        done["solutions"] = _guarded(lambda: len(publishing.reconcile()))
    done["rescoring"] = _guarded(rescoring.wake_silent)
    done["woken"] = _guarded(queue.wake_all)
    return done


def pack() -> dict[str, object]:
    """Pack the repositories of the portal's host, so that listing and serving them stays fast."""
    done: dict[str, object] = {}
    for name, kind, path in (
        ("attempts", AttemptsRepository, settings.ATTEMPTS_REPOSITORY),
        ("solutions", SolutionsRepository, settings.SOLUTIONS_REPOSITORY),
    ):
        if _is_here(path):
            done[name] = _guarded(lambda kind=kind, path=path: _pack(kind, path))
    return done


def _budget_s() -> float:
    """How long a task goes on: others are waiting."""
    return max(1.0, (settings.Q_TIMEOUT_S - settings.EVALUATION_DEADLINE_S) / 2)


def _after_each() -> None:
    from portal.attempts import notes

    _guarded(queue.reap)
    if _is_here(settings.ATTEMPTS_REPOSITORY):
        _guarded(notes.write)


def _is_here(repository: Path) -> bool:
    """Whether this is the portal's host and it has the repository."""
    return not settings.GIT_URL and Path(repository).exists()


def _pack(kind: type[AttemptsRepository | SolutionsRepository], path: Path) -> str:
    with kind.open(path) as repository:
        repository.pack()
    return "packed"


def _guarded(step: Callable[[], object]) -> object:
    try:
        return step()
    except Exception as error:
        logger.exception("housekeeping step failed")
        return f"failed: {error}"


def _worker(hardware: HardwareName, kind: str) -> Worker:
    """The worker of this process. django-q2 forks, so one inherited from a parent process is not ours."""
    key = (os.getpid(), hardware, kind)
    if key not in _workers:
        compiles = kind == Evaluation.Kind.COMPILE
        _workers[key] = worker = Worker(hardware, start_compiler, (kind,)) if compiles else Worker(hardware)
        # A forked multiprocessing child skips atexit; its finalizers run.
        Finalize(None, worker.close, exitpriority=10)
    return _workers[key]

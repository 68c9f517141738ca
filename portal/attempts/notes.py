"""Attempts, finished evaluations and reviews into git notes, in batches: what a lost database is rebuilt from.

One writer per portal host (a lock file). A crash between the append and marking the rows appends a line twice, which
readers fold by its identity: the commit for attempts; ``run`` for evaluations; reviewer, time and decision for reviews.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from agentcore.gitstore import AttemptsRepository
from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation
from portal.solutions.models import Review

logger = logging.getLogger(__name__)

ATTEMPTS = "attempts"
EVALUATIONS = "evaluations"
REVIEWS = "reviews"
LINE_LIMIT = 2 << 20


def write(limit: int = 500) -> int:
    """Append what is not noted yet, at most ``limit`` rows of each kind. Returns how many; 0 if another writer runs."""
    with _only_writer() as mine:
        if not mine:
            return 0
        with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
            return sum(step(repository, limit) for step in (_write_attempts, _write_evaluations, _write_reviews))


def attempt_line(attempt: Attempt) -> str:
    """What the portal knows of an attempt that its commit does not say, or that only the agent says."""
    campaign = attempt.campaign
    return _dump(
        {
            "ref": attempt.ref,
            "agent_kind": attempt.agent.kind,
            "received_at": _iso(attempt.received_at),
            "campaign": campaign
            and {
                "name": campaign.name, "language": campaign.language, "hardware": campaign.hardware,
                "baseline_kinds": campaign.baseline_kinds,
            },
        }
    )


def evaluation_line(evaluation: Evaluation) -> str:
    """One line: the whole recorded result, and what the portal knows beyond it."""
    result: dict[str, Any] = dict(evaluation.result or {})
    extra = {
        "evaluation_id": evaluation.pk,
        "kind": evaluation.kind,
        "against": evaluation.against.commit if evaluation.against else None,
        "run": evaluation.lease_token,
        "claims": evaluation.claims,
        "claimed_by": evaluation.claimed_by,
        "priority": evaluation.priority,
        "reason": evaluation.reason,
        "queued_at": _iso(evaluation.queued_at),
        "claimed_at": _iso(evaluation.started_at),
        "finished_at": _iso(evaluation.finished_at),
    }
    line = _dump(result | extra)
    if len(line) > LINE_LIMIT:
        build = dict(result.get("build") or {}, log="", log_truncated=True)
        workloads = [dict(workload, samples_us=[]) for workload in result.get("workloads") or []]
        line = _dump(result | {"runner_log": "", "build": build, "workloads": workloads} | extra)
    return line


def review_line(review: Review) -> str:
    return _dump(
        {
            "decision": review.decision,
            "reviewer": review.reviewer_name,
            "comment": review.comment,
            "at": _iso(review.created_at),
            "evaluation": review.evaluation_id,
            "run": review.evaluation.lease_token if review.evaluation else "",
        }
    )


def _write_attempts(repository: AttemptsRepository, limit: int) -> int:
    pending = Attempt.objects.filter(note_written_at__isnull=True).select_related("agent", "campaign")
    rows = [row for row in pending.order_by("id")[:limit] if _present(repository, row.commit, row)]
    repository.append_notes(ATTEMPTS, [(row.commit, attempt_line(row)) for row in rows])
    Attempt.objects.filter(pk__in=[row.pk for row in rows]).update(note_written_at=timezone.now())
    return len(rows)


def _write_evaluations(repository: AttemptsRepository, limit: int) -> int:
    pending = (
        Evaluation.objects.filter(state=Evaluation.State.DONE, note_written_at__isnull=True)
        .select_related("attempt", "against").order_by("finished_at", "id")[:limit]
    )
    rows = [row for row in pending if _present(repository, row.attempt.commit, row)]
    repository.append_notes(EVALUATIONS, [(row.attempt.commit, evaluation_line(row)) for row in rows])
    Evaluation.objects.filter(pk__in=[row.pk for row in rows]).update(note_written_at=timezone.now())
    return len(rows)


def _write_reviews(repository: AttemptsRepository, limit: int) -> int:
    pending = (
        Review.objects.filter(note_written_at__isnull=True)
        .select_related("attempt", "evaluation").order_by("id")[:limit]
    )
    rows = [row for row in pending if _present(repository, row.attempt.commit, row)]
    repository.append_notes(REVIEWS, [(row.attempt.commit, review_line(row)) for row in rows])
    Review.objects.filter(pk__in=[row.pk for row in rows]).update(note_written_at=timezone.now())
    return len(rows)


def _present(repository: AttemptsRepository, commit: str, row: object) -> bool:
    if repository.has_commit(commit):
        return True
    logger.error("%s has no note: commit %s is not in the attempts repository", row, commit)
    return False


@contextmanager
def _only_writer() -> Iterator[bool]:
    """Hold the writer's lock, or yield False where another process has it."""
    path = Path(settings.KERNELYARD_HOME) / "notes.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _iso(moment) -> str | None:
    return moment.isoformat() if moment else None

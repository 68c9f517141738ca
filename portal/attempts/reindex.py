"""A lost database, rebuilt from the two repositories: agents, campaigns, attempts, evaluations, reviews, solutions.

Idempotent: what is already there is recognised and left alone. Problems come from their directories, accounts and
tokens are not in git and have to be issued again. Works that were queued are queued again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.color import no_style
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from agentcore.gitstore import AttemptsRepository
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import AttemptRef
from portal.agents.models import Agent
from portal.attempts import intake, notes
from portal.attempts.models import Attempt
from portal.baselines.measuring import BASELINE_AGENT
from portal.campaigns.models import Campaign
from portal.evaluations import record, scoring
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.problems.importing import import_problems
from portal.problems.models import Problem
from portal.solutions import publishing
from portal.solutions.models import Review
from portal.text import storable


@dataclass(slots=True)
class Report:
    """How many rows were added, and what could not be read."""

    problems: int = 0
    agents: int = 0
    campaigns: int = 0
    attempts: int = 0
    evaluations: int = 0
    reviews: int = 0
    solutions: int = 0
    queued: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _KnownAttempt:
    """An attempt as its note tells it; ``campaign`` is empty where it counted for none."""

    ref: AttemptRef
    agent_kind: str
    received_at: datetime | None
    campaign: str
    language: str
    hardware: str
    baseline_kinds: list[str]


@dataclass(frozen=True, slots=True)
class _Noted:
    """One evaluation as its note tells it."""

    commit: str
    line: dict[str, Any]
    result: EvaluationResult

    @property
    def started_at(self) -> datetime:
        return _aware(self.result.started_at)

    @property
    def identity(self) -> str:
        return str(self.line.get("run") or f"{self.line.get('evaluation_id')}@{self.result.started_at.isoformat()}")


def reindex(problem_paths: Iterable[Path] = ()) -> Report:
    """Rebuild what is missing. ``problem_paths`` are imported besides the suite of this checkout."""
    report = Report()
    for outcome in import_problems([Path(settings.PROBLEMS_DIR), *problem_paths]):
        report.problems += outcome.change == "created"
        if outcome.error:
            report.faults.append(outcome.error)
    with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
        known = _known_attempts(repository, report)
        tips = list(repository.attempt_refs())
        _agents(tips, known, report)
        _campaigns(known, report)
        noted_refs = {commit: item.ref for commit, item in known.items()}
        created = intake.index(repository, tips, noted_refs=noted_refs, with_evaluations=False)
        report.attempts = len(created)
        _restore_attempts(known)
        _restore_evaluations(_noted_evaluations(repository, report), report)
        _restore_reviews(repository, report)
    _refresh_scores()
    report.solutions = len(publishing.reconcile()) if Path(settings.SOLUTIONS_REPOSITORY).exists() else 0
    for attempt in Attempt.objects.order_by("received_at", "id").select_related("problem", "agent", "campaign"):
        before = attempt.evaluations.count()
        intake.schedule_attempt(attempt)
        report.queued += attempt.evaluations.count() - before
    log_event(
        "database.reindexed", "system",
        **{key: getattr(report, key) for key in ("attempts", "evaluations", "reviews", "solutions", "queued")},
    )
    return report


def _known_attempts(repository: AttemptsRepository, report: Report) -> dict[str, _KnownAttempt]:
    """What the notes say about attempts, by commit."""
    known: dict[str, _KnownAttempt] = {}
    for commit, lines in repository.iter_notes(notes.ATTEMPTS):
        for text in lines:
            try:
                line = _object(text)
                campaign = line["campaign"] or {}
                known[commit] = _KnownAttempt(
                    ref=AttemptRef.parse(line["ref"]),
                    agent_kind=str(line["agent_kind"]),
                    received_at=_moment(line["received_at"]),
                    campaign=str(campaign.get("name", "")),
                    language=str(campaign.get("language", "")),
                    hardware=str(campaign.get("hardware", "")),
                    baseline_kinds=[str(kind) for kind in campaign.get("baseline_kinds") or []],
                )
            except (ValueError, KeyError, TypeError, AttributeError):
                report.faults.append(f"note on {commit}: not an attempt")
    return known


def _noted_evaluations(repository: AttemptsRepository, report: Report) -> list[_Noted]:
    """Every noted evaluation once, in the order of their numbers."""
    found: dict[str, _Noted] = {}
    for commit, lines in repository.iter_notes(notes.EVALUATIONS):
        for text in lines:
            try:
                line = _object(text)
                item = _Noted(commit, line, EvaluationResult.model_validate(line))
            except ValueError as error:  # pydantic's ValidationError is one
                report.faults.append(f"note on {commit}: not an evaluation: {str(error)[:200]}")
                continue
            found.setdefault(item.identity, item)
    return sorted(found.values(), key=lambda item: (_number(item.line.get("evaluation_id"), 0), item.started_at))


def _agents(tips: list[tuple[AttemptRef, str]], known: dict[str, _KnownAttempt], report: Report) -> None:
    kinds = {ref.agent: "" for ref, _ in tips} | {item.ref.agent: item.agent_kind for item in known.values()}
    for name, kind in kinds.items():
        if kind not in Agent.Kind.values:
            kind = Agent.Kind.BASELINE if name == BASELINE_AGENT else Agent.Kind.COMMAND
        _, created = Agent.objects.get_or_create(name=name, defaults={"kind": kind})
        report.agents += created


def _campaigns(known: dict[str, _KnownAttempt], report: Report) -> None:
    """From the portal's own notes, not from trailers, which an agent writes. The newest knows the rule."""
    oldest = datetime.min.replace(tzinfo=UTC)
    for item in sorted(known.values(), key=lambda item: item.received_at or oldest, reverse=True):
        problem = Problem.objects.filter(name=item.ref.problem).first()
        if not item.campaign or problem is None:
            continue
        campaign, created = Campaign.objects.get_or_create(
            name=item.campaign, defaults={
                "language": item.language, "hardware": item.hardware, "baseline_kinds": item.baseline_kinds,
            }
        )
        report.campaigns += created
        campaign.problems.add(problem)


def _restore_attempts(known: dict[str, _KnownAttempt]) -> None:
    """What a commit does not carry: when it was received and which campaign it counted for."""
    campaigns = {campaign.name: campaign for campaign in Campaign.objects.all()}
    for commit, item in known.items():
        values: dict[str, Any] = {"campaign": campaigns.get(item.campaign), "note_written_at": timezone.now()}
        if item.received_at is not None:
            values["received_at"] = item.received_at
        Attempt.objects.filter(commit=commit, note_written_at__isnull=True).update(**values)


def _restore_evaluations(noted: list[_Noted], report: Report) -> None:
    for item in noted:
        attempt = Attempt.objects.filter(commit=item.commit).select_related("problem").first()
        if attempt is None:
            report.faults.append(f"note on {item.commit}: its attempt is not indexed")
            continue
        run = storable(str(item.line.get("run") or ""), 64)
        mine = attempt.evaluations.filter(state=Evaluation.State.DONE)
        same = {"lease_token": run} if run else {"result__started_at": _json_moment(item.result.started_at)}
        if mine.filter(**same).exists():
            continue
        try:
            with transaction.atomic():
                _restore(item, attempt, run)
        except (DatabaseError, ValueError, TypeError, OverflowError) as error:
            report.faults.append(f"note on {item.commit}: cannot be restored: {str(error)[:200]}")
            continue
        report.evaluations += 1
    _reset_sequence()


def _restore(item: _Noted, attempt: Attempt, run: str) -> None:
    number = _number(item.line.get("evaluation_id"), 0)
    free = number > 0 and not Evaluation.objects.filter(pk=number).exists()
    evaluation = Evaluation.objects.create(
        pk=number if free else None,
        attempt=attempt,
        hardware=item.result.hardware.value,
        kind=_kind(item.line.get("kind")),
        against=Attempt.objects.filter(commit=storable(str(item.line.get("against") or ""), 64)).first(),
        state=Evaluation.State.DONE,
        priority=_number(item.line.get("priority"), Evaluation.Priority.AGENT, most=1000),
        reason=storable(str(item.line.get("reason") or ""), 200),
        claims=_number(item.line.get("claims"), 1, most=1000),
        claimed_by=storable(str(item.line.get("claimed_by") or ""), 200),
        lease_token=run,
        started_at=_moment(item.line.get("claimed_at")) or item.started_at,
        finished_at=_moment(item.line.get("finished_at")) or item.started_at,
        note_written_at=timezone.now(),
    )
    queued_at = _moment(item.line.get("queued_at")) or item.started_at
    Evaluation.objects.filter(pk=evaluation.pk).update(queued_at=queued_at)
    record.store(evaluation, item.result)


def _object(text: str) -> dict[str, Any]:
    """The JSON object of one line. Raises ValueError for anything else, however deep or long it is."""
    try:
        line = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    return line


def _number(value: object, otherwise: int, most: int = 1 << 53) -> int:
    """A positive whole number that every database takes, or what to use otherwise."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most else otherwise


def _kind(value: object) -> str:
    """Notes from before there were kinds are of measurements."""
    return str(value) if value in Evaluation.Kind.values else Evaluation.Kind.MEASURE


def _restore_reviews(repository: AttemptsRepository, report: Report) -> None:
    users = {user.get_username(): user for user in get_user_model().objects.all()}
    for commit, lines in repository.iter_notes(notes.REVIEWS):
        attempt = Attempt.objects.filter(commit=commit).first()
        for text in lines:
            try:
                line = _object(text)
                decision, at = line["decision"], _moment(line["at"])
                reviewer = storable(str(line["reviewer"]), 150)
            except (ValueError, KeyError, TypeError):
                report.faults.append(f"note on {commit}: not a review")
                continue
            if attempt is None or at is None or decision not in Review.Decision.values:
                report.faults.append(f"note on {commit}: a review that cannot be placed")
                continue
            run = storable(str(line.get("run") or ""), 64)
            evaluation = Evaluation.objects.filter(lease_token=run).first() if run else None
            _, created = Review.objects.get_or_create(
                attempt=attempt, reviewer_name=reviewer, created_at=at, decision=decision,
                defaults={
                    "comment": storable(str(line.get("comment") or "")), "reviewer": users.get(reviewer),
                    "evaluation": evaluation, "note_written_at": timezone.now(),
                },
            )
            report.reviews += created


def _refresh_scores() -> None:
    """Scores depend on the fastest baseline of all, so they are final only once everything is back."""
    measured = (
        Evaluation.objects.filter(state=Evaluation.State.DONE).order_by()
        .values_list("attempt__problem", "hardware", "problem_digest").distinct()
    )
    problems = Problem.objects.in_bulk()
    for problem_id, hardware, digest in list(measured):
        scoring.refresh_scores(problems[problem_id], hardware, digest)


def _reset_sequence() -> None:
    """Rows were inserted under their old numbers; the next number must come after them."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Evaluation]):
            cursor.execute(statement)


def _moment(value: object) -> datetime | None:
    try:
        moment = parse_datetime(value) if isinstance(value, str) else None
        return _aware(moment) if moment else None
    except (ValueError, OverflowError):
        return None


def _aware(moment: datetime) -> datetime:
    """In UTC where it says no zone."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json_moment(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")

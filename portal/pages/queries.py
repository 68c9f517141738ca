"""The questions only pages ask the database, in a bounded number of queries. Knows nothing of HTTP or HTML.

What counts as an attempt's result, the running best and comparisons are portal.evaluations.scores; here is how to
list much of it at once. The large ``result`` column is never loaded for lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, F, Max, OuterRef, Q, QuerySet, Subquery, Sum, When, Window
from django.db.models.functions import Coalesce, RowNumber

from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations import scores
from portal.evaluations.models import Evaluation

SETTLED = (Evaluation.State.DONE, Evaluation.State.DUPLICATE)
_HEAVY_PROBLEM = ("definition", "reference", "brief", "description")
_TRACK = ("attempt__problem_id", "attempt__language", "hardware")


@dataclass(frozen=True, slots=True, order=True)
class Track:
    """A problem is worked on per language and hardware; times of different tracks are never ranked together."""

    language: str
    hardware: str

    def __str__(self) -> str:
        return f"{self.language} on {self.hardware}"


def with_outcome(attempts: QuerySet[Attempt], hardware: str | None = None) -> QuerySet[Attempt]:
    """Annotate attempts with their outcome: ``outcome_id``, ``outcome_verdict``, ``outcome_score``,
    ``outcome_speedup``, ``outcome_latency``, ``outcome_digest`` (of the problem as it was then), and ``work_state`` and
    ``work_hardware`` of the newest evaluation.

    A duplicate has the outcome of the evaluation it points at.
    """
    own = Evaluation.objects.filter(Q(hardware=hardware) if hardware else Q(), attempt=OuterRef("pk"))
    newest = own.order_by("-queued_at", "-id")
    # A measurement is the outcome; where there is none yet, that it compiles is.
    speaking = Case(When(kind=Evaluation.Kind.MEASURE, then=0), When(kind=Evaluation.Kind.COMPILE, then=1))
    settled = (
        own.filter(state__in=SETTLED).annotate(place=speaking).filter(place__isnull=False)
        .order_by("place", "-queued_at", "-id")
    )
    outcome = Evaluation.objects.filter(pk=OuterRef("outcome_id"))
    return attempts.annotate(
        outcome_id=Subquery(settled.values(which=Coalesce("duplicate_of_id", "id"))[:1]),
        work_state=Subquery(newest.values("state")[:1]),
        work_hardware=Subquery(newest.values("hardware")[:1]),
    ).annotate(
        outcome_verdict=Subquery(outcome.values("verdict")[:1]),
        outcome_score=Subquery(outcome.values("sol_score")[:1]),
        outcome_speedup=Subquery(outcome.values("speedup")[:1]),
        outcome_latency=Subquery(outcome.values("latency_geomean_us")[:1]),
        outcome_digest=Subquery(outcome.values("problem_digest")[:1]),
    )


def listed(attempts: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """With agent, problem and campaign joined, and without the texts that lists never show."""
    return attempts.select_related("agent", "problem", "campaign").defer(
        "body", "hypothesis", *(f"problem__{name}" for name in _HEAVY_PROBLEM)
    )


def lightly(evaluations: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    """With attempt, agent and problem joined, and without the columns that lists never show."""
    return evaluations.select_related("attempt__agent", "attempt__problem", "duplicate_of").defer(
        "result", "duplicate_of__result", "duplicate_of__message", "attempt__body", "attempt__hypothesis",
        *(f"attempt__problem__{name}" for name in _HEAVY_PROBLEM),
    )


@dataclass(slots=True)
class TrackSummary:
    """A problem in one track: how many attempts, how many passed, and the best passed evaluation, if any."""

    problem_id: int
    track: Track
    attempts: int = 0
    passed: int = 0
    best: Evaluation | None = None
    last_at: datetime | None = None

    @property
    def headroom(self) -> float | None:
        """1 − S of the best: what is left to the limit."""
        return None if self.best is None or self.best.sol_score is None else max(0.0, 1 - self.best.sol_score)


def track_summaries(**attempt_filter: object) -> dict[tuple[int, Track], TrackSummary]:
    """Summaries by problem and track of the agents' attempts that match. Three queries, however many attempts."""
    wanted = {"kind": Attempt.Kind.AGENT, **attempt_filter}
    found: dict[tuple[int, Track], TrackSummary] = {}
    counted = (
        Evaluation.objects.filter(**{f"attempt__{key}": value for key, value in wanted.items()})
        .order_by().values(*_TRACK).annotate(n=Count("attempt", distinct=True), last=Max("attempt__received_at"))
    )
    for row in counted:
        key = (row["attempt__problem_id"], Track(row["attempt__language"], row["hardware"]))
        found[key] = TrackSummary(*key, attempts=row["n"], last_at=row["last"])
    passed = scores.standing_evaluations(**wanted).filter(verdict=Verdict.PASSED.value)
    for row in passed.order_by().values(*_TRACK).annotate(n=Count("id")):
        key = (row["attempt__problem_id"], Track(row["attempt__language"], row["hardware"]))
        if key in found:
            found[key].passed = row["n"]
    best = lightly(
        passed.filter(problem_digest=F("attempt__problem__digest"), latency_geomean_us__isnull=False)
    ).annotate(
        place=Window(
            RowNumber(), partition_by=[F(name) for name in _TRACK],
            order_by=[F("sol_score").desc(nulls_last=True), F("latency_geomean_us").asc(), F("id").asc()],
        )
    ).filter(place=1)
    for evaluation in best:
        key = (evaluation.attempt.problem_id, Track(evaluation.attempt.language, evaluation.hardware))
        if key in found:
            found[key].best = evaluation
    return found


def tracks_of(problem_id: int) -> list[Track]:
    """The tracks in which agents have attempted a problem, the most recently attempted first."""
    rows = (
        Evaluation.objects.filter(attempt__problem_id=problem_id, attempt__kind=Attempt.Kind.AGENT)
        .order_by().values("attempt__language", "hardware").annotate(last=Max("attempt__received_at"))
        .order_by("-last")
    )
    return [Track(row["attempt__language"], row["hardware"]) for row in rows]


def pending_counts(evaluations: QuerySet[Evaluation]) -> dict[str, dict[str, int]]:
    """Queue depth by hardware: ``{"cpu": {"queued": 3, "running": 1}}``. One query."""
    rows = (
        evaluations.filter(state__in=Evaluation.PENDING).order_by()
        .values("hardware", "state").annotate(n=Count("id")).order_by("hardware")
    )
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["hardware"], {"queued": 0, "running": 0})[row["state"]] = row["n"]
    return counts


def version(evaluations: QuerySet[Evaluation]) -> str:
    """Changes whenever any of these evaluations is added, claimed, finished or cancelled. One aggregate query."""
    seen = evaluations.order_by().aggregate(
        n=Count("id"), last=Max("id"), claims=Sum("claims"), finished=Max("finished_at"),
        waiting=Count("id", filter=Q(state=Evaluation.State.QUEUED)),
        running=Count("id", filter=Q(state=Evaluation.State.RUNNING)),
    )
    finished = f"{seen['finished']:%Y%m%d%H%M%S%f}" if seen["finished"] else "0"
    numbers = [str(seen[key] or 0) for key in ("n", "last", "claims", "waiting", "running")]
    return "-".join([*numbers, finished])


def ordered(queryset: QuerySet, sort: str, columns: dict[str, str], default: tuple[str, ...]) -> QuerySet:
    """Order by ``?sort=``: ``columns`` maps a key to a database expression; unknown keys give the default."""
    expression = columns.get(sort.lstrip("-"))
    if not expression:
        return queryset.order_by(*default)
    field = F(expression)
    ordering = field.desc(nulls_last=True) if sort.startswith("-") else field.asc(nulls_last=True)
    return queryset.order_by(ordering, "-pk")

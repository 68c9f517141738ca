"""The JSON interface: what agents and scripts read. Read-only and public; attempts arrive through git alone.

The fields are described in protocol.md; ``shapes.py`` makes them. Scores are the evaluation rows' own columns, kept
current by ``portal.evaluations.record``.
"""

from __future__ import annotations

import re
from typing import Any

from django.db.models import F, Prefetch, Q
from django.http import HttpRequest

from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.api import shapes
from portal.api.responses import ApiError, choice, integer, json_view
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign, Rescoring
from portal.evaluations import scores
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem

MAX_PAGE = 500
MAX_EVALUATIONS = 20
_COMMIT = re.compile(r"[0-9a-f]{7,40}\Z")
_LANGUAGES = {language.value for language in Language}
_HARDWARE = {hardware.value for hardware in HardwareName}
_VERDICTS = {verdict.value for verdict in Verdict}
_KINDS = set(Attempt.Kind.values)
_ATTEMPT_PARTS = ("problem", "agent", "campaign", "parent")


@json_view
def index(request: HttpRequest) -> dict[str, Any]:
    """Where everything is."""
    return {
        "version": 1,
        "paths": [
            "/api/v1/health", "/api/v1/problems", "/api/v1/problems/<name>", "/api/v1/problems/<name>/history",
            "/api/v1/attempts/<commit>", "/api/v1/evaluations/<id>", "/api/v1/campaigns", "/api/v1/campaigns/<name>",
        ],
    }


@json_view
def nothing(request: HttpRequest) -> dict[str, Any]:
    """Whatever else is asked for."""
    raise ApiError("nothing is at this address; /api/v1/ lists what there is", 404)


@json_view
def health(request: HttpRequest) -> dict[str, Any]:
    """The portal answers and its database too; how much work waits on each hardware."""
    waiting: dict[str, dict[str, int]] = {}
    pending = Evaluation.objects.filter(state__in=Evaluation.PENDING).order_by()
    for hardware, state in pending.values_list("hardware", "state"):
        counts = waiting.setdefault(hardware, {"queued": 0, "running": 0})
        counts[state] += 1
    return {"status": "ok", "harness_version": HARNESS_VERSION, "evaluations": waiting}


@json_view
def problems(request: HttpRequest) -> dict[str, Any]:
    """Every active problem with its best passed attempt per language and hardware."""
    rows = list(Problem.objects.filter(is_active=True))
    best = _best_by_problem(Q(attempt__problem__in=rows))
    return {"problems": [shapes.problem_summary(problem, best.get(problem.pk, ())) for problem in rows]}


@json_view
def problem(request: HttpRequest, name: str) -> dict[str, Any]:
    """One problem: definition, reference, brief, public workloads, best attempts."""
    row = _problem(name)
    best = _best_by_problem(Q(attempt__problem=row))
    return shapes.problem_detail(row, best.get(row.pk, ()))


@json_view
def history(request: HttpRequest, name: str) -> dict[str, Any]:
    """The attempts at a problem, newest first; with ``best=1`` the passed ones, best first.

    Parameters: language, hardware, verdict, kind, agent, limit (at most 500), before (the ``next`` of a page).
    """
    row = _problem(name)
    limit = integer(request, "limit", 50, 1, MAX_PAGE)
    language, hardware = choice(request, "language", _LANGUAGES), choice(request, "hardware", _HARDWARE)
    verdict, kind = choice(request, "verdict", _VERDICTS), choice(request, "kind", _KINDS)
    agent = request.GET.get("agent")
    wanted: dict[str, Any] = {"problem": row}
    wanted |= {"language": language} if language else {}
    wanted |= {"kind": kind} if kind else {}
    wanted |= {"agent__name": agent} if agent else {}
    if request.GET.get("best") in ("1", "true"):
        return {"problem": row.name, "attempts": _best_attempts(wanted, row, hardware, limit), "next": None}
    attempts = Attempt.objects.filter(**wanted).select_related(*_ATTEMPT_PARTS).order_by("-id")
    if verdict:
        judged = Q(evaluations__verdict=verdict) | Q(evaluations__duplicate_of__verdict=verdict)
        attempts = attempts.filter(judged & (Q(evaluations__hardware=hardware) if hardware else Q())).distinct()
    if request.GET.get("before") is not None:
        attempts = attempts.filter(pk__lt=integer(request, "before", 0, 0, 2**62))
    evaluations = Evaluation.objects.select_related("duplicate_of__attempt", "against").order_by("-id")
    evaluations = evaluations.defer("result", "duplicate_of__result")
    if hardware:
        evaluations = evaluations.filter(hardware=hardware)
    found = list(attempts.prefetch_related(Prefetch("evaluations", evaluations))[: limit + 1])
    rows, more = found[:limit], len(found) > limit
    return {
        "problem": row.name,
        "attempts": [
            shapes.attempt_summary(attempt, shapes.speaking_evaluation(attempt.evaluations.all())) for attempt in rows
        ],
        "next": rows[-1].pk if more else None,
    }


@json_view
def attempt(request: HttpRequest, commit: str) -> dict[str, Any]:
    """One attempt by its commit id (at least 7 characters) with its evaluations in full, newest first."""
    if not _COMMIT.match(commit):
        raise ApiError("a commit is 7 to 40 characters 0-9 a-f")
    found = list(
        Attempt.objects.filter(commit__startswith=commit).select_related(*_ATTEMPT_PARTS, "problem").order_by("pk")[:2]
    )
    if not found:
        raise ApiError(f"no attempt {commit} is indexed (yet); after a push it takes a moment", 404)
    if len(found) > 1:
        raise ApiError(f"{commit} begins several commits; give more characters")
    evaluations = (
        found[0]
        .evaluations.select_related("duplicate_of__attempt", "against")
        .prefetch_related("workloads", "duplicate_of__workloads")
        .order_by("-id")[:MAX_EVALUATIONS]
    )
    return shapes.attempt_detail(found[0], list(evaluations))


@json_view
def evaluation(request: HttpRequest, number: int) -> dict[str, Any]:
    """One evaluation in full."""
    row = (
        Evaluation.objects.filter(pk=number)
        .select_related("attempt", "duplicate_of__attempt", "against")
        .prefetch_related("workloads", "duplicate_of__workloads")
        .first()
    )
    if row is None:
        raise ApiError(f"there is no evaluation {number}", 404)
    return {"commit": row.attempt.commit, **shapes.evaluation_detail(row)}


@json_view
def campaigns(request: HttpRequest) -> dict[str, Any]:
    """Every campaign, newest first."""
    return {"campaigns": [_campaign_head(row) for row in Campaign.objects.all()]}


@json_view
def campaign(request: HttpRequest, name: str) -> dict[str, Any]:
    """One campaign: its figures and the best attempt of each of its problems."""
    row = Campaign.objects.filter(name=name).first()
    if row is None:
        raise ApiError(f"there is no campaign {name}", 404)
    summary = scores.campaign_summary(row)
    return {
        **_campaign_head(row),
        "rescoring": Rescoring.objects.filter(campaign=row).exists(),
        "attempts": summary.attempts,
        "passed": summary.passed,
        "waiting": summary.waiting,
        "geomean_speedup": summary.geomean_speedup,
        "median_sol": summary.median_sol,
        "share_beating_baseline": summary.share_beating_baseline,
        "share_above_2x": summary.share_above_2x,
        "problems": [
            {
                "problem": standing.problem.name,
                "attempts": standing.attempts,
                "passed": standing.passed,
                "speedup": standing.speedup,
                "sol_score": standing.sol_score,
                "best_commit": standing.best.attempt.commit if standing.best else None,
                "latency_geomean_us": standing.best.latency_geomean_us if standing.best else None,
            }
            for standing in summary.problems
        ],
    }


def _campaign_head(row: Campaign) -> dict[str, Any]:
    return {
        "name": row.name,
        "language": row.language,
        "hardware": row.hardware,
        "state": row.state,
        "budget": row.budget,
        "baseline_kinds": row.baseline_kinds,
        "started_at": row.started_at.isoformat(),
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        "url": shapes.page("campaign-detail", row.name),
    }


def _problem(name: str) -> Problem:
    row = Problem.objects.filter(name=name).first()
    if row is None:
        raise ApiError(f"there is no problem {name}", 404)
    return row


def _passed(condition: Q):
    """Standing passed evaluations of problems as they are now, best first, ready to be shown."""
    return (
        scores.standing_evaluations()
        .filter(condition, verdict=Verdict.PASSED.value, problem_digest=F("attempt__problem__digest"))
        .select_related("attempt", "duplicate_of__attempt", "against")
        .defer("result")
        .order_by(F("sol_score").desc(nulls_last=True), "latency_geomean_us", "id")
    )


def _best_by_problem(condition: Q) -> dict[int, list[Evaluation]]:
    best: dict[tuple[int, str, str], Evaluation] = {}
    for row in _passed(condition & Q(attempt__kind=Attempt.Kind.AGENT)):
        best.setdefault((row.attempt.problem_id, row.attempt.language, row.hardware), row)
    by_problem: dict[int, list[Evaluation]] = {}
    for (problem_id, _, _), row in sorted(best.items()):
        by_problem.setdefault(problem_id, []).append(row)
    return by_problem


def _best_attempts(wanted: dict[str, Any], row: Problem, hardware: str | None, limit: int) -> list[dict[str, Any]]:
    condition = Q(**{f"attempt__{key}": value for key, value in wanted.items()})
    condition &= Q(hardware=hardware) if hardware else Q()
    seen: dict[int, Evaluation] = {}
    for passed in _passed(condition)[: 4 * limit]:
        seen.setdefault(passed.attempt_id, passed)
    chosen = dict(list(seen.items())[:limit])
    attempts = Attempt.objects.select_related(*_ATTEMPT_PARTS).in_bulk(chosen)
    return [shapes.attempt_summary(attempts[pk], evaluation) for pk, evaluation in chosen.items()]

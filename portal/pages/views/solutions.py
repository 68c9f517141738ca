"""Solutions: what has been merged, how to clone it, how to measure it again, and each as a solution.json."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from agentcore.gitstore import GitStoreError
from agentcore.official import ExportError
from portal.pages import listings, queries, tables, text, verdicts
from portal.pages.tables import Column, Table
from portal.solutions import exporting
from portal.solutions.models import Solution


def solution_list(request: HttpRequest) -> HttpResponse:
    everything = request.GET.get("all") == "1"
    rows = Solution.objects.select_related(
        "problem", "attempt__agent", "evaluation", "review"
    ).defer("evaluation__result", "problem__definition", "problem__reference", "problem__brief", "attempt__body")
    rows = rows if everything else rows.filter(superseded_at__isnull=True)
    columns = [
        Column("problem", "problem", lambda s: s.problem.name, link=lambda s: s.problem.get_absolute_url(),
               order="problem__name"),
        Column("language", "language", lambda s: s.language, order="language"),
        Column("hardware", "hardware", lambda s: s.hardware, order="hardware"),
        Column("sol_score", "S", lambda s: s.evaluation.sol_score, tables.score, numeric=True,
               order="evaluation__sol_score", term="sol-score"),
        Column("speedup", "speedup", lambda s: s.evaluation.speedup, tables.times, numeric=True,
               order="evaluation__speedup", term="speedup"),
        Column("latency_us", "latency (µs)", lambda s: s.evaluation.latency_geomean_us, tables.microseconds,
               numeric=True, order="evaluation__latency_geomean_us", term="latency"),
        Column("attempt", "attempt", lambda s: s.attempt.commit, tables.short_commit,
               link=lambda s: listings.attempt_url(s.attempt)),
        Column("agent", "by", lambda s: s.attempt.agent.name, order="attempt__agent__name"),
        Column("reviewer", "reviewed by", lambda s: s.review.reviewer_name if s.review else None),
        Column("commit", "published as", lambda s: s.commit, tables.short_commit),
        Column("path", "directory", lambda s: f"solutions/{s.problem.name}/{s.language}-{s.hardware}", visible=False),
        Column("export", "SOL-ExecBench", lambda s: "solution.json", export=False,
               link=lambda s: reverse("solution-export", args=[s.commit])),
        Column("published_at", "published (UTC)", lambda s: s.published_at, order="published_at", css="nowrap"),
    ]
    if everything:
        columns.append(Column("superseded_at", "superseded (UTC)", lambda s: s.superseded_at, css="nowrap"))
    sort = request.GET.get("sort", "")
    rows = queries.ordered(rows, sort, {c.key: c.order for c in columns if c.order}, ("problem__name", "-published_at"))
    page = tables.paginated(request, rows, 200)
    columns.insert(6, Column(
        "earlier_version", "measured on", _is_earlier, _version, visible=any(map(_is_earlier, page.object_list))
    ))
    table = Table(
        "solutions", "Solutions", columns, rows, sort=sort, sortable=True, query=request.GET, caption_hidden=True,
        page=page,
        empty="Nothing merged yet. Review a passed attempt, approve and merge it: it appears here and in the clone.",
    )
    context = {
        "title": "Solutions", "table": table, "everything": everything,
        "clone_url": f"{settings.PUBLIC_URL}/git/solutions.git",
        "example": next((f"solutions/{s.problem.name}/{s.language}-{s.hardware}" for s in table.visible), None),
    }
    return tables.respond(request, "solutions/list.html", context, table)


def _is_earlier(solution: Solution) -> bool:
    return listings.is_earlier(solution.evaluation.problem_digest, solution.problem)


def _version(value: bool, _row: Solution) -> str:
    return verdicts.badge(verdicts.EARLIER) if value else "the problem as it is"


@require_safe
def solution_export(request: HttpRequest, commit: str) -> HttpResponse:
    """One published solution as a file for SOL-ExecBench and FlashInfer-Bench; 409 with the reason if it cannot be."""
    solution = get_object_or_404(Solution.objects.select_related("problem", "attempt__agent"), commit=commit)
    try:
        content = exporting.exported(solution)
    except (ExportError, GitStoreError, OSError) as error:
        said = f"This solution cannot be exported: {text.label(error)}\n"
        return HttpResponse(said, status=409, content_type="text/plain; charset=utf-8")
    return HttpResponse(content, content_type="application/json", headers={
        "Content-Disposition": f'attachment; filename="{exporting.file_name(solution)}"',
    })

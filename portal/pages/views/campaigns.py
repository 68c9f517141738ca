"""Campaigns: the home page is the newest active one."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.html import format_html

from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations import scores
from portal.evaluations.models import Evaluation
from portal.pages import charts, formatting, listings, live, queries, tables
from portal.pages.rescoring import pending
from portal.pages.tables import Column, Table
from portal.pages.verdicts import VERDICTS, Look

RECENT = 12


def home(request: HttpRequest) -> HttpResponse:
    campaigns = list(Campaign.objects.all()[:50])
    campaign = next((c for c in campaigns if c.state == Campaign.State.ACTIVE), campaigns[0] if campaigns else None)
    if campaign is None:
        return render(request, "campaigns/none.html", {"title": "Campaigns"})
    return _detail(request, campaign, others=[c for c in campaigns if c != campaign])


def campaign_detail(request: HttpRequest, name: str) -> HttpResponse:
    return _detail(request, get_object_or_404(Campaign, name=name), others=[])


def campaign_list(request: HttpRequest) -> HttpResponse:
    rows = Campaign.objects.annotate(
        n_problems=Count("problems", distinct=True),
        n_attempts=Count("attempts", filter=Q(attempts__kind=Attempt.Kind.AGENT), distinct=True),
    )
    columns = [
        Column("name", "campaign", lambda c: c.name, link=lambda c: c.get_absolute_url()),
        Column("language", "language", lambda c: c.language),
        Column("hardware", "hardware", lambda c: c.hardware),
        Column("state", "state", lambda c: c.state, tables.badge),
        Column("problems", "problems", lambda c: c.n_problems, numeric=True),
        Column("attempts", "attempts", lambda c: c.n_attempts, numeric=True),
        Column("started_at", "started (UTC)", lambda c: c.started_at),
        Column("finished_at", "finished (UTC)", lambda c: c.finished_at),
    ]
    table = Table("campaigns", "Campaigns", columns, rows, caption_hidden=True,
                  empty="No campaign yet. manage.py quickstart starts one on the CPU target.")
    return tables.respond(request, "list.html", {"title": "Campaigns", "table": table}, table)


def _detail(request: HttpRequest, campaign: Campaign, others: list[Campaign]) -> HttpResponse:
    evaluations = Evaluation.objects.filter(attempt__campaign=campaign, hardware=campaign.hardware)
    rescoring = pending(campaign=campaign)
    watched = live.watch(
        evaluations, idle_s=live.IDLE_S if campaign.state == Campaign.State.ACTIVE else 0, rescoring=rescoring
    )
    if (same := live.unchanged(request, watched)) is not None:
        return same
    summary = scores.campaign_summary(campaign)
    problems = problem_table(campaign, summary.problems, request.GET.get("sort", ""))
    problems.query = request.GET
    problems.caption_hidden = bool(summary.scored)
    chart = charts.problem_speedups(
        [(row.problem.name, _track_url(campaign, row.problem), row.speedup, row.sol_score)
         for row in summary.problems], problems,
    )
    attempts = queries.listed(queries.with_outcome(
        campaign.attempts.filter(kind=Attempt.Kind.AGENT), campaign.hardware
    )).order_by("-received_at", "-pk")
    context = {
        "title": campaign.name, "campaign": campaign, "summary": summary, "live": watched, "others": others,
        "rescoring": rescoring,
        "stats": _stats(summary), "chart": chart if summary.scored else None, "problems": problems,
        "recent": listings.attempts(attempts[:RECENT], without=("language", "hardware"), caption="Newest attempts",
                                    empty=format_html('No attempt yet. Agents push to attempts.git: see <a href="{}">'
                                                      "the protocol</a>.", reverse("protocol"))),
        "mix": _verdict_mix(campaign), "budget": _budget(campaign, summary),
    }
    return tables.respond(request, "campaigns/detail.html", context, problems, fragment="campaigns/_body.html")


def _track_url(campaign: Campaign, problem: Any) -> str:
    return f"{reverse('problem-detail', args=[problem.name])}?language={campaign.language}&hardware={campaign.hardware}"


def problem_table(campaign: Campaign, rows: Any, sort: str = "") -> Table:
    """A campaign's problems: where each stands and what is left. Figures lead to the evaluation they come from."""

    def to_evaluation(row: Any) -> str | None:
        return row.best.get_absolute_url() if row.best else None

    columns = [
        Column("problem", "problem", lambda r: r.problem.name, link=lambda r: _track_url(campaign, r.problem),
               order="name"),
        Column("sol_score", "best S", lambda r: r.sol_score, tables.score, numeric=True, order="s",
               term="sol-score", link=to_evaluation),
        Column("speedup", "speedup", lambda r: r.speedup, tables.times, numeric=True, order="x", term="speedup",
               link=to_evaluation),
        Column("headroom", "headroom", lambda r: None if r.sol_score is None else max(0.0, 1 - r.sol_score),
               tables.score, numeric=True, order="h", term="headroom"),
        Column("latency_us", "latency (µs)", lambda r: r.best.latency_geomean_us if r.best else None,
               tables.microseconds, numeric=True, order="t", term="latency", link=to_evaluation),
        Column("attempts", "attempts", lambda r: r.attempts, numeric=True, order="n"),
        Column("passed", "passed", lambda r: r.passed, numeric=True, order="p"),
        Column("best", "best attempt", lambda r: r.best.attempt.commit if r.best else None, tables.short_commit,
               link=lambda r: listings.attempt_url(r.best.attempt) if r.best else None),
        Column("agent", "by", lambda r: r.best.attempt.agent.name if r.best else None),
    ]
    return Table("campaign-problems", "Problems", columns, tables.sorted_rows(rows, columns, sort or "-sol_score"),
                 sort=sort or "-sol_score", sortable=True,
                 empty="This campaign has no problems. Add some to it in the admin.")


def _stats(summary: scores.CampaignSummary) -> list[dict[str, str]]:
    total = len(summary.problems)
    speedups = [row.speedup for row in summary.problems if row.speedup]
    beating, double = sum(s > 1 for s in speedups), sum(s > 2 for s in speedups)
    return [
        {"label": "geometric-mean speedup", "value": formatting.times(summary.geomean_speedup),
         "note": f"over {len(speedups)} problems with a score", "term": "speedup"},
        {"label": "faster than baseline", "value": f"{beating} / {total}",
         "note": formatting.percent(summary.share_beating_baseline), "term": "baseline"},
        {"label": "above 2×", "value": f"{double} / {total}",
         "note": formatting.percent(summary.share_above_2x), "term": "speedup"},
        {"label": "median SOL score", "value": formatting.score(summary.median_sol),
         "note": "0.5 baseline, 1 limit", "term": "sol-score"},
        {"label": "attempts", "value": f"{summary.attempts:,}",
         "note": f"{summary.passed:,} passed", "term": "attempt"},
    ]


def _verdict_mix(campaign: Campaign) -> list[tuple[Look, str, int]]:
    """How the attempts that the campaign's figures count ended, most frequent first."""
    rows = scores.verdict_counts(
        campaign.hardware, campaign=campaign, language=campaign.language, kind=Attempt.Kind.AGENT
    )
    return sorted(((look, str(verdict), rows[verdict]) for verdict, look in VERDICTS.items() if verdict in rows),
                  key=lambda row: -row[2])


def _budget(campaign: Campaign, summary: scores.CampaignSummary) -> list[tuple[str, str]]:
    """What the campaign may spend; attempts with what it has spent."""
    words = {"attempts": "attempts", "device_minutes": "device minutes", "wall_minutes": "wall-clock minutes"}
    lines = []
    for key, word in words.items():
        if (limit := campaign.budget.get(key)) is not None:
            spent = f"{summary.attempts:,} of " if key == "attempts" else ""
            lines.append((word, f"{spent}{formatting.significant(limit) if isinstance(limit, float) else limit}"))
    return lines

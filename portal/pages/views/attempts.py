"""Attempts: the filterable list, and one attempt with everything known about it."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html

from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.attempts.models import Attempt
from portal.evaluations import sanitizing
from portal.evaluations.models import Evaluation
from portal.pages import (
    evidence,
    formatting,
    listings,
    live,
    proofs,
    queries,
    rivals,
    sanitizers,
    sources,
    tables,
    text,
    versus,
)
from portal.pages.access import may_review
from portal.pages.filters import AttemptFilter
from portal.pages.rescoring import pending
from portal.solutions import publishing, replacing
from portal.solutions.models import Solution

LINEAGE = 30
SHORTEST_PREFIX = 7  # digits of a commit, as git abbreviates it
DIFF_BASES = ("parent", "solution", "nothing")


def attempt_list(request: HttpRequest) -> HttpResponse:
    filtered = AttemptFilter(request.GET, queryset=queries.listed(queries.with_outcome(Attempt.objects.all())))
    rows = filtered.qs if filtered.form.is_valid() else Attempt.objects.none()
    sort = request.GET.get("sort", "")
    rows = queries.ordered(rows, sort, listings.ATTEMPT_ORDER, ("-received_at", "-pk"))
    page = tables.paginated(request, rows)
    table = listings.attempts(
        rows, caption=formatting.counted(page.paginator.count, "attempt"), page=page,
        sort=sort or "-received_at", sortable=True, query=request.GET, empty=(
            "No attempt matches these filters." if filtered.form.changed_data
            else format_html('No attempt yet. Agents push branches to attempts.git; <a href="{}">the protocol</a> says '
                             "how.", reverse("protocol"))
        ),
    )
    context = {"title": "Attempts", "table": table, "form": filtered.form}
    return tables.respond(request, "attempts/list.html", context, table)


def _whole(commit: str) -> str | None:
    """The one commit of an attempt that starts with this many digits or more; None where none or several do."""
    if not re.fullmatch(rf"[0-9a-f]{{{SHORTEST_PREFIX},39}}", commit):
        return None
    found = list(Attempt.objects.filter(commit__startswith=commit).values_list("commit", flat=True)[:2])
    return found[0] if len(found) == 1 else None


def attempt_detail(request: HttpRequest, commit: str) -> HttpResponse:
    if (whole := _whole(commit)) is not None:
        query = request.GET.urlencode()
        return redirect(reverse("attempt-detail", args=[whole]) + (f"?{query}" if query else ""))
    attempt = get_object_or_404(
        Attempt.objects.select_related("problem", "agent", "campaign", "parent__agent"), commit=commit
    )
    evaluations = attempt.evaluations.all()
    # A duplicate of an evaluation that still runs waits for that one.
    rescoring = pending(campaign=attempt.campaign) if attempt.campaign_id else []
    watched = live.watch(
        Evaluation.objects.filter(Q(attempt=attempt) | Q(pk__in=evaluations.values("duplicate_of"))),
        rescoring=rescoring,
    )
    if (same := live.unchanged(request, watched)) is not None:
        return same
    listed = list(evaluations.select_related("duplicate_of__attempt").defer("duplicate_of__result"))
    newest = listed[0] if listed else None
    shown = _outcome(listed)
    found = evidence.gather(shown) if shown else None
    against = rivals.rivals(attempt, shown) if shown and shown.verdict == Verdict.PASSED.value else []
    replaces = _replaces(request, attempt, shown)
    solution = _solution(attempt, shown.hardware if shown else newest.hardware if newest else None)
    compared = proofs.table(
        proofs.of_kernel(attempt), solution, own=attempt.kernel_tree, with_hardware=True
    )
    context: dict[str, Any] = {
        "title": text.label(attempt.subject, 100) or attempt.commit[:10], "attempt": attempt, "live": watched,
        "rescoring": rescoring,
        "newest": newest, "shown": shown, "evidence": found,
        "duplicate": next((e for e in listed if e.state == Evaluation.State.DUPLICATE), None),
        "evaluations": listings.evaluations(listed, without=("reason",), empty="No evaluation was asked for yet."),
        "sanitizers": _sanitizers(attempt, shown),
        "may_review": may_review(request.user), "obstacles": _obstacles(request, attempt, shown),
        "rerun_on": [] if shown or watched.is_busy else [member.value for member in HardwareName],
        "reviews": list(attempt.reviews.select_related("evaluation")),
        "published": list(attempt.solutions.all()), "rivals": rivals.rivals_table(shown, against) if shown else None,
        "slower": rivals.slower_than(against, _merge_weighs(replaces)),
        "replaces": replaces, "proofs": compared,
    }
    exported = found.tables if found else []
    exported += [table for table in (context["rivals"], compared, context["evaluations"]) if table is not None]
    if context["sanitizers"] and context["sanitizers"].found:
        exported.append(context["sanitizers"].found.findings)
    if not request.headers.get("HX-Request") and not request.GET.get("format"):
        context |= _change_context(request, attempt, solution)
        context |= _handoff_context(attempt)
    return tables.respond(request, "attempts/detail.html", context, *exported, fragment="attempts/_outcome.html")


def _solution(attempt: Attempt, hardware: str | None) -> Solution | None:
    """The current solution of the attempt's problem and language, on ``hardware`` where one is given."""
    current = Solution.objects.filter(problem=attempt.problem, language=attempt.language, superseded_at__isnull=True)
    if hardware:
        current = current.filter(hardware=hardware)
    return current.select_related("attempt").first()


def _sanitizers(attempt: Attempt, shown: Evaluation | None) -> sanitizers.Panel | None:
    """What sanitizers say of the kernel on the hardware that the page is about; nothing of a baseline in Python."""
    if shown is None or shown.kind != Evaluation.Kind.MEASURE or not Language(attempt.language).is_compiled:
        return None
    return sanitizers.panel(attempt, sanitizing.standing(attempt, shown))


def _obstacles(request: HttpRequest, attempt: Attempt, shown: Evaluation | None) -> list[str]:
    """Why the attempt cannot be merged on this evaluation; asked only for those who could."""
    if shown is None or not may_review(request.user):
        return []
    try:
        return publishing.obstacles(attempt, shown)
    except ValueError as error:  # a record that does not fit the schema
        return [text.label(f"the stored result cannot be read: {error}")]


def _replaces(request: HttpRequest, attempt: Attempt, shown: Evaluation | None) -> dict[str, Any] | None:
    """What a merge would replace and how the two compare side by side; asked only for those who could merge."""
    if shown is None or shown.verdict != "passed" or not may_review(request.user):
        return None
    found = replacing.replacement(attempt, shown.hardware)
    if found is None:
        return None
    return {
        "solution": found.solution, "evaluation": found.evaluation, "waiting": found.waiting, "trouble": found.trouble,
        "rounds": len(found.comparison.rounds) if found.comparison else 0,
        "verdict": versus.verdict_of(found.comparison) if found.comparison else None,
        "plainly": versus.plainly(found.comparison, "the current solution") if found.comparison else "",
    }


def _merge_weighs(replaces: dict[str, Any] | None) -> tuple[str, ...]:
    """What a merge is warned of being slower than. An A/B comparison says it of the solution better than two runs."""
    compared = replaces is not None and replaces["verdict"] is not None
    return (rivals.BASELINE,) if compared else (rivals.SOLUTION, rivals.BASELINE)


def _outcome(listed: list[Evaluation]) -> Evaluation | None:
    """The newest measurement with a result, else that it was compiled; a duplicate stands for what it points at."""
    for kind in (Evaluation.Kind.MEASURE, Evaluation.Kind.COMPILE):
        for evaluation in listed:
            if evaluation.kind != kind:
                continue
            if evaluation.state == Evaluation.State.DONE:
                return evaluation
            if evaluation.duplicate_of is not None and evaluation.duplicate_of.state == Evaluation.State.DONE:
                return evaluation.duplicate_of
    return None


def _change_context(request: HttpRequest, attempt: Attempt, solution: Solution | None) -> dict[str, Any]:
    if solution is not None and solution.attempt_id == attempt.pk:
        solution = None
    wanted = request.GET.get("against", "parent")
    wanted = wanted if wanted in DIFF_BASES else "parent"
    layout = request.GET.get("diff", "unified")
    base: str | None = None
    if wanted == "solution" and solution is not None:
        base = solution.attempt.commit
    elif wanted == "parent":
        base = sources.git_parent(attempt)
    files, files_note = sources.kernel_files(attempt)
    return {
        "solution": solution, "against": wanted, "layout": layout if layout in sources.DIFF_LAYOUTS else "unified",
        "base": base, "diff": None if wanted == "solution" and solution is None
        else sources.kernel_diff(base, attempt),
        "files": files, "files_note": files_note,
    }


def _handoff_context(attempt: Attempt) -> dict[str, Any]:
    return {
        "body": text.block(attempt.body, characters=20_000, lines=400),
        "hypothesis": text.block(attempt.hypothesis, characters=4_000, lines=60),
        "lineage": _lineage(attempt), "children": _children(attempt),
        "position": Attempt.objects.filter(
            problem=attempt.problem, language=attempt.language, kind=attempt.kind, received_at__lte=attempt.received_at
        ).count(),
    }


def _lineage(attempt: Attempt) -> list[Attempt]:
    """The attempts this one was built on, nearest first; at most LINEAGE, one query each level of a few hundred."""
    chain: list[int] = []
    parents = dict(
        Attempt.objects.filter(problem=attempt.problem_id, language=attempt.language, pk__lt=attempt.pk)
        .order_by("-pk").values_list("pk", "parent_id")[:5_000]
    ) if attempt.parent_id else {}
    current = attempt.parent_id
    while current and len(chain) < LINEAGE and current not in chain:
        chain.append(current)
        current = parents.get(current)
    found = {row.pk: row for row in queries.listed(queries.with_outcome(Attempt.objects.filter(pk__in=chain)))}
    return [found[pk] for pk in chain if pk in found]


def _children(attempt: Attempt) -> list[Attempt]:
    return list(queries.listed(queries.with_outcome(attempt.children.all())).order_by("received_at")[:LINEAGE])

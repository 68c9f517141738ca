"""Attempts: the filterable list, one attempt with everything known about it, and two attempts compared."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from agentcore.judge.compare import Comparison
from agentcore.vocabulary import HardwareName, Language
from portal.attempts.models import Attempt
from portal.evaluations import comparisons, sanitizing, scores
from portal.evaluations.models import Evaluation
from portal.pages import evidence, listings, live, queries, sanitizers, sources, tables, text
from portal.pages.access import may_review
from portal.pages.filters import AttemptFilter
from portal.pages.tables import Column, Table
from portal.solutions import publishing
from portal.solutions.models import Solution

LINEAGE = 30
DIFF_LAYOUTS = ("unified", "split")
DIFF_BASES = ("parent", "solution", "nothing")


def attempt_list(request: HttpRequest) -> HttpResponse:
    filtered = AttemptFilter(request.GET, queryset=queries.listed(queries.with_outcome(Attempt.objects.all())))
    rows = filtered.qs if filtered.form.is_valid() else Attempt.objects.none()
    sort = request.GET.get("sort", "")
    rows = queries.ordered(rows, sort, listings.ATTEMPT_ORDER, ("-received_at", "-pk"))
    page = tables.paginated(request, rows)
    table = listings.attempts(
        rows, caption=f"{page.paginator.count:,} attempts", page=page, sort=sort or "-received_at", sortable=True,
        query=request.GET, empty=(
            "No attempt matches these filters." if filtered.form.changed_data
            else "No attempt yet. Agents push branches to attempts.git; the protocol says how."
        ),
    )
    context = {"title": "Attempts", "table": table, "form": filtered.form}
    return tables.respond(request, "attempts/list.html", context, table)


def attempt_detail(request: HttpRequest, commit: str) -> HttpResponse:
    attempt = get_object_or_404(
        Attempt.objects.select_related("problem", "agent", "campaign", "parent__agent"), commit=commit
    )
    evaluations = attempt.evaluations.all()
    # A duplicate of an evaluation that still runs waits for that one.
    watched = live.watch(Evaluation.objects.filter(Q(attempt=attempt) | Q(pk__in=evaluations.values("duplicate_of"))))
    if (same := live.unchanged(request, watched)) is not None:
        return same
    listed = list(evaluations.select_related("duplicate_of__attempt").defer("duplicate_of__result"))
    newest = listed[0] if listed else None
    shown = _outcome(listed)
    found = evidence.gather(shown) if shown else None
    context: dict[str, Any] = {
        "title": text.label(attempt.subject, 100) or attempt.commit[:10], "attempt": attempt, "live": watched,
        "newest": newest, "shown": shown, "evidence": found,
        "duplicate": next((e for e in listed if e.state == Evaluation.State.DUPLICATE), None),
        "evaluations": listings.evaluations(listed, without=("reason",), empty="No evaluation was asked for yet."),
        "sanitizers": _sanitizers(attempt, shown),
        "may_review": may_review(request.user), "obstacles": _obstacles(request, attempt, shown),
        "rerun_on": [] if shown or watched.is_busy else [member.value for member in HardwareName],
        "reviews": list(attempt.reviews.select_related("evaluation")),
        "published": list(attempt.solutions.all()),
    }
    exported = found.tables if found else []
    exported.append(context["evaluations"])
    if context["sanitizers"] and context["sanitizers"].found:
        exported.append(context["sanitizers"].found.findings)
    if not request.headers.get("HX-Request") and not request.GET.get("format"):
        context |= _change_context(request, attempt, newest.hardware if newest else None)
        context |= _handoff_context(attempt)
    return tables.respond(request, "attempts/detail.html", context, *exported, fragment="attempts/_outcome.html")


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


def _change_context(request: HttpRequest, attempt: Attempt, hardware: str | None) -> dict[str, Any]:
    current = Solution.objects.filter(problem=attempt.problem, language=attempt.language, superseded_at__isnull=True)
    if hardware:
        current = current.filter(hardware=hardware)
    solution = current.exclude(attempt=attempt).select_related("attempt").first()
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
        "solution": solution, "against": wanted, "layout": layout if layout in DIFF_LAYOUTS else "unified",
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


def compare(request: HttpRequest) -> HttpResponse:
    """Two attempts, ?a= the earlier and ?b= the later, by commit (a unique beginning will do)."""
    pair = {side: _by_commit(request.GET.get(side, "")) for side in ("a", "b")}
    context: dict[str, Any] = {"title": "Compare two attempts", "a": pair["a"][0], "b": pair["b"][0],
                               "asked": {side: text.label(request.GET.get(side, ""), 60) for side in pair},
                               "troubles": [trouble for _, trouble in pair.values() if trouble]}
    exported: list[Table] = []
    old, new = context["a"], context["b"]
    if old is not None and new is not None:
        hardware = request.GET.get("hardware") or None
        before, after = scores.latest_evaluation(old, hardware), scores.latest_evaluation(new, hardware)
        context |= {"before": before, "after": after}
        if before is not None and after is not None:
            comparison = comparisons.compare(after, before)
            context["comparison"] = comparison
            context["table"] = _comparison_table(comparison)
            exported.append(context["table"])
        layout = request.GET.get("diff", "unified")
        context["layout"] = layout if layout in DIFF_LAYOUTS else "unified"
        if (old.problem_id, old.language) == (new.problem_id, new.language):
            context["diff"] = sources.kernel_diff(old.commit, new)
    return tables.respond(request, "attempts/compare.html", context, *exported)


def _by_commit(asked: str) -> tuple[Attempt | None, str]:
    asked = asked.strip().lower()
    if not asked:
        return None, ""
    if len(asked) < 6 or any(character not in "0123456789abcdef" for character in asked):
        return None, f"“{text.label(asked, 40)}” is not a commit: give at least six hexadecimal digits."
    found = list(Attempt.objects.select_related("problem", "agent").filter(commit__startswith=asked)[:2])
    if len(found) != 1:
        return None, f"{'More than one' if found else 'No'} attempt has a commit beginning with {asked[:40]}."
    return found[0], ""


def _comparison_table(comparison: Comparison) -> Table:
    columns = [
        Column("index", "#", lambda w: w.index, numeric=True),
        Column("axes", "workload", lambda w: w.axes, tables.axes, css="grow"),
        Column("a_us", "A (µs)", lambda w: w.old_us, tables.microseconds, numeric=True, term="latency"),
        Column("b_us", "B (µs)", lambda w: w.new_us, tables.microseconds, numeric=True, term="latency"),
        Column("ratio", "A / B", lambda w: w.ratio, tables.times, numeric=True, term="speedup"),
        Column("interval", "interval", lambda w: f"{w.low:.3f}–{w.high:.3f}", lambda v, _: v, numeric=True,
               term="interval", css="soft"),
        Column("change", "change", lambda w: w.change.value, tables.badge, term="unproven"),
    ]
    return Table("comparison", "Per workload: above 1× B is faster", columns, comparison.workloads,
                 empty="There is nothing to compare: both attempts need a passed evaluation with workloads in common.")



"""Problems: the list over all tracks, and one problem with its history in one track."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.db.models import Count, Q, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse

from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations import scores
from portal.evaluations.baselines import Verified, verified_baselines
from portal.evaluations.history import running_best
from portal.evaluations.models import Evaluation
from portal.pages import (
    baselines,
    bounds,
    charts,
    formatting,
    highlighting,
    listings,
    live,
    proofs,
    queries,
    tables,
    text,
)
from portal.pages.filters import ProblemFilter
from portal.pages.queries import Track, TrackSummary
from portal.pages.rescoring import pending
from portal.pages.tables import Column, Table
from portal.pages.verdicts import look
from portal.problems.models import Problem, Workload
from portal.solutions.models import Solution

WORKLOADS_SHOWN = 100


def problem_list(request: HttpRequest) -> HttpResponse:
    form = ProblemFilter(request.GET)
    chosen = form.cleaned_data if form.is_valid() else {}
    rows = _rows(chosen)
    columns = _list_columns()
    sort = request.GET.get("sort", "")
    ordered = tables.sorted_rows(rows, columns, sort) if sort else rows
    table = Table(
        "problems", f"{formatting.counted(len(rows), 'row')}: one per problem, language and hardware", columns, ordered,
        sort=sort, sortable=True, query=request.GET, page=tables.paginated(request, ordered, 200), empty=(
            "No problem matches these filters." if any(chosen.values())
            else "No problem yet. manage.py importproblems reads the problems directory."
        ),
    )
    return tables.respond(request, "list.html", {"title": "Problems", "table": table, "form": form}, table)


def _rows(chosen: dict[str, Any]) -> list[tuple[Problem, TrackSummary | None]]:
    problems = Problem.objects.defer("definition", "reference", "brief").filter(is_active=True)
    for word in (chosen.get("q") or "").split()[:8]:
        problems = problems.filter(Q(name__icontains=word) | Q(description__icontains=word))
    attempt_filter: dict[str, Any] = {}
    if campaign := chosen.get("campaign"):
        problems = problems.filter(campaigns=campaign)
        attempt_filter["campaign"] = campaign
    if chosen.get("language"):
        attempt_filter["language"] = chosen["language"]
    by_problem: dict[int, list[TrackSummary]] = {}
    for (problem_id, track), summary in sorted(queries.track_summaries(**attempt_filter).items()):
        if not chosen.get("hardware") or track.hardware == chosen["hardware"]:
            by_problem.setdefault(problem_id, []).append(summary)
    rows: list[tuple[Problem, TrackSummary | None]] = []
    for problem in problems.distinct().order_by("name"):
        rows += [(problem, summary) for summary in by_problem.get(problem.pk, [None])]
    standing = chosen.get("standing")
    if standing:
        rows = [row for row in rows if _standing(row[1]) == standing]
    return rows


def _standing(summary: TrackSummary | None) -> str:
    if summary is None or summary.best is None:
        return "unsolved"
    return "faster" if (summary.best.speedup or 0) > 1 else "slower"


def _list_columns() -> list[Column]:
    def of(field: str) -> Any:
        return lambda row: getattr(row[1], field) if row[1] else None

    def of_best(field: str) -> Any:
        return lambda row: getattr(row[1].best, field) if row[1] and row[1].best else None

    def url(row: tuple[Problem, TrackSummary | None]) -> str:
        query = f"?language={row[1].track.language}&hardware={row[1].track.hardware}" if row[1] else ""
        return row[0].get_absolute_url() + query

    def to_evaluation(row: tuple[Problem, TrackSummary | None]) -> str | None:
        return row[1].best.get_absolute_url() if row[1] and row[1].best else None

    return [
        Column("problem", "problem", lambda r: r[0].name, link=url, order="name", css="name"),
        Column("title", "what it computes", lambda r: r[0].description or r[0].title, css="grow", order="title",
               show=lambda v, _: tables.clamped(v)),
        Column("language", "language", lambda r: r[1].track.language if r[1] else None, order="language"),
        Column("hardware", "hardware", lambda r: r[1].track.hardware if r[1] else None, order="hardware"),
        Column("sol_score", "best S", of_best("sol_score"), tables.score, numeric=True, order="s", term="sol-score",
               link=to_evaluation),
        Column("speedup", "speedup", of_best("speedup"), tables.times, numeric=True, order="x", term="speedup",
               link=to_evaluation),
        # 1 − S: in the exports, and to sort by.
        Column("headroom", "headroom", of("headroom"), tables.score, numeric=True, order="h", visible=False),
        Column("latency_us", "latency (µs)", of_best("latency_geomean_us"), tables.microseconds, numeric=True,
               order="t", term="latency", link=to_evaluation),
        Column("attempts", "attempts", of("attempts"), numeric=True, order="n"),
        Column("passed", "passed", of("passed"), numeric=True, order="p"),
        Column("last_attempt_at", "last attempt (UTC)", of("last_at"), order="l", css="nowrap least"),
    ]


def problem_detail(request: HttpRequest, name: str) -> HttpResponse:
    problem = get_object_or_404(Problem, name=name)
    tracks = queries.tracks_of(problem.pk)
    track = _chosen_track(request, tracks)
    context: dict[str, Any] = {"title": problem.name, "problem": problem, "tracks": tracks, "track": track}
    context["instead"] = _instead(request, track)
    shown: list[Table] = []
    if track is not None:
        evaluations = Evaluation.objects.filter(
            attempt__problem=problem, attempt__language=track.language, hardware=track.hardware
        )
        rescoring = pending(
            campaign__problems=problem, campaign__hardware=track.hardware, campaign__language=track.language
        )
        watched = live.watch(evaluations, rescoring=rescoring)
        if (same := live.unchanged(request, watched)) is not None:
            return same
        context |= {"live": watched, "rescoring": rescoring}
    verified: dict[str, list[Verified]] = {}
    if track is not None:
        verified[track.hardware] = found = verified_baselines(problem, track.hardware)
        context |= _track_context(request, problem, track, shown, found)
    if not request.headers.get("HX-Request"):
        context |= _definition_context(request, problem) | _baseline_context(request, problem, track, verified)
        context["bounds"] = bounds.section(request, problem, track.hardware if track else "")
        shown += [context["workloads"], context["baselines"], context["baseline_workloads"]]
        shown += [context["bounds"].table] if context["bounds"].table else []
    return tables.respond(request, "problems/detail.html", context, *shown, fragment="problems/_track.html")


def _chosen_track(request: HttpRequest, tracks: list[Track]) -> Track | None:
    """The track the URL names, else the most recently attempted that agrees with as much of it as is given."""
    language, hardware = request.GET.get("language"), request.GET.get("hardware")
    fitting = [track for track in tracks if language in (None, "", track.language)
               and hardware in (None, "", track.hardware)]
    return fitting[0] if fitting else tracks[0] if tracks else None


def _instead(request: HttpRequest, track: Track | None) -> str:
    """What to say where the URL names a track that nothing was attempted in; nothing where it is the one shown."""
    language, hardware = request.GET.get("language") or "", request.GET.get("hardware") or ""
    if track is None or (language in ("", track.language) and hardware in ("", track.hardware)):
        return ""
    asked = " ".join([*([text.label(language, 20)] if language else []),
                      *([f"on {text.label(hardware, 20)}"] if hardware else [])])
    return f"Nothing was attempted {'in ' if language else ''}{asked} yet. Shown instead: {track}."


def _track_context(
    request: HttpRequest, problem: Problem, track: Track, shown: list[Table], verified: list[Verified]
) -> dict[str, Any]:
    history = charts.marks(running_best(problem, track.language, track.hardware))
    score_chart = charts.score_history(history)
    shown.append(score_chart.table)
    context: dict[str, Any] = {"history": history, "score_chart": score_chart if history else None}
    unmeasured = scores.unmeasured_counts(
        track.hardware, problem=problem, language=track.language, kind=Attempt.Kind.AGENT
    )
    best = scores.best_evaluation(problem, track.language, track.hardware)
    baseline = verified[0].evaluation if verified else None
    if best is not None:
        prefetch_related_objects([best], "workloads")
        rows = list(best.workloads.all())
        details = {(w.get("uuid", ""), bool(w.get("heldout"))): w for w in (best.result or {}).get("workloads", [])}
        table = listings.workloads(
            rows, details, evaluation=best, elsewhere=True, caption="Best attempt per workload", caption_hidden=True
        )
        table.name = "latency"
        context["latency_chart"] = charts.workload_latency([row for row in rows if not row.heldout], table)
        shown.append(table)
    outdated = sum(mark.point.verdict == "passed" and not mark.point.is_current for mark in history)
    attempts_url = (
        f"{reverse('attempt-list')}?problem={problem.name}&language={track.language}&hardware={track.hardware}"
    )
    solution = Solution.objects.filter(
        problem=problem, language=track.language, hardware=track.hardware, superseded_at__isnull=True
    ).select_related("attempt__agent").first()
    compared = proofs.of_track(problem.pk, track.language, track.hardware)
    table_of_proofs = proofs.table(compared, solution)
    if table_of_proofs is not None:
        shown.append(table_of_proofs)
    context |= {
        "best": best, "baseline": baseline, "solution": solution, "proofs": table_of_proofs,
        "best_proof": proofs.between(best.attempt, solution.attempt, compared) if best and solution else None,
        "stats": _stats(best, verified, history, unmeasured, attempts_url, outdated), "outdated": outdated,
        "unmeasured": _unmeasured(unmeasured),
        "attempts_url": attempts_url,
    }
    return context


def _unmeasured(counts: Counter[str]) -> str:
    """How the attempts ended that were never measured in this track, in words; nothing where there is none."""
    said = []
    if compiled := counts[Verdict.COMPILED.value]:
        said.append(f"{formatting.counted(compiled, 'attempt')} compiled without being measured")
    said += [
        f"{formatting.counted(count, 'attempt')} ended as {look(verdict).word}"
        for verdict, count in sorted(counts.items()) if verdict != Verdict.COMPILED.value
    ]
    return ", ".join(said)


def _stats(
    best: Evaluation | None, verified: list[Verified], history: list[charts.Mark], unmeasured: Counter[str],
    attempts_url: str, outdated: int,
) -> list[dict[str, str]]:
    """Every figure leads to what it comes from: the best evaluation, T_b per workload, the attempts counted.

    ``outdated`` is how many of the passed ones passed an earlier version of the problem.
    """
    best_url = best.get_absolute_url() if best else ""
    baseline_us = scores.baseline_geomean_us(best, verified)
    passed = sum(mark.point.verdict == "passed" for mark in history)
    proven = history[-1].point.best_sol_score if history else None
    note = "0.5 baseline, 1 limit"
    if best and best.sol_score is not None and proven is not None and proven < best.sol_score:
        note = f"{formatting.score(proven)} beyond noise"
    compiled = unmeasured[Verdict.COMPILED.value]
    improved = sum(mark.improvement == "new best" for mark in history)
    how_many = "all" if outdated == passed else f"{outdated:,}"
    earlier = f" ({how_many} of an earlier version of the problem)" if outdated else ""
    return [
        {"label": "best SOL score", "value": formatting.score(best and best.sol_score),
         "note": note, "term": "sol-score", "url": best_url},
        {"label": "speedup", "value": formatting.times(best and best.speedup), "note": "geometric mean of T_b / T_k",
         "term": "speedup", "url": best_url},
        {"label": "headroom", "value": formatting.score(1 - best.sol_score if best and best.sol_score is not None
                                                        else None), "note": "1 − S", "term": "headroom",
         "url": best_url},
        {"label": "baseline T_b", "value": formatting.microseconds(baseline_us),
         "note": _baseline_note(best, verified, baseline_us), "term": "baseline", "url": "#h-baseline-workloads"},
        {"label": "attempts", "value": f"{len(history) + unmeasured.total():,}",
         "note": f"{passed:,} passed{earlier}, {improved:,} improved"
                 + (f", {compiled:,} only compiled" if compiled else ""),
         "term": "attempt", "url": attempts_url},
    ]


def _baseline_note(best: Evaluation | None, verified: list[Verified], baseline_us: float | None) -> str:
    """What the figure is, and the fastest single baseline beside it where that is another figure."""
    if baseline_us is None:
        return "none verified yet"
    said = "geometric mean over workloads"
    alone = verified[0] if verified else None
    if alone is None or abs(alone.latency_us / baseline_us - 1) < 0.005:
        return said
    said += f" of the fastest of each; {baselines.alone(alone.kind)}: {formatting.microseconds(alone.latency_us)}"
    if best is not None and best.latency_geomean_us:
        said += f", {formatting.times(alone.latency_us / best.latency_geomean_us)}"
    return said


def _definition_context(request: HttpRequest, problem: Problem) -> dict[str, Any]:
    current = Workload.objects.filter(problem=problem, is_current=True)
    counts = Counter(dict(current.order_by().values_list("target").annotate(n=Count("id"))))
    # Held-out workloads are counted, never listed: whoever optimises must not see their axes.
    listed = current.exclude(target=Workload.Target.HELDOUT).order_by("target", "index")

    def target(workload: Workload) -> str:
        # Without a list of its own the CPU is given all of the others'.
        every = workload.target == Workload.Target.GPU and not counts[Workload.Target.CPU.value]
        return "GPU and CPU" if every else workload.get_target_display()

    page = tables.paginated(request, listed, WORKLOADS_SHOWN, "workloads_page")
    page.object_list = list(page.object_list)
    definition = problem.definition if isinstance(problem.definition, dict) else {}
    columns = [
        Column("target", "target", target),
        Column("index", "#", lambda w: w.index, numeric=True),
        Column("axes", "axes", lambda w: w.axes, tables.axes, css="grow"),
        Column("tolerance", "tolerance", lambda w: w.tolerance,
               lambda v, _: _tolerance(v), link=lambda _: f"{reverse('glossary')}#tolerance", term="tolerance"),
        Column("uuid", "uuid", lambda w: w.uuid, tables.code),
    ]
    if problem.official_source or any(w.official_sol_us is not None for w in page.object_list):
        columns[3:3] = [
            Column("official_sol_us", "official T_SOL (µs)", lambda w: w.official_sol_us, tables.microseconds,
                   numeric=True, term="official"),
            Column("official_baseline_us", "official T_b (µs)", lambda w: w.official_baseline_us,
                   tables.microseconds, numeric=True, term="official"),
        ]
    return {
        "brief": highlighting.markdown(problem.brief) if problem.brief else "",
        "reference": highlighting.code(problem.reference, "reference.py") if problem.reference else "",
        "definition_json": highlighting.code(
            json.dumps({k: v for k, v in definition.items() if k != "reference"}, indent=2, ensure_ascii=False),
            "definition.json"),
        "signature": _signature(definition),
        "workloads": Table(
            "workloads", "Workloads", columns, listed, caption_hidden=True, page=page, page_key="workloads_page",
            query=request.GET, empty="This problem has no workloads.",
        ),
        "heldout": counts[Workload.Target.HELDOUT.value],
    }


def _tolerance(values: Any) -> str:
    """``atol 0.01, rtol 0.016, 99.9 % within``; what is not given is left out."""
    if not isinstance(values, dict):
        return "default"
    parts = [f"{word} {values[key]:g}" for key, word in
             (("max_atol", "atol"), ("max_rtol", "rtol"), ("max_error_cap", "never above"))
             if isinstance(values.get(key), int | float)]
    if isinstance(share := values.get("required_matched_ratio"), int | float):
        parts.append(f"{share * 100:g} % within")
    if values.get("allow_negative_inf"):
        parts.append("−inf allowed")
    return ", ".join(parts) or "default"


def _signature(definition: dict[str, Any]) -> list[dict[str, str]]:
    """Axes, inputs and outputs, as rows of words."""
    rows: list[dict[str, str]] = []
    for name, axis in (definition.get("axes") or {}).items():
        axis = axis if isinstance(axis, dict) else {}
        value = axis.get("value", axis.get("expression", "varies"))
        rows.append({"role": "axis", "name": str(name), "type": str(axis.get("type", "")), "shape": str(value),
                     "description": str(axis.get("description") or "")})
    for role in ("inputs", "outputs"):
        for name, spec in (definition.get(role) or {}).items():
            spec = spec if isinstance(spec, dict) else {}
            shape = spec.get("shape")
            rows.append({
                "role": role[:-1], "name": str(name), "type": str(spec.get("dtype", "")),
                "shape": "scalar" if shape is None else "[" + ", ".join(map(str, shape)) + "]",
                "description": str(spec.get("description") or ""),
            })
    return rows


def _baseline_context(
    request: HttpRequest, problem: Problem, track: Track | None, verified: dict[str, list[Verified]]
) -> dict[str, Any]:
    """The baselines on the hardware that ``?baselines=`` names, else on the track's; ``verified`` is what is known."""
    wanted = request.GET.get("baselines", "")
    hardware, choice = baselines.hardware_of(problem, wanted, track.hardware if track else "")
    found = verified[hardware] if hardware in verified else verified_baselines(problem, hardware)
    return {
        "baseline_hardware": hardware, "baseline_choice": choice,
        "baselines": baselines.kinds_table(problem, hardware, found),
        "baseline_workloads": baselines.workloads_table(problem, hardware, found),
        "baseline_rules": baselines.rules(problem, hardware),
    }

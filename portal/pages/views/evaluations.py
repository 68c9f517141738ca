"""One evaluation in full, whatever superseded it since."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404

from portal.evaluations.models import Evaluation
from portal.pages import baselines, evidence, live, tables
from portal.pages.access import may_review
from portal.pages.rescoring import pending

SCORES_SHOWN = 200


def evaluation_detail(request: HttpRequest, pk: int) -> HttpResponse:
    evaluation = get_object_or_404(
        Evaluation.objects.select_related("attempt__problem", "attempt__agent", "against", "duplicate_of__attempt",
                                          "baseline", "requested_by")
        .defer("baseline__result", "duplicate_of__result"), pk=pk
    )
    # ?format=json is the whole record as the judge wrote it; ?format=csv the per-workload table.
    if request.GET.get("format") == "json" and not request.GET.get("table") and evaluation.result is not None:
        return JsonResponse(evaluation.result, json_dumps_params={"indent": 1}, safe=False)
    rescoring = pending(campaign=evaluation.attempt.campaign_id) if evaluation.attempt.campaign_id else []
    watched = live.watch(Evaluation.objects.filter(pk=pk), rescoring=rescoring)
    if (same := live.unchanged(request, watched)) is not None:
        return same
    found = evidence.gather(evaluation)
    # What was compiled only may have been measured since.
    kinds = {evaluation.kind, *([Evaluation.Kind.MEASURE] if evaluation.kind == Evaluation.Kind.COMPILE else [])}
    newer = (
        Evaluation.objects.filter(attempt=evaluation.attempt, hardware=evaluation.hardware, kind__in=kinds,
                                  state=Evaluation.State.DONE, finished_at__gt=evaluation.finished_at)
        .order_by("-finished_at").only("id", "kind").first() if evaluation.finished_at else None
    )
    context = {
        "title": f"Evaluation {pk}", "evaluation": evaluation, "attempt": evaluation.attempt, "evidence": found,
        "shown": evaluation, "live": watched, "rescoring": rescoring, "newer": newer,
        "may_review": may_review(request.user),
    }
    shown = list(found.tables)
    if not request.headers.get("HX-Request"):
        context["score_history"] = history = baselines.score_history(list(evaluation.scores.all()[:SCORES_SHOWN]))
        shown += [history] if history else []
    return tables.respond(request, "evaluations/detail.html", context, *shown,
                          fragment="evaluations/_body.html")

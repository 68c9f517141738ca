"""What a reviewer may do: review, merge, ask for another evaluation. POST only; the outcome is a message.

The rules are portal.solutions.publishing and portal.evaluations.queue; here they are only called and reported.
"""

from __future__ import annotations

import logging

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect

from agentcore.gitstore import GitStoreError
from agentcore.vocabulary import HardwareName
from portal.attempts.models import Attempt
from portal.evaluations import queue, sanitizing
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.pages import text
from portal.pages.access import reviewer_action
from portal.solutions import publishing, replacing
from portal.solutions.models import Review

logger = logging.getLogger(__name__)
_DONE = {
    Review.Decision.APPROVED: "Approved.", Review.Decision.REJECTED: "Rejected.", Review.Decision.COMMENT: "Noted.",
}


@reviewer_action
def attempt_review(request: HttpRequest, commit: str) -> HttpResponse:
    attempt = get_object_or_404(Attempt.objects.select_related("problem"), commit=commit)
    try:
        review = publishing.review(
            attempt, request.user, request.POST.get("decision", ""), request.POST.get("comment", ""),
            _named_evaluation(request),
        )
    except publishing.PublishingError as error:
        messages.error(request, f"Not recorded: {text.label(error)}.")
    else:
        messages.success(request, _DONE[Review.Decision(review.decision)])
    return _back(attempt, "review")


@reviewer_action
def attempt_merge(request: HttpRequest, commit: str) -> HttpResponse:
    attempt = get_object_or_404(Attempt.objects.select_related("problem", "agent", "campaign"), commit=commit)
    evaluation = _named_evaluation(request)
    if evaluation is None:
        messages.error(request, "Not merged: name the evaluation that the merge rests on.")
        return _back(attempt, "review")
    try:
        solution = publishing.merge(
            attempt, evaluation, request.user, acknowledged=request.POST.get("acknowledged") == "on"
        )
    except publishing.PublishingError as error:
        messages.error(request, f"Not merged: {text.label(error)}.")
    except GitStoreError as error:
        logger.exception("merging %s failed", attempt.commit)
        messages.error(request, f"Not merged, nothing has changed: {text.label(error)}")
    else:
        messages.success(
            request, f"Merged as {solution.commit[:10]}: the solution of {attempt.problem.name} in {attempt.language} "
                     f"on {solution.hardware}."
        )
    return _back(attempt, "review")


@reviewer_action
def attempt_side_by_side(request: HttpRequest, commit: str) -> HttpResponse:
    """Ask for the A/B comparison with the current solution on one hardware."""
    attempt = get_object_or_404(Attempt.objects.select_related("problem"), commit=commit)
    hardware = request.POST.get("hardware", "")
    evaluation = None
    if hardware in [member.value for member in HardwareName]:
        evaluation = replacing.ask(attempt, hardware, request.user)
    if evaluation is None:
        messages.error(request, f"Not queued: there is no other kernel to replace on “{text.label(hardware, 30)}”.")
    else:
        messages.success(request, f"Comparison {evaluation.pk} is queued on {hardware}, before agents' attempts.")
    return _back(attempt, "review")


@reviewer_action
def evaluation_rerun(request: HttpRequest, pk: int) -> HttpResponse:
    evaluation = get_object_or_404(
        Evaluation.objects.select_related("attempt__problem").defer("result", "message"), pk=pk
    )
    if evaluation.kind == Evaluation.Kind.SANITIZE:
        return _sanitize(request, evaluation.attempt, evaluation.hardware)
    return _rerun(request, evaluation.attempt, evaluation.hardware, f"rerun of evaluation {pk}")


@reviewer_action
def attempt_rerun(request: HttpRequest, commit: str) -> HttpResponse:
    """The first evaluation of an attempt on a hardware, or another one."""
    attempt = get_object_or_404(Attempt.objects.select_related("problem"), commit=commit)
    hardware = request.POST.get("hardware", "")
    if hardware not in [member.value for member in HardwareName]:
        messages.error(request, f"Not queued: “{text.label(hardware, 30)}” is no hardware.")
        return _back(attempt, "outcome")
    return _rerun(request, attempt, hardware, "asked for")


@reviewer_action
def attempt_sanitize(request: HttpRequest, commit: str) -> HttpResponse:
    """Have sanitizers look at an attempt's kernel on a hardware."""
    attempt = get_object_or_404(Attempt.objects.select_related("problem"), commit=commit)
    hardware = request.POST.get("hardware", "")
    if hardware not in [member.value for member in HardwareName]:
        messages.error(request, f"Not queued: “{text.label(hardware, 30)}” is no hardware.")
        return _back(attempt, "sanitizers")
    return _sanitize(request, attempt, hardware)


def _sanitize(request: HttpRequest, attempt: Attempt, hardware: str) -> HttpResponse:
    run, new = sanitizing.request(attempt, hardware, request.user, "sanitizers, asked for")
    if new:
        messages.success(request, f"Sanitizer run {run.pk} is queued on {hardware}, before agents' attempts.")
    else:
        messages.info(request, f"A sanitizer run on {hardware} is already {run.state}.")
    return _back(attempt, "sanitizers")


@reviewer_action
def attempt_acknowledge(request: HttpRequest, commit: str) -> HttpResponse:
    """Take responsibility for what a sanitizer run found, with a reason."""
    attempt = get_object_or_404(Attempt.objects.select_related("problem"), commit=commit)
    run = _named_evaluation(request)
    if run is None:
        messages.error(request, "Not recorded: name the sanitizer run that this is about.")
        return _back(attempt, "review")
    try:
        publishing.acknowledge(attempt, run, request.user, request.POST.get("reason", ""))
    except publishing.PublishingError as error:
        messages.error(request, f"Not recorded: {text.label(error)}.")
    else:
        messages.success(request, "Recorded, with your name and reason.")
    return _back(attempt, "review")


def _rerun(request: HttpRequest, attempt: Attempt, hardware: str, reason: str) -> HttpResponse:
    wanted = attempt.evaluations.filter(hardware=hardware, kind=Evaluation.Kind.MEASURE, state__in=Evaluation.PENDING)
    if (waiting := wanted.order_by("id").first()) is not None:
        if queue.let_go_on(waiting, request.user):
            messages.success(request, f"Evaluation {waiting.pk} no longer waits for its paused campaign.")
        else:
            messages.info(request, f"An evaluation on {hardware} is already queued or running.")
        return _back(attempt, "outcome")
    again = queue.enqueue(
        attempt, hardware, priority=Evaluation.Priority.RERUN, reason=reason, requested_by=request.user
    )
    log_event("evaluation.rerun", request.user, attempt=attempt, evaluation=again, problem=attempt.problem,
              hardware=hardware, reason=reason)
    messages.success(request, f"Evaluation {again.pk} is queued on {hardware}, before agents' attempts.")
    return _back(attempt, "outcome")


def _named_evaluation(request: HttpRequest) -> Evaluation | None:
    number = request.POST.get("evaluation", "")
    if not number.isdecimal() or len(number) > 18:
        return None
    return Evaluation.objects.select_related("attempt").filter(pk=int(number)).first()


def _back(attempt: Attempt, anchor: str) -> HttpResponseRedirect:
    return redirect(f"{attempt.get_absolute_url()}#{anchor}")

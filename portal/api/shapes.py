"""What each row looks like in JSON: the documented fields, in one place.

Texts that agents wrote (subjects, bodies, logs, messages) are passed on as they are, bounded: whoever shows them
escapes them. Held-out workloads keep their axes and messages to themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem

BODY_LIMIT = 20_000
LOG_LIMIT = 20_000
_STAMP_FIELDS = (
    "hardware", "device_uuid", "device_name", "driver", "cuda", "torch", "compiler", "sandbox", "harness_version",
    "threads", "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w", "throttle_reasons", "canary_us",
    "host_load", "foreign_processes", "disturbances",
)


def page(name: str, *args: Any) -> str:
    """The absolute address of a page of the portal, or "" where that page does not exist."""
    try:
        return settings.PUBLIC_URL + reverse(name, args=args)
    except NoReverseMatch:
        return ""


def problem_summary(problem: Problem, best: Iterable[Evaluation] = ()) -> dict[str, Any]:
    return {
        "name": problem.name,
        "title": problem.title,
        "description": problem.description,
        "digest": problem.digest,
        "active": problem.is_active,
        "best": [
            {"language": e.attempt.language, "commit": e.attempt.commit, **evaluation_summary(e)} for e in best
        ],
        "url": page("problem-detail", problem.name),
    }


def problem_detail(problem: Problem, best: Iterable[Evaluation]) -> dict[str, Any]:
    workloads = [w for w in problem.workloads.all() if w.is_current]
    return {
        **problem_summary(problem, best),
        "definition": problem.definition,
        "reference": problem.reference,
        "brief": problem.brief,
        "workloads": [
            {
                "target": w.target, "index": w.index, "uuid": w.uuid, "axes": w.axes, "tolerance": w.tolerance,
                "official_sol_us": w.official_sol_us, "official_baseline_us": w.official_baseline_us,
            }
            for w in workloads
            if w.target != "heldout"
        ],
        "source": problem.source,
        "original_name": problem.original_name or problem.name,
        "official": {"source": problem.official_source, "hardware": problem.official_hardware}
        if problem.official_source else None,
        "heldout_workloads": sum(w.target == "heldout" for w in workloads),
    }


def attempt_summary(attempt: Attempt, evaluation: Evaluation | None) -> dict[str, Any]:
    """``evaluation`` is the one that speaks for the attempt: its standing one, or the newest while there is none."""
    return {
        "commit": attempt.commit,
        "ref": attempt.ref,
        "problem": attempt.problem.name,
        "language": attempt.language,
        "agent": attempt.agent.name,
        "slug": attempt.slug,
        "kind": attempt.kind,
        "parent": attempt.parent.commit if attempt.parent else None,
        "campaign": attempt.campaign.name if attempt.campaign else None,
        "subject": attempt.subject,
        "body": attempt.body[:BODY_LIMIT],
        "hypothesis": attempt.hypothesis,
        "model": attempt.model,
        "kernel_tree": attempt.kernel_tree,
        "authored_at": attempt.authored_at.isoformat(),
        "received_at": attempt.received_at.isoformat(),
        "evaluation": evaluation_summary(evaluation) if evaluation else None,
        "url": page("attempt-detail", attempt.commit),
    }


def attempt_detail(attempt: Attempt, evaluations: list[Evaluation]) -> dict[str, Any]:
    """``evaluations`` newest first, with their results."""
    return {
        **attempt_summary(attempt, speaking_evaluation(evaluations)),
        "evaluations": [evaluation_detail(evaluation) for evaluation in evaluations],
    }


def speaking_evaluation(evaluations: Iterable[Evaluation]) -> Evaluation | None:
    """Of an attempt's evaluations (newest first): the newest finished one, `infra_error` aside, else the newest.

    A measurement speaks before anything else; where there is none, whether it compiles is still worth saying.
    """
    speaking = (Evaluation.Kind.MEASURE, Evaluation.Kind.COMPILE)
    live = sorted(
        (e for e in evaluations if e.state != Evaluation.State.CANCELLED and e.kind in speaking),
        key=lambda e: speaking.index(e.kind),
    )
    for evaluation in live:
        verdict = _measured(evaluation).verdict
        if verdict and verdict != Verdict.INFRA_ERROR.value:
            return evaluation
    return live[0] if live else None


def evaluation_summary(evaluation: Evaluation) -> dict[str, Any]:
    """A duplicate carries the outcome of the evaluation it points at, and says which that is."""
    measured = _measured(evaluation)
    return {
        "id": evaluation.pk,
        "hardware": evaluation.hardware,
        "kind": evaluation.kind,
        "against": evaluation.against.commit if evaluation.against else None,
        "state": evaluation.state,
        "verdict": measured.verdict or None,
        "message": measured.waits or measured.message,
        "duplicate_of": evaluation.duplicate_of_id,
        "duplicate_of_commit": evaluation.duplicate_of.attempt.commit if evaluation.duplicate_of else None,
        "reason": evaluation.reason,
        "queued_at": evaluation.queued_at.isoformat(),
        "started_at": measured.started_at.isoformat() if measured.started_at else None,
        "finished_at": measured.finished_at.isoformat() if measured.finished_at else None,
        "harness_version": measured.harness_version,
        "problem_digest": measured.problem_digest,
        "latency_geomean_us": measured.latency_geomean_us,
        "speedup": measured.speedup,
        "sol_score": measured.sol_score,
        "url": page("evaluation-detail", evaluation.pk),
    }


def evaluation_detail(evaluation: Evaluation) -> dict[str, Any]:
    measured = _measured(evaluation)
    result = measured.result or {}
    recorded = result.get("workloads") or []
    scores = {(row.uuid, row.heldout): row for row in measured.workloads.all()}
    checks = [{**check, "workload": None} for check in result.get("checks") or []]
    workloads = []
    for workload in recorded:
        heldout = bool(workload.get("heldout"))
        row = scores.get((workload.get("uuid"), heldout))
        own = [] if heldout else workload.get("checks") or []
        checks += [{**check, "workload": workload.get("index")} for check in own]
        if heldout:
            checks += [
                {"name": check.get("name"), "status": check.get("status"), "message": "", "workload": "held out"}
                for check in workload.get("checks") or []
                if check.get("status") == "fail"
            ]
        workloads.append(
            {
                "index": None if heldout else workload.get("index"),
                "uuid": workload.get("uuid"),
                "heldout": heldout,
                "axes": {} if heldout else workload.get("axes"),
                "verdict": workload.get("verdict"),
                "message": "" if heldout else workload.get("message"),
                "latency_us": workload.get("latency_us"),
                "latency_low_us": workload.get("latency_low_us"),
                "latency_high_us": workload.get("latency_high_us"),
                "timing_method": workload.get("timing_method"),
                "calls": workload.get("calls"),
                "max_abs_error": workload.get("max_abs_error"),
                "max_rel_error": workload.get("max_rel_error"),
                "matched_ratio": workload.get("matched_ratio"),
                "t_sol_us": row.t_sol_us if row else None,
                "limiter": (workload.get("bound") or {}).get("limiter"),
                "baseline_us": row.baseline_us if row else None,
                "baseline_kind": (row.baseline_kind or None) if row else None,
                "baseline_evaluation": row.baseline_id if row else None,
                "sol_score": row.sol_score if row else None,
            }
        )
    build = result.get("build")
    if build:
        build = {**build, "log": str(build.get("log", ""))[:LOG_LIMIT]}
    stamp = result.get("stamp") or {}
    return {
        **evaluation_summary(evaluation),
        "checks": checks,
        "workloads": workloads,
        "build": build,
        "comparison": result.get("comparison"),
        "stamp": {name: stamp.get(name) for name in _STAMP_FIELDS if name in stamp},
        "seconds": result.get("seconds") or {},
        "runner_log": str(result.get("runner_log", ""))[-LOG_LIMIT:],
    }


def _measured(evaluation: Evaluation) -> Evaluation:
    return evaluation.duplicate_of or evaluation

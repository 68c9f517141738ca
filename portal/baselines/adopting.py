"""An existing attempt as a problem's baseline "optimised by a single agent": checked, committed on its branch, logged.

The commit repeats the attempt's files on the branch of the agent ``baseline`` and names where they come from. Where the
same program was measured already, that measurement counts. Not for queueing: see measuring.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from django.conf import settings

from agentcore.baselines import BaselineKind
from agentcore.gitstore import AttemptsRepository
from agentcore.vocabulary import AttemptRef, Language, Verdict
from portal.agents.models import Agent
from portal.attempts.models import Attempt
from portal.baselines.measuring import BASELINE_AGENT
from portal.evaluations import scores
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.solutions.models import Review

SHORTEST_PREFIX = 7


class CannotAdopt(ValueError):
    """The attempt cannot be this baseline. The message says why and what to do."""


def adopt(named: str, kind: BaselineKind, problems: Collection[str] = (), actor="system") -> Attempt:
    """Commit the attempt that ``named`` names as its problem's baseline of ``kind``; returns the attempt it was.

    ``named`` is a commit (seven digits or more) or an attempt's branch, whose newest attempt is meant. ``problems``
    are names it must be of; none given, any. Doing it twice changes nothing. Raises CannotAdopt, and GitStoreError
    where the repository refuses.
    """
    attempt = _found(named)
    evaluation = _verified(attempt, kind, problems)
    if (evaluation.stamp or {}).get("sandbox") in (None, "", "none"):
        raise CannotAdopt(
            f"evaluation {evaluation.pk} ran without a sandbox, so nothing an agent's program says there can be trusted"
        )
    rejected = attempt.reviews.exclude(decision=Review.Decision.COMMENT).order_by("-created_at", "-id").first()
    if rejected is not None and rejected.decision == Review.Decision.REJECTED:
        raise CannotAdopt(f"{attempt.commit[:10]} of {attempt.agent.name} was rejected by {rejected.reviewer_name}")
    agent, _ = Agent.objects.get_or_create(name=BASELINE_AGENT, defaults={"kind": Agent.Kind.BASELINE})
    ref = AttemptRef(attempt.problem.name, Language.TORCH, agent.name, kind.slug)
    with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
        content = repository.read_kernel(attempt.commit, AttemptRef.parse(attempt.ref))
        tip = repository.resolve(ref.ref)
        if tip is not None and repository.read_kernel(tip, ref) == content:
            return attempt
        trailers = {"Adopted-Commit": attempt.commit, "Adopted-Agent": attempt.agent.name}
        commit = repository.commit_attempt(ref, content, kind.label, trailers=trailers)
    log_event(
        "baseline.adopted", actor, attempt=attempt, evaluation=evaluation, problem=attempt.problem, baseline=kind.value,
        commit=commit, agent=attempt.agent.name,
    )
    return attempt


def _found(named: str) -> Attempt:
    rows = Attempt.objects.select_related("problem", "agent").order_by("-id")
    if re.fullmatch(rf"[0-9a-f]{{{SHORTEST_PREFIX},40}}", named):
        found = list(rows.filter(commit__startswith=named)[:2])
        if len(found) > 1:
            raise CannotAdopt(f"more than one attempt's commit begins with {named}: give more digits")
    else:
        try:
            found = list(rows.filter(ref=AttemptRef.parse(named).ref)[:1])
        except ValueError as error:
            raise CannotAdopt(
                f"neither a commit ({SHORTEST_PREFIX} hexadecimal digits or more) nor an attempt's branch: {error}"
            ) from None
    if not found:
        raise CannotAdopt(f"there is no attempt {named}")
    return found[0]


def _verified(attempt: Attempt, kind: BaselineKind, problems: Collection[str]) -> Evaluation:
    """The evaluation that shows it right; raises CannotAdopt where anything forbids it."""
    name = f"{attempt.commit[:10]} of {attempt.agent.name}"
    if kind is not BaselineKind.AGENT:
        raise CannotAdopt(f"baselines of kind {kind} come from the problem's own files; only kind agent is adopted")
    if problems and attempt.problem.name not in problems:
        raise CannotAdopt(f"{name} is an attempt at {attempt.problem.name}, not at {', '.join(sorted(problems))}")
    if attempt.kind == Attempt.Kind.BASELINE:
        raise CannotAdopt(f"{name} is a baseline already")
    if attempt.language != Language.TORCH:
        raise CannotAdopt(f"{name} is in language {attempt.language}: a baseline is in {Language.TORCH}")
    passed = scores.standing_evaluations(pk=attempt.pk).filter(
        verdict=Verdict.PASSED.value, problem_digest=attempt.problem.digest
    ).order_by("-finished_at", "-id").defer("result").first()
    if passed is None:
        newest = attempt.evaluations.filter(kind=Evaluation.Kind.MEASURE).order_by("-id").defer("result").first()
        measured = newest and (newest.duplicate_of or newest)
        if measured is not None and measured.verdict == Verdict.PASSED.value:
            if measured.problem_digest == attempt.problem.digest:
                # The same program was measured as another attempt, and may have been found wrong there since.
                stands = scores.standing_evaluations(pk=measured.attempt_id).filter(hardware=measured.hardware)
                if (later := stands.defer("result").first()) is None or later.verdict != Verdict.PASSED.value:
                    why = later.verdict if later else "no result"
                    raise CannotAdopt(f"{name} is the program of evaluation {measured.pk}, which did not stand ({why})")
                return later
            raise CannotAdopt(f"{name} passed on an earlier version of the problem: evaluate it again first")
        state = (measured.verdict or measured.state) if measured else "never evaluated"
        raise CannotAdopt(f"{name} is not verified on the problem as it is now ({state})")
    return passed

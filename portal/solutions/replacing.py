"""What it takes to put a kernel in the place of a merged one: an A/B comparison of the two, and, where that does not
prove the new one faster, somebody who says so and merges all the same.

Asks for comparisons and reads them; who may merge, and merging itself, is publishing.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from agentcore.judge.result import EvaluationResult, PairedComparison
from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import Change, Verdict
from portal.attempts.models import Attempt
from portal.evaluations import queue, scores
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.solutions.models import Solution


@dataclass(frozen=True, slots=True)
class Replacement:
    """How an attempt stands to the solution that it would replace.

    ``evaluation`` is the newest finished comparison of the two by the present harness, ``waiting`` one under way.
    """

    solution: Solution
    evaluation: Evaluation | None
    waiting: Evaluation | None
    comparison: PairedComparison | None = None
    trouble: str = ""
    """Why the comparison cannot be merged upon, whoever acknowledges what; empty where it can."""

    @property
    def proven(self) -> bool:
        return self.comparison is not None and self.comparison.change is Change.IMPROVED

    @property
    def words(self) -> str:
        """The outcome in a few words, for a trailer or a message; empty before there is one."""
        found = self.comparison
        if found is None:
            return ""
        if found.ratio is None:
            return f"{found.change} ({'; '.join(found.reasons)})"
        return f"{found.change} {found.ratio:.4f}× ({found.low:.4f}–{found.high:.4f}, {len(found.rounds)} rounds)"

    @property
    def obstacle(self) -> str:
        """Why the attempt cannot be merged yet, with or without an acknowledgement; empty where it can."""
        named = f"the current solution ({self.solution.attempt.commit[:10]})"
        if self.trouble:
            return self.trouble
        if self.comparison is not None:
            return ""
        if self.waiting is not None:
            return f"the A/B comparison with {named} is under way: evaluation {self.waiting.pk}"
        return f"it has not been compared with {named} side by side; ask for the A/B comparison"


def replacement(attempt: Attempt, hardware: str) -> Replacement | None:
    """Of the current solution by ``attempt``; None where there is none, or where it is the same kernel."""
    solution = _current(attempt).filter(hardware=hardware).first()
    if solution is None or solution.attempt.kernel_tree == attempt.kernel_tree:
        return None
    asked = Evaluation.objects.filter(
        kind=Evaluation.Kind.COMPARE, hardware=hardware, attempt__problem=attempt.problem,
        attempt__language=attempt.language, attempt__kernel_tree=attempt.kernel_tree,
        against__kernel_tree=solution.attempt.kernel_tree, problem_digest=attempt.problem.digest,
    ).order_by("-finished_at", "-id")
    done = (
        asked.filter(state=Evaluation.State.DONE, harness_version=HARNESS_VERSION)
        .exclude(verdict=Verdict.INFRA_ERROR.value).first()
    )
    waiting = asked.filter(state__in=Evaluation.PENDING).first()
    comparison, trouble = _read(done) if done else (None, "")
    return Replacement(solution, done, waiting, comparison, trouble)


def ask(attempt: Attempt, hardware: str, user) -> Evaluation | None:
    """Queue the comparison with the current solution, or return the one that waits; None where there is none to ask
    for. Before agents' attempts: somebody is deciding.
    """
    with transaction.atomic():
        found = replacement(attempt, hardware)
        if found is None or found.waiting is not None:
            return found.waiting if found else None
        evaluation = queue.enqueue(
            attempt, hardware, kind=Evaluation.Kind.COMPARE, against=found.solution.attempt,
            priority=Evaluation.Priority.RERUN, reason="before replacing the current solution", requested_by=user,
        )
        log_event(
            "comparison.asked", user, attempt=attempt, evaluation=evaluation, problem=attempt.problem,
            hardware=hardware, against=found.solution.attempt.commit,
        )
    return evaluation


def ask_where_needed(attempt: Attempt, user) -> list[Evaluation]:
    """Queue what a merge of ``attempt`` would need, on every hardware where it passed and would replace something."""
    passed = set(
        scores.standing_evaluations(pk=attempt.pk).filter(verdict=Verdict.PASSED.value)
        .values_list("hardware", flat=True)
    )
    asked = []
    for hardware in _current(attempt).values_list("hardware", flat=True):
        found = replacement(attempt, hardware) if hardware in passed else None
        if found is not None and found.evaluation is None and (row := ask(attempt, hardware, user)) is not None:
            asked.append(row)
    return asked


def _current(attempt: Attempt):
    return Solution.objects.filter(
        problem=attempt.problem, language=attempt.language, superseded_at=None
    ).select_related("attempt", "evaluation").order_by("hardware")


def _read(evaluation: Evaluation) -> tuple[PairedComparison | None, str]:
    """The comparison an evaluation holds, and what forbids merging upon it."""
    try:
        result = EvaluationResult.model_validate(evaluation.result)
    except ValueError:  # pydantic's ValidationError is one
        return None, f"the comparison {evaluation.pk} cannot be read; ask for another"
    if result.verdict is not Verdict.PASSED:
        return result.comparison, f"it did not pass when it was compared ({result.verdict}, evaluation {evaluation.pk})"
    if result.comparison is None:
        return None, f"evaluation {evaluation.pk} holds no comparison; ask for another"
    if result.stamp.sandbox in ("", "none"):
        return result.comparison, f"the comparison {evaluation.pk} ran without a sandbox"
    return result.comparison, ""

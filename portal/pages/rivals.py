"""How an attempt stands to what it is measured against: the attempt it was built on, the current solution, PyTorch.

Prepares rows for its page; the rule is agentcore.judge.compare.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from agentcore.judge.compare import Comparison
from portal.attempts.models import Attempt
from portal.evaluations import comparisons, scores
from portal.evaluations.models import Evaluation
from portal.pages import tables, versus
from portal.pages.tables import Column, Table
from portal.solutions.models import Solution

NOTES = 6


@dataclass(frozen=True, slots=True)
class Rival:
    """``name`` is what the other evaluation is to this one: its parent, the current solution, the baseline."""

    name: str
    evaluation: Evaluation
    comparison: Comparison

    @property
    def said(self) -> str:
        """Why they cannot be compared, or what to know of the comparison."""
        return "; ".join((self.comparison.reasons or self.comparison.notes)[:NOTES])


def rivals(attempt: Attempt, evaluation: Evaluation) -> list[Rival]:
    """What a passed measurement is compared with; without those that there are not."""
    hardware = evaluation.hardware
    solution = Solution.objects.filter(
        problem=attempt.problem, language=attempt.language, hardware=hardware, superseded_at=None
    ).exclude(attempt=attempt).first()
    parent = scores.latest_evaluation(attempt.parent, hardware) if attempt.parent else None
    baseline = evaluation.baseline_id
    if baseline is None and attempt.kind != Attempt.Kind.BASELINE:
        current = scores.current_baseline(attempt.problem, hardware)
        baseline = current.pk if current else None
    named = [
        ("the attempt it was built on", parent.pk if parent else None),
        ("the current solution", solution.evaluation_id if solution else None), ("the PyTorch baseline", baseline),
    ]
    wanted = {pk for _, pk in named if pk is not None and pk != evaluation.pk}
    found = {row.pk: row for row in comparisons.ready(Evaluation.objects.filter(pk__in=[*wanted, evaluation.pk]))}
    own = found[evaluation.pk]
    return [
        Rival(name, found[pk], comparisons.compare(own, found[pk]))
        for name, pk in named if pk in wanted and pk in found
    ]


def rivals_table(attempt: Attempt, evaluation: Evaluation) -> Table | None:
    """The attempt against each, a row apiece; None where it did not pass or there is nothing to compare it with."""
    if evaluation.verdict != "passed":
        return None
    rows = rivals(attempt, evaluation)
    columns = [
        Column("against", "against", lambda r: r.name, link=lambda r: _compare_url(r.evaluation, evaluation)),
        Column("change", "change", lambda r: r.comparison.change.value, tables.badge, term="unproven"),
        Column("ratio", "times as fast", lambda r: r.comparison.ratio, tables.times, numeric=True, term="speedup"),
        Column("interval", "interval", lambda r: versus.interval(r.comparison), lambda v, _: v, numeric=True,
               term="interval", css="soft"),
        Column("note", "note", lambda r: r.said or None, css="grow soft"),
    ]
    return Table("against", "Faster than what was there?", columns, rows, compact=True) if rows else None


def _compare_url(old: Evaluation, new: Evaluation) -> str:
    return f"{reverse('attempt-compare')}?a=%23{old.pk}&b=%23{new.pk}"

"""How an attempt stands to what it is measured against: the attempt it was built on, the current solution, PyTorch.

Prepares rows for its page; the rule is agentcore.judge.compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from agentcore.judge.compare import Comparison
from agentcore.vocabulary import Change
from portal.attempts.models import Attempt
from portal.evaluations import comparisons, scores
from portal.evaluations.baselines import kind_of
from portal.evaluations.models import Evaluation
from portal.pages import tables, versus
from portal.pages.baselines import alone
from portal.pages.tables import Column, Table
from portal.solutions.models import Solution

NOTES = 6
PARENT, SOLUTION, BASELINE = "the attempt it was built on", "the current solution", "the PyTorch baseline"


@dataclass(frozen=True, slots=True)
class Rival:
    """``name`` is what the other evaluation is to this one: its parent, the current solution, the baseline."""

    name: str
    evaluation: Evaluation
    comparison: Comparison

    @property
    def shown(self) -> str:
        """Its name; of the baseline, which one: T_b of a workload may be another's time, so figures may differ."""
        if self.name != BASELINE:
            return self.name
        return f"PyTorch: {alone(kind_of(self.evaluation.attempt))}"

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
        (PARENT, parent.pk if parent else None), (SOLUTION, solution.evaluation_id if solution else None),
        (BASELINE, baseline),
    ]
    wanted = {pk for _, pk in named if pk is not None and pk != evaluation.pk}
    found = {row.pk: row for row in comparisons.ready(Evaluation.objects.filter(pk__in=[*wanted, evaluation.pk]))}
    own = found[evaluation.pk]
    return [
        Rival(name, found[pk], comparisons.compare(own, found[pk]))
        for name, pk in named if pk in wanted and pk in found
    ]


def slower_than(rows: Sequence[Rival], names: Sequence[str]) -> list[str]:
    """A sentence for each of ``names`` that the attempt is proven slower than."""
    return [
        versus.plainly(rival.comparison, rival.name)
        for rival in rows if rival.name in names and rival.comparison.change is Change.REGRESSED
    ]


def rivals_table(evaluation: Evaluation, rows: Sequence[Rival]) -> Table | None:
    """``evaluation`` against each, a row apiece; None where there is nothing to compare it with."""
    columns = [
        Column("against", "against", lambda r: r.name, lambda _, r: r.shown,
               link=lambda r: _compare_url(r.evaluation, evaluation)),
        Column("change", "change", lambda r: r.comparison.change.value, tables.badge, term="unproven"),
        Column("ratio", "times as fast", lambda r: r.comparison.ratio, tables.times, numeric=True, term="speedup"),
        Column("interval", "interval", lambda r: versus.interval(r.comparison), lambda v, _: v, numeric=True,
               term="interval", css="soft"),
        Column("note", "note", lambda r: r.said or None, css="grow soft note", visible=any(r.said for r in rows)),
    ]
    return Table("against", "Faster than what was there?", columns, rows) if rows else None


def _compare_url(old: Evaluation, new: Evaluation) -> str:
    return f"{reverse('attempt-compare')}?a=%23{old.pk}&b=%23{new.pk}"

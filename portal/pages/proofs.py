"""A/B comparisons of a kernel or a track: what each proved, against which kernel, and in which evaluation.

Reads the few figures a comparison ends with out of the stored results, never its rounds. A kernel is known by its tree:
the same program counts whichever attempt it was measured for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q
from django.utils.html import format_html

from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import Change, Verdict
from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation
from portal.pages import formatting, tables, text, versus
from portal.pages.tables import Column, Table
from portal.solutions.models import Solution

MOST, SHOWN = 200, 10


@dataclass(frozen=True, slots=True)
class Proof:
    """One comparison of ``evaluation.attempt``, the new kernel, with ``evaluation.against``, the old one.

    ``ratio`` is the old time over the new one; ``change`` a `Change`, or the state of a comparison under way.
    """

    evaluation: Evaluation
    change: str
    ratio: float | None
    low: float | None
    high: float | None
    note: str

    @property
    def new(self) -> Attempt:
        return self.evaluation.attempt

    @property
    def old(self) -> Attempt | None:
        return self.evaluation.against

    @property
    def said(self) -> dict[str, Any]:
        """As parts/verdict.html wants it."""
        return {
            "change": self.change, "ratio": f"{formatting.significant(self.ratio, 4)}×" if self.ratio else "",
            "interval": versus.interval(self), "reasons": [self.note] if self.note else [],
        }


def of_kernel(attempt: Attempt) -> list[Proof]:
    """Where the attempt's kernel is the new or the old one, newest first."""
    tree = attempt.kernel_tree
    return _proofs(
        Q(attempt__kernel_tree=tree) | Q(against__kernel_tree=tree),
        attempt__problem=attempt.problem_id, attempt__language=attempt.language,
    )


def of_track(problem_id: int, language: str, hardware: str) -> list[Proof]:
    """Of a problem in one language on one hardware, newest first."""
    return _proofs(Q(), attempt__problem=problem_id, attempt__language=language, hardware=hardware)


def between(new: Attempt, old: Attempt, among: list[Proof]) -> Proof | None:
    """The newest finished one of these two kernels, in this order, that the present harness made of the problem as it
    is.
    """
    return next((
        proof for proof in among
        if proof.old is not None and (proof.new.kernel_tree, proof.old.kernel_tree) == (new.kernel_tree,
                                                                                       old.kernel_tree)
        and proof.evaluation.state == Evaluation.State.DONE and not _outdated(proof.evaluation)
    ), None)


def table(
    proofs: list[Proof], solution: Solution | None, *, own: str = "", with_hardware: bool = False
) -> Table | None:
    """``own`` is the tree of the page's own kernel; None where nothing was compared."""
    if not proofs:
        return None
    merged = solution.attempt.kernel_tree if solution else ""

    def kernel(attempt: Attempt | None, _row: Any) -> Any:
        if attempt is None:
            return formatting.NOTHING
        known = (("this one", own), ("current solution", merged))
        roles = [word for word, tree in known if tree == attempt.kernel_tree]
        said = ", ".join(roles) or text.label(attempt.subject, 60)
        return format_html(
            '<a href="{}"><code>{}</code></a> <span class="clamped soft" title="{}">{}</span>',
            attempt.get_absolute_url(), attempt.commit[:10], said, said,
        )

    columns = [
        Column("change", "the new one is", lambda p: p.change, tables.badge, term="ab"),
        Column("ratio", "times as fast", lambda p: p.ratio,
               lambda v, _: f"{formatting.significant(v, 4)}×" if v else formatting.NOTHING, numeric=True,
               term="speedup"),
        Column("low", "from", lambda p: p.low, visible=False),
        Column("high", "to", lambda p: p.high, visible=False),
        Column("interval", "interval", lambda p: versus.interval(p), lambda v, _: v, numeric=True, term="interval",
               css="soft nowrap", export=False),
        Column("new", "new kernel", lambda p: p.new, kernel, export=False, css="kernel"),
        Column("new_commit", "new", lambda p: p.new.commit, visible=False),
        Column("old", "old kernel", lambda p: p.old, kernel, export=False, css="kernel"),
        Column("old_commit", "old", lambda p: p.old.commit if p.old else None, visible=False),
        Column("hardware", "hardware", lambda p: p.evaluation.hardware,
               visible=with_hardware and len({p.evaluation.hardware for p in proofs}) > 1),
        Column("evaluation", "no.", lambda p: p.evaluation.pk, lambda v, _: f"#{v}",
               link=lambda p: p.evaluation.get_absolute_url()),
        Column("finished_at", "finished (UTC)", lambda p: p.evaluation.finished_at, css="day"),
        Column("note", "note", lambda p: p.note or None, css="grow soft note",
               visible=any(p.note for p in proofs)),
    ]
    return Table("comparisons", "A/B comparisons: both measured in turn on one device", columns, proofs,
                 at_most=SHOWN)


def _proofs(condition: Q, **wanted: Any) -> list[Proof]:
    rows = (
        Evaluation.objects.filter(condition, kind=Evaluation.Kind.COMPARE, **wanted)
        .exclude(state=Evaluation.State.CANCELLED)
        .select_related("attempt__problem", "against")
        .defer("result", "stamp", *(f"{side}__{name}" for side in ("attempt", "against")
                                    for name in ("body", "hypothesis")),
               *(f"attempt__problem__{name}" for name in ("definition", "reference", "brief", "description")))
        .annotate(**{f"found_{key}": F(f"result__comparison__{key}") for key in ("change", "ratio", "low", "high")},
                  found_reasons=F("result__comparison__reasons"))
        .order_by("-queued_at", "-id")[:MOST]
    )
    return [_proof(row) for row in rows]


def _proof(row: Any) -> Proof:
    ratio, low, high = (_number(getattr(row, f"found_{key}")) for key in ("ratio", "low", "high"))
    if row.state in Evaluation.PENDING:
        return Proof(row, row.state, None, None, None, "")
    reasons = row.found_reasons if isinstance(row.found_reasons, list) else []
    known = str(row.found_change or "") in {member.value for member in Change}
    notes = [str(reason) for reason in reasons[:3]]
    if row.verdict != Verdict.PASSED.value:
        notes.insert(0, f"it ended as {row.verdict}")
    notes += _outdated(row)
    return Proof(
        row, str(row.found_change) if known else Change.INCOMPARABLE.value, ratio, low, high,
        text.label("; ".join(notes), 200),
    )


def _outdated(row: Evaluation) -> list[str]:
    found = []
    if row.problem_digest != row.attempt.problem.digest:
        found.append("of an earlier version of the problem")
    if row.harness_version != HARNESS_VERSION:
        found.append(f"by harness {row.harness_version or '?'}, now {HARNESS_VERSION}")
    return found


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

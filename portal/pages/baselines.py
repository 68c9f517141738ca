"""A problem's baselines on one hardware: how each kind stands, and whose time T_b is per workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max
from django.urls import reverse

from agentcore.baselines import BaselineKind
from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import HardwareName, Verdict
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations import baselines
from portal.evaluations.baselines import OTHER, Bar, Verified
from portal.evaluations.models import Evaluation, ScoreRecord, WorkloadResult
from portal.pages import formatting, tables, text
from portal.pages.tables import Column, Table
from portal.problems.models import Problem

_WORDS = {
    BaselineKind.EAGER: "the reference run eagerly", BaselineKind.COMPILE: "the reference under torch.compile",
    BaselineKind.HAND: "the hand-written baseline", BaselineKind.LIBRARY: "the library call",
    BaselineKind.AGENT: "the adopted attempt in PyTorch",
}
RULES_SHOWN = 3
ROWS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind of baseline: its newest evaluation, if any, and on how many workloads it gives T_b."""

    kind: str
    label: str
    evaluation: Evaluation | None
    fastest: int
    note: str

    @property
    def outcome(self) -> str:
        """The verdict where there is one, else where the work stands."""
        return (self.evaluation.verdict or self.evaluation.state) if self.evaluation else ""


def alone(kind: str) -> str:
    """One baseline by its kind, as distinct from T_b, which is the fastest one's time for each workload."""
    return f"{_WORDS.get(kind, 'this baseline')} alone"


def hardware_of(problem: Problem, wanted: str, otherwise: str) -> tuple[str, list[str]]:
    """Whose baselines to show, and all that there is a choice of: what has any, and the page's own hardware.

    ``wanted`` where it is one of them, else the page's own (``otherwise``), else that of the newest evaluation.
    """
    rows = (
        Evaluation.objects.filter(attempt__problem=problem, attempt__kind=Attempt.Kind.BASELINE)
        .order_by().values("hardware").annotate(newest=Max("id")).order_by("-newest")
    )
    known = [row["hardware"] for row in rows]
    chosen = wanted if wanted in known else otherwise or (known[0] if known else HardwareName.CPU.value)
    return chosen, sorted({chosen, *known, *([otherwise] if otherwise else [])})


def kinds_table(problem: Problem, hardware: str, verified: Sequence[Verified]) -> Table:
    """Every kind, those that failed or that the problem does not have included."""
    newest = _newest(problem, hardware)
    best = [bar.of.kind for (_, heldout), bar in baselines.bars(verified).items() if not heldout]
    kinds = [(kind.value, kind.label) for kind in BaselineKind]
    kinds += [(kind, "Of no named kind") for kind in newest if kind == OTHER]
    rows = [
        KindRow(kind, label, newest.get(kind), best.count(kind), _note(problem, hardware, kind, newest.get(kind)))
        for kind, label in kinds
    ]

    def to_evaluation(row: KindRow) -> str | None:
        return row.evaluation.get_absolute_url() if row.evaluation else None

    columns = [
        Column("kind", "kind", lambda r: r.kind, tables.code),
        Column("source", "what", lambda r: r.label),
        Column("outcome", "verdict", lambda r: r.outcome or None,
               lambda v, r: tables.badge(v, r) if v else formatting.NOTHING, term="verdict"),
        Column("latency_us", "latency (µs)", lambda r: r.evaluation and r.evaluation.latency_geomean_us,
               tables.microseconds, numeric=True, term="latency", link=to_evaluation),
        Column("fastest", "gives T_b on", lambda r: r.fastest, lambda v, _: _workloads(v), numeric=True,
               term="baseline", link=lambda r: "#h-baseline-workloads" if r.fastest else None),
        Column("evaluation", "evaluation", lambda r: r.evaluation and r.evaluation.pk,
               lambda v, _: f"#{v}" if v else formatting.NOTHING,
               link=to_evaluation),
        Column("finished_at", "measured (UTC)", lambda r: r.evaluation and r.evaluation.finished_at, css="nowrap"),
        Column("note", "note", lambda r: r.note, lambda v, _: text.label(v, 300) or formatting.NOTHING,
               css="grow soft note"),
    ]
    return Table("baselines", f"Baselines on {hardware}", columns, rows, caption_hidden=True)


def workloads_table(problem: Problem, hardware: str, verified: Sequence[Verified]) -> Table:
    """Per public workload: T_b and whose it is, the same under campaigns' rules, and every verified kind's time."""
    times = {
        each.evaluation.pk: {row.uuid: row for row in each.evaluation.workloads.all() if not row.heldout}
        for each in verified
    }
    found: dict[str, WorkloadResult] = {}
    for each in verified:
        for uuid, row in times[each.evaluation.pk].items():
            found.setdefault(uuid, row)
    columns = [
        Column("index", "#", lambda r: r.index, numeric=True),
        Column("axes", "workload", lambda r: r.axes, tables.axes, css="axes-cell"),
        *_bar_columns("baseline", "T_b", baselines.bars(verified)),
    ]
    for campaign in _campaigns(problem, hardware):
        admitted = baselines.bars(baselines.admitted(verified, campaign.baseline_kinds))
        columns += _bar_columns(f"baseline_{campaign.name}", f"T_b in {campaign.name}", admitted)
    columns += [_time_column(each, times[each.evaluation.pk], verified) for each in verified]
    return Table(
        "baseline_workloads", f"T_b per workload on {hardware}", columns,
        sorted(found.values(), key=lambda row: row.index), caption_hidden=True, at_most=ROWS_SHOWN,
        empty=f"No baseline is verified on {hardware}: attempts have times there, but no scores yet.",
    )


def rules(problem: Problem, hardware: str) -> list[str]:
    """What campaigns admit, in sentences; nothing for those that admit every kind."""
    return [
        f"Campaign {campaign.name} admits {', '.join(map(str, campaign.baseline_kinds))} only."
        for campaign in _campaigns(problem, hardware)
    ]


def score_history(records: Sequence[ScoreRecord]) -> Table | None:
    """The scores that an evaluation had, the standing one first; None where there was never another."""
    if len(records) < 2:
        return None
    columns = [
        Column("made_at", "scored (UTC)", lambda r: r.made_at, css="nowrap"),
        Column("sol_score", "S", lambda r: r.sol_score, tables.score, numeric=True, term="sol-score"),
        Column("speedup", "speedup", lambda r: r.speedup, tables.times, numeric=True, term="speedup"),
        Column("rule", "admitted", lambda r: r.rule, lambda v, _: text.label(", ".join(map(str, v)), 80) or "any kind"),
        Column("workloads", "T_b (µs), whose", lambda r: r.workloads, lambda v, _: _bars_in_words(v), css="grow soft"),
        Column("baseline", "fastest as a whole", lambda r: r.baseline_id,
               lambda v, _: f"#{v}" if v else formatting.NOTHING,
               link=lambda r: reverse("evaluation-detail", args=[r.baseline_id]) if r.baseline_id else None),
    ]
    return Table("scores", "Scores it had", columns, list(records), caption_hidden=True)


def _newest(problem: Problem, hardware: str) -> dict[str, Evaluation]:
    """The newest evaluation by kind, whatever its state; a duplicate's is the one it points at."""
    rows = (
        Evaluation.objects.filter(
            attempt__problem=problem, attempt__kind=Attempt.Kind.BASELINE, hardware=hardware,
            kind=Evaluation.Kind.MEASURE,
        )
        .exclude(state=Evaluation.State.CANCELLED)
        .select_related("attempt", "duplicate_of").defer("result", "duplicate_of__result", "attempt__body")
        .order_by("attempt_id", "id")
    )
    return {baselines.kind_of(row.attempt): row.duplicate_of or row for row in rows}


def _note(problem: Problem, hardware: str, kind: str, evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return _absent(problem, hardware, kind)
    if evaluation.state != Evaluation.State.DONE:
        return ""
    if evaluation.problem_digest != problem.digest:
        return "Of an earlier version of the problem: not used until it is measured again."
    if evaluation.verdict != Verdict.PASSED.value:
        return f"Not used. {evaluation.message}"
    if evaluation.harness_version != HARNESS_VERSION:
        return (f"Measured with harness {evaluation.harness_version or '?'}, now {HARNESS_VERSION}: manage.py "
                f"baselines --hardware {hardware} --problem {problem.name} measures it again.")
    return ""


def _absent(problem: Problem, hardware: str, kind: str) -> str:
    if kind == BaselineKind.AGENT:
        return ("Empty: no attempt was adopted yet. One in PyTorch that passed becomes it: manage.py baselines "
                f"--hardware {hardware} --kind agent --adopt COMMIT")
    file = BaselineKind(kind).file
    if file and not (problem.directory() / file).is_file():
        return f"The problem has no {file}."
    return f"Not measured: manage.py baselines --hardware {hardware} --problem {problem.name} --kind {kind}"


def _campaigns(problem: Problem, hardware: str) -> list[Campaign]:
    """The campaigns here that do not admit every kind, newest first, a few."""
    rows = problem.campaigns.filter(hardware=hardware).exclude(baseline_kinds=[])
    return list(rows.order_by("-started_at")[:RULES_SHOWN])


def _bar_columns(key: str, title: str, bars: dict[tuple[str, bool], Bar]) -> list[Column]:
    def bar(row: WorkloadResult) -> Bar | None:
        return bars.get((row.uuid, False))

    def link(row: WorkloadResult) -> str | None:
        found = bar(row)
        return found.of.evaluation.get_absolute_url() if found else None

    return [
        Column(f"{key}_us", f"{title} (µs)", lambda r: b.us if (b := bar(r)) else None, tables.microseconds,
               numeric=True, term="baseline", link=link),
        Column(f"{key}_kind", "by", lambda r: b.of.kind if (b := bar(r)) else None, link=link),
        Column(f"{key}_evaluation", "evaluation", lambda r: b.of.evaluation.pk if (b := bar(r)) else None,
               visible=False),
    ]


def _time_column(each: Verified, rows: dict[str, WorkloadResult], verified: Sequence[Verified]) -> Column:
    # Two device models may have measured one kind: then the number says which evaluation it is.
    twice = sum(other.kind == each.kind for other in verified) > 1
    return Column(
        f"{each.kind}_{each.evaluation.pk}_us", f"{each.kind} #{each.evaluation.pk} (µs)" if twice
        else f"{each.kind} (µs)", lambda r: row.latency_us if (row := rows.get(r.uuid)) else None,
        tables.microseconds, numeric=True, css="soft", link=lambda r: each.evaluation.get_absolute_url(),
    )


def _workloads(count: int) -> str:
    return f"{count} workload{'' if count == 1 else 's'}" if count else formatting.NOTHING


def _bars_in_words(workloads: Any) -> str:
    said = [
        f"{formatting.significant(row.get('baseline_us'))} {row.get('kind') or '?'}"
        for row in workloads if isinstance(row, dict) and not row.get("heldout")
    ]
    return text.label(", ".join(said), 240) or formatting.NOTHING

"""Which baselines are verified, which of them a rule admits, and what T_b of a workload is. Reads only.

T_b of a workload is the time of the fastest verified baseline that the rule admits. Baselines that can be compared with
an evaluation (device model, harness, driver, software: see comparisons.py) go before those that cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from agentcore.baselines import BaselineKind
from agentcore.vocabulary import Verdict
from portal.attempts.models import Attempt
from portal.evaluations import comparisons
from portal.evaluations.models import Evaluation

OTHER = "other"
"""The kind of a baseline whose branch is named after none: admitted only where every kind is."""

_HEAVY = ("result", "message", "duplicate_of__result", "duplicate_of__message", "attempt__body", "attempt__hypothesis")


@dataclass(frozen=True, slots=True)
class Verified:
    """A baseline that passed. ``evaluation`` has its times; it is another attempt's where the same program was
    measured there first.
    """

    kind: str
    evaluation: Evaluation

    @property
    def latency_us(self) -> float:
        """The geometric mean over the public workloads."""
        return self.evaluation.latency_geomean_us or float("inf")


@dataclass(frozen=True, slots=True)
class Bar:
    """T_b of one workload, µs, and whose time it is."""

    us: float
    of: Verified


def kind_of(attempt: Attempt) -> str:
    """The kind of a baseline attempt, by the slug of its branch."""
    return BaselineKind.of_slug(attempt.slug) or OTHER


def standing_baselines(problem, hardware: str, *, digest: str | None = None) -> list[tuple[str, Evaluation]]:
    """The newest finished measurement of each kind of baseline and device model, passed or not, as (kind, row).

    Of a kind whose source changed the newest source that was measured stands. A duplicate stands for what it points
    at. Of the problem as it is now, or with ``digest``.
    """
    wanted = digest if digest is not None else problem.digest
    rows = (
        Evaluation.objects.filter(
            attempt__problem=problem, attempt__kind=Attempt.Kind.BASELINE, hardware=hardware,
            kind=Evaluation.Kind.MEASURE, state__in=[Evaluation.State.DONE, Evaluation.State.DUPLICATE],
        )
        .select_related("attempt__problem", "duplicate_of__attempt__problem").defer(*_HEAVY)
        .prefetch_related("workloads", "duplicate_of__workloads")
        .order_by("-attempt_id", "-finished_at", "-id")
    )
    rows = list(rows)
    refuted = _refutations({row.duplicate_of.attempt_id for row in rows if row.duplicate_of}, hardware, wanted)
    found: dict[tuple[str, str], tuple[str, Evaluation]] = {}
    for row in rows:
        measured = row
        if row.duplicate_of:
            measured = refuted.get(row.duplicate_of.attempt_id, row.duplicate_of)
        if (
            measured.state == Evaluation.State.DONE and measured.problem_digest == wanted
            and measured.verdict != Verdict.INFRA_ERROR.value
        ):
            model = str((measured.stamp or {}).get("device_name") or measured.device_uuid)
            found.setdefault((row.attempt.slug, model), (kind_of(row.attempt), measured))
    return list(found.values())


def _refutations(attempts: Collection[int], hardware: str, digest: str) -> dict[int, Evaluation]:
    """The newest evaluation of each of ``attempts`` that did not pass in it: it speaks for every attempt that is the
    same program, also for those that point at an earlier one which passed.
    """
    if not attempts:
        return {}
    newest: dict[int, Evaluation] = {}
    finished = Evaluation.objects.filter(
        attempt__in=attempts, hardware=hardware, kind=Evaluation.Kind.MEASURE, state=Evaluation.State.DONE,
        problem_digest=digest,
    ).exclude(verdict=Verdict.INFRA_ERROR.value)
    for row in finished.defer(*_HEAVY).prefetch_related("workloads").order_by("-finished_at", "-id"):
        newest.setdefault(row.attempt_id, row)
    return {attempt: row for attempt, row in newest.items() if row.verdict != Verdict.PASSED.value}


def verified_baselines(problem, hardware: str, *, digest: str | None = None) -> list[Verified]:
    """The baselines that passed, fastest first."""
    passed = [
        Verified(kind, row) for kind, row in standing_baselines(problem, hardware, digest=digest)
        if row.verdict == Verdict.PASSED.value and row.latency_geomean_us is not None
    ]
    return sorted(passed, key=lambda each: (each.latency_us, each.evaluation.pk))


def admitted(verified: Iterable[Verified], rule: Sequence[str]) -> list[Verified]:
    """Those whose kind the rule names; all of them where it names none."""
    return [each for each in verified if not rule or each.kind in rule]


def comparable(evaluation: Evaluation, verified: Sequence[Verified]) -> list[Verified]:
    """Those measured where ``evaluation`` was; all of them where none was."""
    return [each for each in verified if not comparisons.differences(evaluation, each.evaluation)] or list(verified)


def bars(verified: Iterable[Verified]) -> dict[tuple[str, bool], Bar]:
    """T_b by (uuid, whether it is held out): of each workload the fastest of ``verified``."""
    found: dict[tuple[str, bool], Bar] = {}
    for each in verified:
        for row in each.evaluation.workloads.all():
            key = (row.uuid, row.heldout)
            if row.latency_us and (key not in found or row.latency_us < found[key].us):
                found[key] = Bar(row.latency_us, each)
    return found

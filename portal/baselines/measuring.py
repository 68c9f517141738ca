"""Baselines as attempts: committed on branches of the agent ``baseline`` and queued like any other, only earlier.

Committing is idempotent: a new commit is made only where the source changed. What is measured and not stale
(staleness.py) is not measured again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from agentcore.baselines import BaselineKind, NoBaseline, baseline_source
from agentcore.baselines.kinds import DEFAULT_KINDS
from agentcore.gitstore import AttemptsRepository
from agentcore.problems import Problem as ProblemFiles
from agentcore.problems import load_problem
from agentcore.vocabulary import AttemptRef, HardwareName, Language, Verdict
from portal.agents.models import Agent
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.baselines import staleness
from portal.evaluations import compiling, queue
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem

BASELINE_AGENT = "baseline"
_SETTLED = (Evaluation.State.DONE, Evaluation.State.DUPLICATE)


class Done(StrEnum):
    """What was done about one kind of baseline on one hardware."""

    QUEUED = "queued"
    WAITING = "waiting"
    CURRENT = "measured"
    FAILED = "failed"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of baseline of one problem on one hardware: what was done, and why. ``evaluation`` is the one in force.
    """

    problem: Problem
    kind: BaselineKind
    hardware: HardwareName
    done: Done
    why: str
    evaluation: Evaluation | None = None


def ensure_baselines(
    problem: Problem, hardware: Iterable[HardwareName | str] = (HardwareName.CPU,),
    kinds: Iterable[BaselineKind] = DEFAULT_KINDS,
) -> list[Evaluation]:
    """Commit the baselines of ``problem`` where they changed, queue what is not measured; returns the evaluations.

    Raises ProblemError where the problem's directory cannot be read.
    """
    steps = measure(problem, hardware, kinds)
    return [step.evaluation for step in steps if step.evaluation is not None]


def measure(
    problem: Problem, hardware: Iterable[HardwareName | str], kinds: Iterable[BaselineKind] = tuple(BaselineKind), *,
    force: bool = False,
) -> list[Step]:
    """Commit and queue what is missing or stale of ``kinds`` on every given hardware, with ``force`` all of it.

    Raises ProblemError where the problem's directory cannot be read.
    """
    names, started = [HardwareName(name) for name in hardware], timezone.now()
    steps: list[Step] = []
    for kind, (attempt, missing) in _committed(problem, kinds).items():
        for name in names:
            if attempt is None:
                steps.append(Step(problem, kind, name, Done.NONE, missing))
            else:
                steps.append(_measure_one(problem, kind, attempt, name, started, force))
    return steps


def _measure_one(
    problem: Problem, kind: BaselineKind, attempt: Attempt, hardware: HardwareName, started: datetime, force: bool
) -> Step:
    def step(done: Done, why: str, evaluation: Evaluation) -> Step:
        if done in (Done.QUEUED, Done.WAITING) and not compiling.is_measured(hardware):
            why += f"; it waits until a host with a {hardware} joins"
        return Step(problem, kind, hardware, done, why, evaluation)

    mine = attempt.evaluations.filter(hardware=hardware.value, kind=Evaluation.Kind.MEASURE)
    waiting = mine.filter(state__in=Evaluation.PENDING).order_by("id").first()
    if waiting is not None:
        if waiting.queued_at >= started:  # by its indexing, just now
            return step(Done.QUEUED, "never measured", waiting)
        return step(Done.WAITING, f"is {waiting.get_state_display()} as evaluation {waiting.pk}", waiting)
    row = (
        mine.filter(state__in=_SETTLED).exclude(verdict=Verdict.INFRA_ERROR.value)
        .select_related("duplicate_of").order_by("-finished_at", "-id").first()
    )
    measured = (row.duplicate_of or row) if row else None
    if measured is None or measured.state != Evaluation.State.DONE:
        why = "the last try ended as infra_error" if mine.exists() else "never measured"
        made = intake.schedule(
            attempt, hardware, priority=Evaluation.Priority.BASELINE, reason="baseline", keep_current=True
        )
        if made.duplicate_of_id is None:
            return step(Done.QUEUED, why, made)
        return step(Done.CURRENT, f"the same program as evaluation {made.duplicate_of_id}", made)
    reasons = staleness.reasons(measured, problem) or (["asked for"] if force else [])
    if reasons:
        made = queue.enqueue(
            attempt, hardware, priority=Evaluation.Priority.BASELINE, reason=f"baseline: {reasons[0]}"
        )
        return step(Done.QUEUED, "; ".join(reasons), made)
    if measured.verdict == Verdict.PASSED.value and measured.latency_geomean_us is not None:
        return step(Done.CURRENT, f"passed, {measured.latency_geomean_us:.4g} µs", measured)
    return step(Done.FAILED, f"{measured.verdict}, never used: {measured.message}", measured)


def _committed(
    problem: Problem, kinds: Iterable[BaselineKind]
) -> dict[BaselineKind, tuple[Attempt | None, str]]:
    """The attempt of each kind, its source committed where that changed; None and the reason where there is none."""
    files = load_problem(problem.directory())
    agent, _ = Agent.objects.get_or_create(name=BASELINE_AGENT, defaults={"kind": Agent.Kind.BASELINE})
    missing: dict[BaselineKind, str] = {}
    refs: dict[BaselineKind, AttemptRef] = {}
    with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
        for kind in kinds:
            ref = AttemptRef(problem.name, Language.TORCH, agent.name, kind.slug)
            refs[kind], missing[kind] = ref, _commit(repository, files, kind, ref)
    intake.reconcile([refs[kind].ref for kind, why in missing.items() if not why])
    found: dict[BaselineKind, tuple[Attempt | None, str]] = {}
    for kind, why in missing.items():
        rows = Attempt.objects.filter(ref=refs[kind].ref).order_by("-id").select_related("problem", "agent")
        attempt = rows.first() if not why else None
        found[kind] = attempt, why or "its commit is not indexed: see the events"
    return found


def _commit(repository: AttemptsRepository, files: ProblemFiles, kind: BaselineKind, ref: AttemptRef) -> str:
    """Commit the source of ``kind`` where it changed; why there is none, or nothing."""
    tip = repository.resolve(ref.ref)
    try:
        content = {Language.TORCH.source_name: baseline_source(files, kind)}
    except NoBaseline as error:
        # The slot of a kind that has no file is filled by whoever commits there.
        return "" if tip is not None and not kind.file else str(error)
    if tip is None or repository.read_kernel(tip, ref) != content:
        repository.commit_attempt(ref, content, kind.label)
    return ""

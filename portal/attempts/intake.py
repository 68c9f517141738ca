"""From commits of the attempts repository to `Attempt` rows and queued evaluations. Git is the record, rows follow.

An attempt is the tip of an attempt branch, or a commit below it that names the same problem, language and agent in its
trailers (the client makes one commit per attempt). Indexing is incremental and idempotent: a push calls `reconcile`
with its refs, housekeeping calls it with none and so finds what a missed hook left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q

from agentcore.baselines.kinds import DEFAULT_KINDS, BaselineKind
from agentcore.gitstore import AttemptsRepository
from agentcore.gitstore.records import CommitRecord
from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import AttemptRef, HardwareName, Language, Verdict
from portal.agents.models import Agent
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations import compiling, queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.events.models import log as log_event
from portal.problems.models import Problem
from portal.text import storable

logger = logging.getLogger(__name__)

_BATCH = 500
BODY_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class _Found:
    ref: AttemptRef
    commit: CommitRecord


def reconcile(refs: Iterable[str] | None = None) -> list[Attempt]:
    """Index every new attempt on ``refs`` (all attempt branches if None) and queue its evaluations.

    Returns the new rows, ancestors first. What cannot be indexed (unknown problem or agent, no kernel) is logged once
    and looked at again next time.
    """
    with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
        return index(repository, _tips(repository, refs))


def index(
    repository: AttemptsRepository,
    tips: Iterable[tuple[AttemptRef, str]],
    *,
    noted_refs: Mapping[str, AttemptRef] | None = None,
    with_evaluations: bool = True,
) -> list[Attempt]:
    """Index the new attempts of ``tips``. ``noted_refs`` (commit → branch) settles what several branches contain."""
    found: dict[str, _Found] = {}
    for batch in _batches(tips, _BATCH):
        known = set(Attempt.objects.filter(commit__in=[tip for _, tip in batch]).values_list("commit", flat=True))
        for ref, tip in batch:
            if tip not in known:
                for item in _new_on_branch(repository, ref, tip, noted_refs or {}):
                    if item.commit.oid not in found or item.commit.oid == tip:
                        found[item.commit.oid] = item
    # Commit times are the agents' own claims: they only order what one call found, parents come from the graph.
    created = []
    for item in sorted(found.values(), key=lambda item: item.commit.committed_at):
        attempt = _create(repository, item, with_evaluations)
        if attempt is not None:
            created.append(attempt)
    for attempt in created:
        _link_parent(repository, attempt)
    return created


def schedule(
    attempt: Attempt,
    hardware: HardwareName | str,
    *,
    kind: str = Evaluation.Kind.MEASURE,
    priority: int = Evaluation.Priority.AGENT,
    reason: str = "",
    keep_current: bool = False,
) -> Evaluation:
    """Queue ``attempt`` on ``hardware`` unless it already was; an exact duplicate only points at the first one.

    With ``keep_current`` a finished evaluation of an older problem or harness version does not count as done.
    """
    hardware = HardwareName(hardware)
    with transaction.atomic():
        # Serialises the look for duplicates among concurrent pushes to one problem.
        Problem.objects.select_for_update().get(pk=attempt.problem_id)
        existing = attempt.evaluations.filter(hardware=hardware.value, kind=kind).exclude(
            state=Evaluation.State.CANCELLED
        )
        if keep_current:
            stale = Q(state=Evaluation.State.DONE) & (
                ~Q(problem_digest=attempt.problem.digest) | ~Q(harness_version=HARNESS_VERSION)
                | Q(verdict=Verdict.INFRA_ERROR.value)
            )
            existing = existing.exclude(stale)
        if (known := existing.order_by("id").first()) is not None:
            return known
        first = find_duplicate(attempt, hardware, kind)
        if first is None:
            return queue.enqueue(attempt, hardware, kind=kind, priority=priority, reason=reason)
        duplicate = Evaluation.objects.create(
            attempt=attempt, hardware=hardware.value, kind=kind, state=Evaluation.State.DUPLICATE, duplicate_of=first,
            priority=priority, reason=reason[:200], problem_digest=attempt.problem.digest,
        )
        log_event(
            "evaluation.duplicate", attempt.agent.name, attempt=attempt, evaluation=duplicate,
            problem=attempt.problem, first=first.pk,
        )
        return duplicate


def find_duplicate(
    attempt: Attempt, hardware: HardwareName, kind: str = Evaluation.Kind.MEASURE
) -> Evaluation | None:
    """The first evaluation of this kind with the same kernel tree, problem digest, hardware and harness version that
    ended as the newest of them did, since a rerun may have found what the first did not; else the first that waits.
    """
    same = Evaluation.objects.filter(
        attempt__problem=attempt.problem,
        attempt__language=attempt.language,
        attempt__kernel_tree=attempt.kernel_tree,
        hardware=hardware.value,
        kind=kind,
        problem_digest=attempt.problem.digest,
    ).exclude(attempt=attempt).order_by("id")
    finished = same.filter(state=Evaluation.State.DONE, harness_version=HARNESS_VERSION).exclude(
        verdict=Verdict.INFRA_ERROR.value
    )
    waiting = same.filter(state__in=Evaluation.PENDING)
    if attempt.campaign is None or attempt.campaign.state != Campaign.State.PAUSED:
        waiting = waiting.exclude(Evaluation.held_back())  # who knows for how long
    newest = finished.order_by("-finished_at", "-id").values_list("verdict", flat=True).first()
    return finished.filter(verdict=newest).first() or waiting.first()


def hardware_for(problem: Problem, language: str, campaign: Campaign | None) -> list[HardwareName]:
    """Where an agent's attempt is measured: its campaign's hardware, else that of every active campaign it fits."""
    if campaign is not None:
        return [HardwareName(campaign.hardware)]
    fitting = problem.campaigns.filter(state=Campaign.State.ACTIVE, language=language)
    names = sorted(set(fitting.values_list("hardware", flat=True)))
    if names:
        return [HardwareName(name) for name in names]
    if Language(language) in (Language.CPP, Language.TORCH):
        return [HardwareName.CPU]
    return [HardwareName(settings.DEFAULT_GPU)]


def _tips(repository: AttemptsRepository, refs: Iterable[str] | None) -> Iterator[tuple[AttemptRef, str]]:
    if refs is None:
        yield from repository.attempt_refs()
        return
    for name in refs:
        try:
            ref = AttemptRef.parse(name)
        except ValueError:
            continue
        if (tip := repository.resolve(ref.ref)) is not None:
            yield ref, tip


def _new_on_branch(
    repository: AttemptsRepository, ref: AttemptRef, tip: str, noted_refs: Mapping[str, AttemptRef]
) -> list[_Found]:
    """The attempts on one branch that have no row yet, oldest first."""
    last = Attempt.objects.filter(ref=ref.ref).order_by("-id").values_list("commit", flat=True).first()
    oids = repository.new_commits(last if last and repository.has_commit(last) else None, tip)
    known = set(Attempt.objects.filter(commit__in=oids).values_list("commit", flat=True))
    found = []
    for commit in repository.commits(oid for oid in oids if oid not in known):
        noted = noted_refs.get(commit.oid)
        if noted is not None:
            belongs = noted == ref
        else:
            belongs = commit.oid == tip or _trailers_match(commit, ref)
        if belongs:
            found.append(_Found(ref, commit))
    return found


def _trailers_match(commit: CommitRecord, ref: AttemptRef) -> bool:
    wanted = {"Problem": ref.problem, "Language": ref.language.value, "Agent": ref.agent}
    return all(commit.trailers.get(key) == value for key, value in wanted.items())


def _create(repository: AttemptsRepository, item: _Found, with_evaluations: bool) -> Attempt | None:
    ref, commit = item.ref, item.commit
    problem = Problem.objects.filter(name=ref.problem).first()
    if problem is None:
        return _ignore(item, f"there is no problem {ref.problem!r}; import it and this attempt is indexed")
    agent = Agent.objects.filter(name=ref.agent).first()
    if agent is None:
        return _ignore(item, f"there is no agent {ref.agent!r}; create it and this attempt is indexed")
    tree = repository.kernel_tree(commit.oid, ref)
    if tree is None:
        return _ignore(item, f"it has no files under {ref.kernel_path}/")
    is_baseline = agent.kind == Agent.Kind.BASELINE
    campaign = None if is_baseline else _campaign(problem, ref.language, commit.trailers.get("Campaign", ""))
    try:
        with transaction.atomic():
            attempt = Attempt.objects.create(
                problem=problem,
                language=ref.language.value,
                agent=agent,
                slug=ref.slug,
                kind=Attempt.Kind.BASELINE if is_baseline else Attempt.Kind.AGENT,
                ref=ref.ref,
                commit=commit.oid,
                kernel_tree=tree,
                campaign=campaign,
                subject=storable(commit.subject, 300),
                body=storable(commit.body, BODY_LIMIT),
                hypothesis=storable(commit.trailers.get("Hypothesis", ""), 2000),
                model=storable(commit.trailers.get("Model", ""), 100),
                authored_at=commit.authored_at,
            )
            if with_evaluations:
                log_event("attempt.pushed", agent.name, attempt=attempt, problem=problem, commit=commit.oid)
                schedule_attempt(attempt)
    except IntegrityError:
        # Another process indexed the same push; its transaction queued the evaluations.
        if Attempt.objects.filter(commit=commit.oid).exists():
            return None
        raise
    return attempt


def schedule_attempt(attempt: Attempt) -> list[Evaluation]:
    """Queue an attempt wherever it belongs.

    A baseline belongs on every hardware its problem is optimised for, if it is of a kind that is measured without being
    asked for; `manage.py baselines` asks for others.
    """
    if attempt.kind == Attempt.Kind.BASELINE:
        if BaselineKind.of_slug(attempt.slug) not in DEFAULT_KINDS:
            return []
        active = attempt.problem.campaigns.filter(state=Campaign.State.ACTIVE)
        names = {HardwareName(name) for name in active.values_list("hardware", flat=True)}
        return [
            schedule(attempt, name, priority=Evaluation.Priority.BASELINE, reason="baseline")
            for name in sorted(names)
        ]
    names = hardware_for(attempt.problem, attempt.language, attempt.campaign)
    return [
        schedule(attempt, name, kind=compiling.kind_for(attempt.language, name), reason="push") for name in names
    ]


def measure_what_was_only_compiled() -> int:
    """Queue a measurement of attempts that were compiled for want of a device, once there is one. Returns how many."""
    rows = compiling.only_compiled(_BATCH)
    for row in rows:
        schedule(row.attempt, row.hardware, reason="compiled before there was a device")
    return len(rows)


def _campaign(problem: Problem, language: Language, name: str) -> Campaign | None:
    """The campaign an attempt counts for: the one it names if that is active or paused, else the only one that fits,
    which is a paused one only where none is active.
    """
    fitting = problem.campaigns.filter(language=language.value)
    if name:
        return fitting.filter(name=name[:100]).exclude(state=Campaign.State.FINISHED).first()
    for state in (Campaign.State.ACTIVE, Campaign.State.PAUSED):
        if candidates := list(fitting.filter(state=state)[:2]):
            return candidates[0] if len(candidates) == 1 else None
    return None


def _link_parent(repository: AttemptsRepository, attempt: Attempt) -> None:
    candidates = Attempt.objects.filter(problem=attempt.problem_id).exclude(pk=attempt.pk)
    nearest = repository.nearest_ancestor(attempt.commit, set(candidates.values_list("commit", flat=True)))
    if nearest is not None:
        attempt.parent = Attempt.objects.get(commit=nearest)
        attempt.save(update_fields=["parent"])


def _ignore(item: _Found, why: str) -> None:
    message = f"commit {item.commit.oid} on {item.ref.branch} is not indexed: {why}"
    if not Event.objects.filter(kind="attempt.ignored", data__commit=item.commit.oid, data__why=why).exists():
        logger.warning("%s", message)
        log_event("attempt.ignored", item.ref.agent, commit=item.commit.oid, ref=item.ref.ref, why=why)


def _batches(items: Iterable[tuple[AttemptRef, str]], size: int) -> Iterator[list[tuple[AttemptRef, str]]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch

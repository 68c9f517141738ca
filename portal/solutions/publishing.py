"""Reviewing attempts and merging them into the public repository. Logic without HTTP; who may call is checked here too.

A merge publishes to git first (compare-and-swap) and writes the row after it, so a crash in between leaves a published
commit without a row; `reconcile` adds that row. The row is never without its commit.
"""

from __future__ import annotations

import json
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agentcore.gitstore import AttemptsRepository, CommitRecord, Identity, Publication, SolutionsRepository
from agentcore.judge.result import EvaluationResult
from agentcore.problems import ProblemError, load_problem
from agentcore.vocabulary import AttemptRef, HardwareName, Language, Verdict
from portal.attempts.models import Attempt
from portal.attempts.repository import problem_files
from portal.devices import standing as devices
from portal.evaluations import sanitizing, scores
from portal.evaluations.models import Evaluation
from portal.events.models import log as log_event
from portal.problems.models import Problem
from portal.solutions import replacing
from portal.solutions.models import AUTOMATIC, Review, Solution
from portal.solutions.replacing import Replacement
from portal.text import storable

COMMENT_LIMIT = 10_000


class PublishingError(ValueError):
    """A review or merge is not allowed as things stand; the message says why and what would have to change."""


def review(
    attempt: Attempt, user, decision: str, comment: str = "", evaluation: Evaluation | None = None
) -> Review:
    """Record ``user``'s decision on ``attempt``. The newest approval or rejection is the one that counts."""
    _require_engineer(user)
    if decision not in Review.Decision.values:
        raise PublishingError(f"decision {decision!r} is none of: {', '.join(Review.Decision.values)}")
    comment = storable(comment.strip(), COMMENT_LIMIT)
    if decision == Review.Decision.COMMENT and not comment:
        raise PublishingError("a comment needs a text")
    if decision == Review.Decision.REJECTED and not comment:
        raise PublishingError("a rejection needs a comment that says why")
    if evaluation is not None and not _measures(evaluation, attempt):
        raise PublishingError(f"evaluation {evaluation.pk} did not measure attempt {attempt.commit[:10]}")
    with transaction.atomic():
        row = Review.objects.create(
            attempt=attempt, evaluation=evaluation, reviewer=user, reviewer_name=user.get_username(),
            decision=decision, comment=comment, created_at=timezone.now(),
        )
        log_event(
            f"review.{decision}", user, attempt=attempt, evaluation=evaluation, problem=attempt.problem, review=row.pk
        )
        if decision == Review.Decision.APPROVED:
            replacing.ask_where_needed(attempt, user)
    return row


def acknowledge(attempt: Attempt, run: Evaluation, user, reason: str) -> Review:
    """Record why ``attempt`` may be merged in spite of what sanitizer run ``run`` found: an event, and a comment.

    The comment puts it beside the reviews, in git too. Raises PublishingError where there is nothing to acknowledge.
    """
    _require_engineer(user)
    try:
        with transaction.atomic():
            event = sanitizing.acknowledge(attempt, run, user, reason)
            said = f"Sanitizer run {run.pk} ({run.verdict}) acknowledged: {event.data['reason']}"
            return review(attempt, user, Review.Decision.COMMENT, said)
    except sanitizing.NotAcknowledged as error:
        raise PublishingError(str(error)) from None


def standing_review(attempt: Attempt) -> Review | None:
    """The newest approval or rejection of ``attempt``."""
    return attempt.reviews.exclude(decision=Review.Decision.COMMENT).order_by("-created_at", "-id").first()


def obstacles(attempt: Attempt, evaluation: Evaluation) -> list[str]:
    """Everything that forbids merging ``attempt`` on the strength of ``evaluation``; empty if nothing does."""
    found = []
    if not _measures(evaluation, attempt):
        found.append(f"evaluation {evaluation.pk} did not measure this attempt's kernel")
    if evaluation.kind != Evaluation.Kind.MEASURE:
        found.append(f"evaluation {evaluation.pk} is of kind {evaluation.kind}; only a measurement can be merged")
        return found
    if evaluation.state != Evaluation.State.DONE or evaluation.verdict != Verdict.PASSED.value:
        found.append(f"the evaluation is {evaluation.verdict or evaluation.state}; only a passed one can be merged")
        return found
    result = EvaluationResult.model_validate(evaluation.result)
    if result.stamp.sandbox in ("", "none"):
        found.append("the evaluation ran without a sandbox, so nothing it says can be trusted")
    trust = devices.standing(evaluation.device_uuid, evaluation.harness_version)
    if trust.word == devices.FAILED:
        found.append(f"{trust.warning} Nothing measured there can be merged until it passes one")
    failed = sorted({check.name.value for check in result.failed_checks()})
    if failed:
        found.append(f"checks failed: {', '.join(failed)}")
    if evaluation.problem_digest != attempt.problem.digest:
        found.append("the problem has changed since the evaluation; evaluate again")
    standing = scores.standing_evaluations(pk=evaluation.attempt_id).filter(hardware=evaluation.hardware).first()
    if standing is not None and standing.pk != evaluation.pk:
        found.append(f"evaluation {evaluation.pk} is superseded by {standing.pk} ({standing.verdict})")
    approval = standing_review(attempt)
    if approval is None:
        found.append("the attempt is not approved")
    elif approval.decision != Review.Decision.APPROVED:
        found.append(f"the attempt was rejected by {approval.reviewer_name}")
    if reason := sanitizing.standing(attempt, evaluation).obstacle:
        found.append(reason)
    if Solution.objects.filter(
        attempt=attempt, evaluation=evaluation, hardware=evaluation.hardware, superseded_at=None
    ).exists():
        found.append("it is already the current solution")
    replaced = replacing.replacement(attempt, evaluation.hardware)
    if replaced is not None and replaced.obstacle:
        found.append(replaced.obstacle)
    return found


def merge(attempt: Attempt, evaluation: Evaluation, user, *, acknowledged: bool = False) -> Solution:
    """Publish ``attempt`` as the solution of its problem, language and hardware, in place of the one before.

    Where their A/B comparison does not prove it faster, ``user`` must have ``acknowledged`` that; it goes on record in
    the commit's trailers and the event log. Raises PublishingError naming every obstacle, GitStoreError where git
    refuses; nothing has changed then.
    """
    _require_engineer(user)
    if found := obstacles(attempt, evaluation):
        raise PublishingError("; ".join(found))
    replaced = replacing.replacement(attempt, evaluation.hardware)
    unproven = replaced is not None and not replaced.proven
    if replaced is not None and unproven and not acknowledged:
        raise PublishingError(
            f"it is not proven faster than the current solution: {replaced.words}; acknowledge that to merge it"
        )
    approval = standing_review(attempt)
    assert approval is not None
    publication = _publication(attempt, evaluation, approval, user, replaced)
    with SolutionsRepository.open(Path(settings.SOLUTIONS_REPOSITORY)) as repository:
        commit = repository.publish(publication)
        with transaction.atomic():
            _write_rows(list(repository.history()), recovered=False)
            solution = Solution.objects.get(commit=commit)
            log_event(
                "solution.merged", user, attempt=attempt, evaluation=evaluation, problem=attempt.problem,
                commit=commit, hardware=evaluation.hardware, language=attempt.language,
                **(_replacement_facts(replaced) if replaced else {}), **({"acknowledged": True} if unproven else {}),
            )
    return solution


def reconcile() -> list[Solution]:
    """Add a row for every published commit that has none (a crash after publishing, or a lost database)."""
    with SolutionsRepository.open(Path(settings.SOLUTIONS_REPOSITORY)) as repository:
        history = list(repository.history())
    with transaction.atomic():
        return _write_rows(history, recovered=True)


def _require_engineer(user) -> None:
    if not (getattr(user, "is_authenticated", False) and user.is_active):
        raise PublishingError("only a logged-in engineer may review or merge")


def _measures(evaluation: Evaluation, attempt: Attempt) -> bool:
    """Whether ``evaluation`` is of this attempt or of an exact duplicate of its kernel."""
    measured = evaluation.attempt
    return measured.pk == attempt.pk or (
        measured.kernel_tree == attempt.kernel_tree
        and measured.problem_id == attempt.problem_id
        and measured.language == attempt.language
    )


def _replacement_facts(replaced: Replacement) -> dict[str, object]:
    """What the event log keeps of the comparison that a replacement rested on."""
    found = replaced.comparison
    return {
        "replaces": replaced.solution.attempt.commit,
        "comparison": replaced.evaluation.pk if replaced.evaluation else None,
        "change": found.change.value if found else None, "ratio": found.ratio if found else None,
        "low": found.low if found else None, "high": found.high if found else None,
    }


def _review_trailer(approval: Review) -> dict[str, str]:
    if approval.is_automatic:
        return {"Review": AUTOMATIC}
    approver = Identity.of_person(approval.reviewer_name, approval.reviewer.email if approval.reviewer else "")
    return {"Reviewed-by": f"{approver.name} <{approver.email}>"}


def _replacement_trailers(replaced: Replacement, user) -> dict[str, str]:
    trailers = {"Replaces": replaced.solution.attempt.commit, "Compared": replaced.words}
    if replaced.evaluation is not None:
        trailers["Comparison-Run"] = replaced.evaluation.lease_token
    if not replaced.proven:
        trailers["Acknowledged"] = f"not proven faster, by {user.get_full_name() or user.get_username()}"
    return trailers


def _publication(
    attempt: Attempt, evaluation: Evaluation, approval: Review, user, replaced: Replacement | None
) -> Publication:
    problem = attempt.problem
    try:
        digest = load_problem(problem.directory()).digest
    except ProblemError as error:
        raise PublishingError(f"the problem's files cannot be read: {error}") from None
    if digest != evaluation.problem_digest:
        raise PublishingError("the problem's files have changed since the evaluation; import and evaluate again")
    ref = AttemptRef.parse(attempt.ref)
    with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
        files = repository.read_kernel(attempt.commit, ref)
        author = repository.commit(attempt.commit)
    prefix = f"problems/{problem.name}/"
    speedup = f", {evaluation.speedup:.2f}× over the baseline" if evaluation.speedup else ""
    reviewer = Identity.of_person(user.get_full_name() or user.get_username(), user.email)
    return Publication(
        problem=problem.name,
        language=Language(attempt.language),
        hardware=HardwareName(evaluation.hardware),
        attempt=attempt.commit,
        files=files,
        subject=f"{problem.name} in {attempt.language} on {evaluation.hardware}{speedup}",
        body=f"{attempt.subject}\n\n{attempt.body}".strip(),
        author=Identity(author.author_name, author.author_email),
        committer=reviewer,
        trailers={
            "Agent": attempt.agent.name,
            "Model": attempt.model,
            "Campaign": attempt.campaign.name if attempt.campaign else "",
            "Evaluation": str(evaluation.pk),
            "Run": evaluation.lease_token,
            "Harness": evaluation.harness_version,
            "Sanitizers": sanitizing.standing(attempt, evaluation).summary,
            **_review_trailer(approval),
            **(_replacement_trailers(replaced, user) if replaced else {}),
        },
        extra_files={"result.json": (json.dumps(evaluation.result, indent=1, sort_keys=True) + "\n").encode()},
        problem_files={path.removeprefix(prefix): content for path, content in problem_files(problem)},
        harness_version=evaluation.harness_version,
        summary={"speedup": evaluation.speedup, "sol_score": evaluation.sol_score},
    )


def _write_rows(history: list[CommitRecord], *, recovered: bool) -> list[Solution]:
    """Make the rows of ``history`` (oldest first) exist, each superseded by the next of its kind. Returns new ones."""
    existing = {row.commit: row for row in Solution.objects.filter(commit__in=[record.oid for record in history])}
    superseded_by: dict[str, CommitRecord] = {}
    newest: dict[tuple[str, ...], CommitRecord] = {}
    for record in history:
        kind = _kind(record)
        if kind in newest:
            superseded_by[newest[kind].oid] = record
        newest[kind] = record
    created = []
    for record in history:  # oldest first: the old current row is superseded before the new one is inserted
        later = superseded_by.get(record.oid)
        superseded_at = later.committed_at if later else None
        row = existing.get(record.oid)
        if row is not None:
            if row.superseded_at is None and superseded_at is not None:
                row.superseded_at = superseded_at
                row.save(update_fields=["superseded_at"])
        elif (row := _create_row(record, superseded_at)) is not None:
            created.append(row)
            if recovered:
                log_event(
                    "solution.recovered", "system", attempt=row.attempt, evaluation=row.evaluation,
                    problem=row.problem, commit=row.commit,
                )
    return created


def _kind(record: CommitRecord) -> tuple[str, ...]:
    return tuple(record.trailers.get(key, "") for key in ("Problem", "Language", "Hardware"))


def _create_row(record: CommitRecord, superseded_at) -> Solution | None:
    """The row of one published commit, or None where the attempt or evaluation it names is not known (yet)."""
    trailers = record.trailers
    attempt = Attempt.objects.filter(commit=trailers.get("Attempt", "")).select_related("problem").first()
    problem = Problem.objects.filter(name=trailers.get("Problem", "")).first()
    evaluation = _evaluation(trailers)
    if attempt is None or problem is None or evaluation is None:
        return None
    approval = (
        attempt.reviews.filter(decision=Review.Decision.APPROVED).order_by("-created_at", "-id").first()
    )
    return Solution.objects.create(
        problem=problem, language=trailers.get("Language", ""), hardware=trailers.get("Hardware", ""),
        attempt=attempt, evaluation=evaluation, review=approval, commit=record.oid,
        published_at=record.committed_at, superseded_at=superseded_at,
    )


def _evaluation(trailers: dict[str, str]) -> Evaluation | None:
    run, number = trailers.get("Run", ""), trailers.get("Evaluation", "")
    if run:
        return Evaluation.objects.filter(lease_token=run, state=Evaluation.State.DONE).first()
    return Evaluation.objects.filter(pk=int(number)).first() if number.isdigit() else None

"""What the quick start does as its reviewer: approve and merge its tuners' best attempt per problem, if it is a gain.

What any other agent pushed waits for a person, and an approval given here says that none looked at it.
The rules a person would follow: passed, every check, not proven slower than the PyTorch baseline, and, where a
solution is published already, faster than it beyond the noise. What a person merged is that person's decision and
stays. Sanitizers look at the kernels first, where the host has them; what they find is a person's to answer for, so
such a kernel is left alone. `publishing` enforces the hard rules again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings

from agentcore.gitstore import GitStoreError
from agentcore.vocabulary import Change
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations import comparisons, sanitizing, scores
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.problems.models import Problem
from portal.quickstart import accounts
from portal.solutions import publishing, replacing
from portal.solutions.models import AUTOMATIC, Review, Solution

POLL_S = 0.5
COMMENT = f"{AUTOMATIC}: it passed every check and has the best SOL score of its tuners' attempts at this problem."


@dataclass(frozen=True, slots=True)
class Decision:
    """What happened to one problem: ``merged`` just now, or the reason why not."""

    problem: str
    merged: bool
    reason: str


def merge_best(
    campaign: Campaign, user, settle: Callable[[Evaluation], None] | None = None,
    problems: Sequence[Problem] | None = None,
) -> list[Decision]:
    """Go through the campaign's problems (or only ``problems`` of them) by name. ``user``: the quick start's reviewer.

    ``settle`` returns when a comparison that was asked for has ended or takes too long (default: wait for a worker).
    """
    decisions = []
    for problem, best, reason in _choices(campaign, user, problems):
        if best is None or reason:
            decisions.append(Decision(problem.name, False, reason))
            continue
        try:
            if publishing.standing_review(best.attempt) is None:
                publishing.review(best.attempt, user, Review.Decision.APPROVED, COMMENT, best)
            if reason := _side_by_side(best, user, settle or wait_for):
                decisions.append(Decision(problem.name, False, reason))
                continue
            publishing.merge(best.attempt, best, user)
        except (publishing.PublishingError, GitStoreError) as error:
            decisions.append(Decision(problem.name, False, f"not merged, {error}"))
        else:
            decisions.append(Decision(problem.name, True, f"attempt {best.attempt.commit[:10]}"))
    return decisions


def ask_for_sanitizers(
    campaign: Campaign, user, problems: Sequence[Problem] | None = None
) -> list[Evaluation]:
    """Have sanitizers look at what `merge_best` would merge, where that is demanded. Returns the runs to wait for."""
    runs = []
    for _, best, reason in _choices(campaign, user, problems):
        if best is not None and not reason:
            standing = sanitizing.standing(best.attempt, best)
            if standing.demanded and standing.run is None:
                runs.append(sanitizing.request(best.attempt, best.hardware, user, "before the merge")[0])
    return runs


def own_attempts(campaign: Campaign, problem: Problem) -> int:
    """How many attempts the quick start's tuners have made at ``problem``."""
    return campaign.attempts.filter(
        problem=problem, language=campaign.language, kind=Attempt.Kind.AGENT, agent__in=accounts.own_agents()
    ).count()


def _choices(
    campaign: Campaign, user, problems: Sequence[Problem] | None
) -> Iterator[tuple[Problem, Evaluation | None, str]]:
    """Each problem by name, the evaluation of the tuners' best attempt, and why not to merge it, if there is a reason.
    """
    wanted = campaign.problems.order_by("name")
    if problems is not None:
        wanted = wanted.filter(pk__in=[problem.pk for problem in problems])
    for problem in wanted:
        best = scores.best_evaluation(
            problem, campaign.language, campaign.hardware, campaign=campaign, agent__in=accounts.own_agents()
        )
        if best is not None:
            reason = _objection(problem, best, user)
        elif own_attempts(campaign, problem):
            reason = "not merged, no attempt passed"
        else:
            reason = "not merged, no attempt was made yet"
        yield problem, best, reason


def wait_for(evaluation: Evaluation) -> None:
    """Until ``evaluation`` has ended, as long as one may take."""
    deadline = time.monotonic() + settings.EVALUATION_DEADLINE_S
    while time.monotonic() < deadline:
        evaluation.refresh_from_db(fields=["state"])
        if evaluation.state not in Evaluation.PENDING:
            return
        time.sleep(POLL_S)


def _side_by_side(best: Evaluation, user, settle: Callable[[Evaluation], None]) -> str:
    """Why not, of a kernel that would replace one of the reviewer's own: both must have been measured in turn."""
    found = replacing.replacement(best.attempt, best.hardware)
    if found is not None and found.comparison is None and not found.trouble:
        asked = replacing.ask(best.attempt, best.hardware, user)
        if asked is not None:
            settle(asked)
        found = replacing.replacement(best.attempt, best.hardware)
    if found is None or found.proven:
        return ""
    return f"not merged, not proven faster than the current solution side by side ({found.words or found.obstacle})"


def current(campaign: Campaign) -> list[Solution]:
    """The published solutions of the campaign's problems in its language on its hardware."""
    return list(
        Solution.objects.filter(
            problem__campaigns=campaign, language=campaign.language, hardware=campaign.hardware, superseded_at=None
        )
        .select_related("problem")
        .order_by("problem__name")
    )


def _objection(problem: Problem, best: Evaluation, user) -> str:
    published = Solution.objects.filter(
        problem=problem, language=best.attempt.language, hardware=best.hardware, superseded_at=None
    ).select_related("evaluation", "attempt__agent").first()
    if published is not None:
        if published.evaluation_id == best.pk:
            return "already merged"
        if not _merged_by(user, published):
            return "not merged, a person chose the current solution; replace it on the attempt's page"
        change = comparisons.compare(best, published.evaluation).change
        if change is not Change.IMPROVED:
            return f"not merged, not proven faster than the current solution ({change})"
    baseline = scores.current_baseline(problem, best.hardware)
    if baseline is None:
        return "not merged, no PyTorch baseline passed to compare it with"
    if comparisons.compare(best, baseline).change is Change.REGRESSED:
        figure = f" ({best.speedup:.2f}×)" if best.speedup else ""
        return f"not merged, slower than the PyTorch baseline{figure}"
    return ""


def _merged_by(user, solution: Solution) -> bool:
    """Whether ``user`` merged ``solution``. Not known, as after a reindex, counts as no: better kept than lost.

    A person may log in as the quick start's reviewer: what is of another agent only a person can have merged.
    """
    if solution.attempt.agent not in accounts.own_agents():
        return False
    return Event.objects.filter(kind="solution.merged", data__commit=solution.commit, actor=user).exists()

"""Sanitizer runs and merging: when one is demanded, which one counts, and what an acknowledgement is."""

from __future__ import annotations

import json

import pytest
from django.conf import settings as django_settings

from agentcore.gitstore import AttemptsRepository, SolutionsRepository
from agentcore.vocabulary import HardwareName, Verdict
from portal.attempts import intake, notes
from portal.attempts.models import Attempt
from portal.attempts.reindex import reindex
from portal.evaluations import queue, sanitizing, scores
from portal.evaluations.models import Evaluation
from portal.evaluations.sanitizing import NotAcknowledged
from portal.events.models import Event
from portal.solutions import publishing
from portal.solutions.models import Review
from portal.solutions.publishing import PublishingError
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db
TOOLS = ["address", "undefined", "thread"]


@pytest.fixture
def eve():
    return make.make_user("eve")


@pytest.fixture
def attempt() -> Attempt:
    return make.make_attempt()


def measured(attempt: Attempt, tools: list[str] = TOOLS, **fields) -> Evaluation:
    """A passed measurement on a host with these sanitizers."""
    hardware = fields.pop("hardware", HardwareName.CPU)
    stamp = make.make_stamp(hardware, sanitizers=tools)
    return make.make_evaluation(attempt, result=make.make_result(attempt, hardware=hardware, stamp=stamp), **fields)


def test_a_run_is_demanded_where_the_host_has_the_tool(attempt):
    standing = sanitizing.standing(attempt, measured(attempt))
    assert standing.demanded
    assert "no sanitizer has looked" in standing.obstacle


def test_none_is_demanded_of_a_host_without_the_tool(attempt):
    standing = sanitizing.standing(attempt, measured(attempt, []))
    assert (standing.demanded, standing.obstacle) == (False, "")


def test_none_is_demanded_of_a_language_that_no_tool_looks_at():
    attempt = make.make_attempt(language="torch")
    assert sanitizing.standing(attempt, measured(attempt)).obstacle == ""


def test_a_measurement_from_before_there_were_sanitizers_demands_none(attempt):
    evaluation = measured(attempt)
    Evaluation.objects.filter(pk=evaluation.pk).update(stamp={"host": "bench1"})
    evaluation.refresh_from_db()
    assert sanitizing.standing(attempt, evaluation).obstacle == ""


def test_a_clean_run_is_no_obstacle(attempt):
    evaluation = measured(attempt)
    make.make_sanitizer_run(attempt)
    standing = sanitizing.standing(attempt, evaluation)
    assert (standing.clean, standing.obstacle, standing.summary) == (True, "", "clean")


def test_findings_are_an_obstacle_until_somebody_answers_for_them(attempt, eve):
    evaluation = measured(attempt)
    run = make.make_sanitizer_run(attempt, make.make_finding())
    assert f"sanitizer run {run.pk} ended with findings" in sanitizing.standing(attempt, evaluation).obstacle
    event = sanitizing.acknowledge(attempt, run, eve, "  The tail is padded by the caller. ")
    assert (event.actor, event.data["reason"]) == (eve, "The tail is padded by the caller.")
    standing = sanitizing.standing(attempt, evaluation)
    assert (standing.obstacle, standing.summary) == ("", "findings, acknowledged by eve")


def test_findings_count_where_no_run_was_demanded(attempt):
    evaluation = measured(attempt, [])
    make.make_sanitizer_run(attempt, make.make_finding())
    assert "findings" in sanitizing.standing(attempt, evaluation).obstacle


def test_an_acknowledgement_is_of_one_run(attempt, eve):
    evaluation = measured(attempt)
    sanitizing.acknowledge(attempt, make.make_sanitizer_run(attempt, make.make_finding()), eve, "Known.")
    make.make_sanitizer_run(attempt, make.make_finding(kind="heap-use-after-free"))
    assert sanitizing.standing(attempt, evaluation).needs_reason


def test_the_newest_run_counts_and_our_own_faults_do_not(attempt):
    evaluation = measured(attempt)
    make.make_sanitizer_run(attempt, make.make_finding())
    clean = make.make_sanitizer_run(attempt)
    make.make_sanitizer_run(attempt, verdict=Verdict.INFRA_ERROR)
    assert sanitizing.standing(attempt, evaluation).run == clean


def test_a_tool_that_never_works_must_be_answered_for_too(attempt, eve):
    evaluation = measured(attempt)
    run = make.make_sanitizer_run(attempt, verdict=Verdict.INFRA_ERROR)
    assert "ended with infra_error" in sanitizing.standing(attempt, evaluation).obstacle
    sanitizing.acknowledge(attempt, run, eve, "The tool does not know this GPU yet.")
    assert sanitizing.standing(attempt, evaluation).obstacle == ""


def test_a_run_of_the_same_kernel_counts_and_one_of_another_does_not(attempt):
    twin = make.make_attempt(attempt.problem, make.make_agent("twin"), kernel_tree=attempt.kernel_tree)
    other = make.make_attempt(attempt.problem, make.make_agent("other"))
    run = make.make_sanitizer_run(twin)
    make.make_sanitizer_run(other, make.make_finding())
    assert sanitizing.standing(attempt, measured(attempt)).run == run


def test_a_run_of_the_problem_as_it_was_does_not_count(attempt):
    make.make_sanitizer_run(attempt)
    attempt.problem.digest = "e" * 64
    attempt.problem.save()
    assert sanitizing.standing(attempt, measured(attempt)).run is None


def test_asking_twice_gives_one_run_ahead_of_agents_work(attempt, eve):
    first, new = sanitizing.request(attempt, "cpu", eve)
    again, second = sanitizing.request(attempt, "cpu", eve)
    assert (new, second, again) == (True, False, first)
    assert (first.kind, first.priority) == (Evaluation.Kind.SANITIZE, Evaluation.Priority.RERUN)
    standing = sanitizing.standing(attempt, measured(attempt))
    assert f"sanitizer run {first.pk} is queued" in standing.obstacle


@pytest.mark.parametrize(
    ("which", "reason", "why"),
    [("findings", "  ", "say why"), ("clean", "Fine.", "nothing to acknowledge"), ("measured", "Fine.", "no sanitizer"),
     ("stranger", "Fine.", "no sanitizer run of this kernel")],
)
def test_what_cannot_be_acknowledged_says_why(attempt, eve, which, reason, why):
    run = {
        "findings": lambda: make.make_sanitizer_run(attempt, make.make_finding()),
        "clean": lambda: make.make_sanitizer_run(attempt),
        "measured": lambda: measured(attempt),
        "stranger": lambda: make.make_sanitizer_run(make.make_attempt(agent=make.make_agent("x")), make.make_finding()),
    }[which]()
    with pytest.raises(NotAcknowledged, match=why):
        sanitizing.acknowledge(attempt, run, eve, reason)
    assert not Event.objects.filter(kind=sanitizing.ACKNOWLEDGED).exists()


def test_a_clean_run_is_no_standing_result_and_no_best_one(attempt):
    run = make.make_sanitizer_run(attempt)
    assert scores.best_evaluation(attempt.problem, "cpp", "cpu") is None
    assert not scores.standing_evaluations().filter(pk=run.pk).exists()


def pushed(tmp_path, tools: list[str] = TOOLS) -> tuple[Attempt, Evaluation]:
    """A pushed, measured and approved attempt in real repositories."""
    repos.start(tmp_path)
    make.make_agent("ada")
    repos.push("scale", "ada", "int kernel;\nint tail;\n")
    (attempt,) = intake.reconcile()
    claim = queue.claim("cpu", "w")
    queue.finish(claim, make.make_result(attempt, stamp=make.make_stamp(sanitizers=tools)))
    return attempt, Evaluation.objects.get(pk=claim.evaluation_id)


def test_a_merge_waits_for_the_run_and_for_the_reason_and_publishes_both(tmp_path, eve):
    attempt, evaluation = pushed(tmp_path)
    publishing.review(attempt, eve, "approved", evaluation=evaluation)
    with pytest.raises(PublishingError, match="no sanitizer has looked"):
        publishing.merge(attempt, evaluation, eve)
    run = make.make_sanitizer_run(attempt, make.make_finding())
    with pytest.raises(PublishingError, match="ended with findings"):
        publishing.merge(attempt, evaluation, eve)
    publishing.acknowledge(attempt, run, eve, "The header pads every row.")
    solution = publishing.merge(attempt, evaluation, eve)
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        trailers = repository.commit(solution.commit).trailers
    assert trailers["Sanitizers"] == "findings, acknowledged by eve"
    comment = Review.objects.get(decision="comment")
    assert comment.comment == f"Sanitizer run {run.pk} (findings) acknowledged: The header pads every row."
    assert [e.kind for e in Event.objects.filter(actor=eve).order_by("id")] == [
        "review.approved", "sanitizer.acknowledged", "review.comment", "solution.merged",
    ]


def test_a_merge_without_a_tool_says_nothing_of_sanitizers(tmp_path, eve):
    attempt, evaluation = pushed(tmp_path, [])
    publishing.review(attempt, eve, "approved", evaluation=evaluation)
    solution = publishing.merge(attempt, evaluation, eve)
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        assert "Sanitizers" not in repository.commit(solution.commit).trailers


def test_only_an_engineer_acknowledges(tmp_path):
    from django.contrib.auth.models import AnonymousUser

    attempt, _ = pushed(tmp_path)
    run = make.make_sanitizer_run(attempt, make.make_finding())
    with pytest.raises(PublishingError, match="logged-in engineer"):
        publishing.acknowledge(attempt, run, AnonymousUser(), "Fine.")


def test_a_run_is_noted_in_git_and_comes_back_from_there(tmp_path):
    attempt, _ = pushed(tmp_path)
    run = make.make_sanitizer_run(attempt, make.make_finding(message="read of 4 bytes past x"))
    result, commit = run.result, attempt.commit
    notes.write()
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        lines = [json.loads(line) for line in repository.read_notes("evaluations", commit)]
    assert [(line["kind"], line["verdict"]) for line in lines] == [("measure", "passed"), ("sanitize", "findings")]
    assert lines[1]["sanitizer"]["findings"][0]["line"] == 2
    Evaluation.objects.all().delete()
    reindex()
    restored = Evaluation.objects.get(kind=Evaluation.Kind.SANITIZE)
    assert restored.result["sanitizer"] == result["sanitizer"]
    assert restored.verdict == "findings"
    again = Attempt.objects.get(commit=commit)
    standing = sanitizing.standing(again, Evaluation.objects.get(kind=Evaluation.Kind.MEASURE))
    assert (standing.run, standing.demanded) == (restored, True)

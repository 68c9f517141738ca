"""Review and merge: what is allowed, what is published, and what a crash in between leaves."""

from __future__ import annotations

import json

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser

from agentcore.gitstore import Publication, SolutionsRepository
from agentcore.official import OfficialSolution
from agentcore.vocabulary import CheckName, Verdict
from portal.agents.models import Agent
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.problems.models import Problem
from portal.solutions import publishing
from portal.solutions.models import AUTOMATIC, Solution
from portal.solutions.publishing import PublishingError
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


@pytest.fixture
def problem(tmp_path) -> Problem:
    return repos.start(tmp_path)


@pytest.fixture
def eve():
    return make.make_user("eve")


def judged(source: str = "v1", *, agent: str = "ada", **fields) -> Evaluation:
    """A pushed attempt with a finished evaluation."""
    Agent.objects.get_or_create(name=agent)
    ref, oid = repos.push("scale", agent, source, message=f"Write {source}\n\nIt is better.")
    intake.reconcile([ref.ref])
    attempt = Attempt.objects.get(commit=oid)
    queue.finish(queue.claim("cpu", "w"), make.make_result(attempt, **fields))
    return Evaluation.objects.get(attempt=attempt)


def compared(evaluation: Evaluation, **comparison) -> Evaluation:
    """The comparison that the approval asked for, done by a worker."""
    claim = queue.claim("cpu", "w", [Evaluation.Kind.COMPARE])
    result = make.make_result(evaluation.attempt).model_copy(
        update={"comparison": make.make_comparison(**comparison)}
    )
    assert queue.finish(claim, result)
    return Evaluation.objects.get(pk=claim.evaluation_id)


def published() -> dict[str, bytes]:
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        return repository.read("scale", "cpp", "cpu")


def main_commits() -> int:
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        return len(list(repository.history()))


def test_an_approved_passed_attempt_is_published_with_its_provenance(problem, eve):
    evaluation = judged("int main;")
    attempt = evaluation.attempt
    publishing.review(attempt, eve, "approved", "Nice.", evaluation=evaluation)
    solution = publishing.merge(attempt, evaluation, eve)

    files = published()
    assert files["kernel.cpp"] == b"int main;"
    assert json.loads(files["result.json"])["verdict"] == "passed"
    assert json.loads(files["solution.json"])["commit"] == attempt.commit
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        commit = repository.commit(solution.commit)
        assert repository.read_file(solution.commit, "problems/scale/reference.py") is not None
        assert repository.read_file(solution.commit, "problems/scale/heldout.jsonl") is None
    assert (commit.author_name, commit.committer_name) == ("ada", "eve")
    assert commit.trailers["Attempt"] == attempt.commit
    assert commit.trailers["Run"] == evaluation.lease_token
    assert commit.trailers["Reviewed-by"].startswith("eve <")
    assert solution.review.decision == "approved"
    assert [e.kind for e in Event.objects.filter(attempt=attempt, actor=eve).order_by("id")] == [
        "review.approved", "solution.merged",
    ]


def test_an_approval_that_a_program_gave_is_no_persons_review(problem, eve):
    evaluation = judged("int main;")
    publishing.review(evaluation.attempt, eve, "approved", f"{AUTOMATIC}: the best.", evaluation=evaluation)
    solution = publishing.merge(evaluation.attempt, evaluation, eve)
    with SolutionsRepository.open(django_settings.SOLUTIONS_REPOSITORY) as repository:
        trailers = repository.commit(solution.commit).trailers
    assert trailers["Review"] == AUTOMATIC
    assert "Reviewed-by" not in trailers


@pytest.fixture
def two_published(problem, eve) -> list[Solution]:
    """A kernel and the one that superseded it."""
    found = []
    for source in ('#include "problem.h"\n// v1\n', '#include "problem.h"\n// v2\n'):
        evaluation = judged(source)
        publishing.review(evaluation.attempt, eve, "approved")
        if found:
            compared(evaluation)
        found.append(publishing.merge(evaluation.attempt, evaluation, eve))
    return found


def test_a_published_solution_is_offered_as_a_solution_json(two_published, client):
    old, new = two_published
    assert f"/solutions/{new.commit}/solution.json" in client.get("/solutions/").content.decode()
    assert f"/solutions/{old.commit}/solution.json" in client.get(old.attempt.get_absolute_url()).content.decode()
    for solution, version in ((old, "v1"), (new, "v2")):
        response = client.get(f"/solutions/{solution.commit}/solution.json")
        assert response.status_code == 200 and response["Content-Type"] == "application/json"
        assert response["Content-Disposition"] == 'attachment; filename="scale-cpp-cpu.solution.json"'
        official = OfficialSolution.model_validate_json(response.content)
        assert (official.definition, official.author) == ("scale", "ada")
        assert official.files["kernel.cpp"].decode() == f'#include "problem.h"\n// {version}\n'
        assert official.files.keys() == {"kernel.cpp", "problem.h", "kernelyard_binding.cpp"}
        assert solution.attempt.commit in official.description
    assert client.post(f"/solutions/{new.commit}/solution.json").status_code == 405
    assert client.get(f"/solutions/{'0' * 40}/solution.json").status_code == 404


def test_a_solution_that_the_format_cannot_hold_says_why(two_published, client, monkeypatch):
    hostile = {"kernel.cpp": b"//", "more\u202e<b>.cpp": b"//"}
    monkeypatch.setattr(SolutionsRepository, "read", lambda *_: hostile)
    response = client.get(f"/solutions/{two_published[0].commit}/solution.json")
    assert response.status_code == 409 and response["Content-Type"].startswith("text/plain")
    assert "second source" in response.content.decode() and "\u202e" not in response.content.decode()


def test_a_better_attempt_supersedes_the_one_before(problem, eve):
    solutions = []
    for source in ("v1", "v2"):
        evaluation = judged(source)
        publishing.review(evaluation.attempt, eve, "approved")
        if solutions:
            compared(evaluation)
        solutions.append(publishing.merge(evaluation.attempt, evaluation, eve))
    old, new = solutions
    old.refresh_from_db()
    assert old.superseded_at is not None
    assert new.superseded_at is None
    assert published()["kernel.cpp"] == b"v2"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"verdict": Verdict.INCORRECT}, "only a passed one"),
        ({"verdict": Verdict.FASTER_THAN_LIGHT}, "only a passed one"),
        ({"stamp": "none"}, "without a sandbox"),
        ({"failed_check": CheckName.QUIET_DEVICE}, "checks failed: quiet-device"),
        ({"problem_digest": "other"}, "problem has changed"),
    ],
)
def test_what_was_not_judged_well_is_never_merged(problem, eve, fields, why):
    if fields.get("stamp") == "none":
        fields = {"stamp": make.make_stamp(sandbox="none")}
    evaluation = judged(**fields)
    publishing.review(evaluation.attempt, eve, "approved")
    with pytest.raises(PublishingError, match=why):
        publishing.merge(evaluation.attempt, evaluation, eve)
    assert published() == {}


def test_an_unfinished_evaluation_cannot_be_merged(problem, eve):
    make.make_agent("ada")
    repos.push("scale", "ada", "v1")
    (attempt,) = intake.reconcile()
    publishing.review(attempt, eve, "approved")
    with pytest.raises(PublishingError, match="queued"):
        publishing.merge(attempt, attempt.evaluations.get(), eve)


def test_merging_needs_an_approval_that_no_rejection_followed(problem, eve):
    evaluation = judged()
    attempt = evaluation.attempt
    with pytest.raises(PublishingError, match="not approved"):
        publishing.merge(attempt, evaluation, eve)
    publishing.review(attempt, eve, "approved")
    publishing.review(attempt, make.make_user("mallory"), "rejected", "It reads a file.")
    with pytest.raises(PublishingError, match="rejected by mallory"):
        publishing.merge(attempt, evaluation, eve)
    publishing.review(attempt, eve, "comment", "It does not.")
    with pytest.raises(PublishingError, match="rejected"):
        publishing.merge(attempt, evaluation, eve)
    publishing.review(attempt, eve, "approved")
    assert publishing.merge(attempt, evaluation, eve)


def test_a_rerun_with_another_verdict_takes_the_evaluation_out_of_the_running(problem, eve):
    evaluation = judged()
    attempt = evaluation.attempt
    publishing.review(attempt, eve, "approved")
    queue.enqueue(attempt, "cpu")
    queue.finish(queue.claim("cpu", "w"), make.make_result(attempt, verdict=Verdict.REWARD_HACK))
    with pytest.raises(PublishingError, match=r"superseded by .* \(reward_hack\)"):
        publishing.merge(attempt, evaluation, eve)


@pytest.mark.parametrize("user", [AnonymousUser(), None, "inactive"])
def test_only_a_logged_in_engineer_reviews_and_merges(problem, eve, user):
    if user == "inactive":
        user = make.make_user()
        user.is_active = False
    evaluation = judged()
    with pytest.raises(PublishingError, match="logged-in"):
        publishing.review(evaluation.attempt, user, "approved")
    publishing.review(evaluation.attempt, eve, "approved")
    with pytest.raises(PublishingError, match="logged-in"):
        publishing.merge(evaluation.attempt, evaluation, user)


def test_an_evaluation_of_another_kernel_vouches_for_nothing(problem, eve):
    good, other = judged("v1"), judged("v2")
    publishing.review(other.attempt, eve, "approved")
    with pytest.raises(PublishingError, match="did not measure"):
        publishing.merge(other.attempt, good, eve)
    with pytest.raises(PublishingError, match="did not measure"):
        publishing.review(other.attempt, eve, "approved", evaluation=good)


def test_a_problem_changed_on_disk_since_the_evaluation_is_not_published(problem, eve, tmp_path):
    evaluation = judged()
    publishing.review(evaluation.attempt, eve, "approved")
    repos.write_problem(django_settings.PROBLEMS_DIR, batches=(5,))
    with pytest.raises(PublishingError, match="files have changed"):
        publishing.merge(evaluation.attempt, evaluation, eve)
    assert main_commits() == 0


def test_merging_twice_is_refused(problem, eve):
    evaluation = judged()
    publishing.review(evaluation.attempt, eve, "approved")
    publishing.merge(evaluation.attempt, evaluation, eve)
    with pytest.raises(PublishingError, match="already the current solution"):
        publishing.merge(evaluation.attempt, evaluation, eve)
    assert main_commits() == 1


def test_a_crash_after_publishing_is_healed(problem, eve, monkeypatch):
    first = judged("v1")
    publishing.review(first.attempt, eve, "approved")
    publishing.merge(first.attempt, first, eve)
    second = judged("v2")
    publishing.review(second.attempt, eve, "approved")
    compared(second)

    def crash(*_, **__):
        raise SystemExit("power cut")

    monkeypatch.setattr(publishing, "_write_rows", crash)
    with pytest.raises(SystemExit):
        publishing.merge(second.attempt, second, eve)
    monkeypatch.undo()
    assert Solution.objects.count() == 1

    (recovered,) = publishing.reconcile()
    assert (recovered.attempt, recovered.superseded_at) == (second.attempt, None)
    assert Solution.objects.get(attempt=first.attempt).superseded_at == recovered.published_at
    assert publishing.reconcile() == []
    assert Event.objects.filter(kind="solution.recovered").count() == 1


def test_a_crash_before_publishing_leaves_no_trace(problem, eve, monkeypatch):
    evaluation = judged()
    publishing.review(evaluation.attempt, eve, "approved")

    def refuse(self, publication: Publication) -> str:
        raise OSError("no space left on device")

    monkeypatch.setattr(SolutionsRepository, "publish", refuse)
    with pytest.raises(OSError, match="no space"):
        publishing.merge(evaluation.attempt, evaluation, eve)
    assert not Solution.objects.exists()
    assert main_commits() == 0

"""Notes, and a database rebuilt from the repositories."""

from __future__ import annotations

import json

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django_q.models import OrmQ

from agentcore.gitstore import AttemptsRepository
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import Verdict
from portal.agents.models import Agent
from portal.attempts import intake, notes
from portal.attempts.models import Attempt
from portal.attempts.reindex import reindex
from portal.baselines.measuring import ensure_baselines
from portal.campaigns.models import Campaign
from portal.evaluations import queue, scores
from portal.evaluations.models import Device, Evaluation, WorkloadResult
from portal.events.models import Event
from portal.problems.models import Problem
from portal.solutions import publishing
from portal.solutions.models import Review, Solution
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


@pytest.fixture
def problem(tmp_path):
    return repos.start(tmp_path)


def judge(latencies=(20.0, 40.0), **fields) -> Evaluation:
    """Claim the next evaluation and finish it, as a worker does."""
    claim = queue.claim("cpu", "bench1:1")
    evaluation = Evaluation.objects.get(pk=claim.evaluation_id)
    assert queue.finish(claim, make.make_result(evaluation.attempt, latencies=latencies, **fields))
    evaluation.refresh_from_db()
    return evaluation


def lines(namespace: str, commit: str) -> list[dict]:
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        return [json.loads(line) for line in repository.read_notes(namespace, commit)]


def forget_everything() -> None:
    """What deleting the database and migrating leaves: no rows, accounts included."""
    Event.objects.all()._raw_delete("default")  # events refuse an ordinary delete
    Evaluation.objects.update(duplicate_of=None, baseline=None)
    for model in (Solution, Review, Evaluation, Device, Attempt, Campaign, Agent, Problem, get_user_model(), OrmQ):
        model.objects.all().delete()


def snapshot() -> dict[str, list]:
    """Every row that matters, by what identifies it outside the database."""
    return {
        "attempts": list(
            Attempt.objects.order_by("commit").values_list(
                "commit", "ref", "kind", "kernel_tree", "problem__name", "agent__name", "agent__kind",
                "parent__commit", "campaign__name", "subject", "body", "hypothesis", "received_at", "authored_at",
            )
        ),
        "evaluations": list(
            Evaluation.objects.filter(state="done").order_by("pk").values_list(
                "pk", "attempt__commit", "hardware", "verdict", "claims", "lease_token", "result", "speedup",
                "sol_score", "baseline_id", "queued_at", "started_at", "finished_at", "priority", "reason",
            )
        ),
        "unfinished": sorted(
            Evaluation.objects.exclude(state="done").values_list(
                "attempt__commit", "hardware", "state", "duplicate_of_id"
            )
        ),
        "workloads": sorted(WorkloadResult.objects.values_list("evaluation_id", "uuid", "latency_us", "sol_score")),
        "reviews": list(
            Review.objects.order_by("created_at").values_list(
                "attempt__commit", "reviewer_name", "decision", "comment", "created_at", "evaluation_id"
            )
        ),
        "solutions": list(
            Solution.objects.order_by("commit").values_list(
                "commit", "attempt__commit", "evaluation_id", "published_at", "superseded_at", "review__reviewer_name"
            )
        ),
        "campaigns": list(Campaign.objects.values_list("name", "language", "hardware", "problems__name")),
    }


def test_finished_evaluations_are_noted_on_their_commit_once(problem):
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    evaluation = judge()
    assert notes.write() == 2, "the attempt and its evaluation"
    assert notes.write() == 0
    (line,) = lines("evaluations", oid)
    assert EvaluationResult.model_validate(line) == EvaluationResult.model_validate(evaluation.result)
    assert (line["evaluation_id"], line["claims"], line["run"]) == (evaluation.pk, 1, evaluation.lease_token)
    evaluation.refresh_from_db()
    assert evaluation.note_written_at is not None


def test_a_comparison_is_rebuilt_with_what_it_was_compared_with(problem):
    make.make_agent("ada")
    for slug in ("first", "second"):
        repos.push("scale", "ada", slug, slug=slug)
        intake.reconcile()
        judge()
    old, new = Attempt.objects.order_by("id")
    queue.enqueue(new, "cpu", kind=Evaluation.Kind.COMPARE, against=old)
    claim = queue.claim("cpu", "bench1:1", [Evaluation.Kind.COMPARE])
    queue.finish(claim, make.make_result(new).model_copy(update={"comparison": make.make_comparison(1.5)}))
    notes.write()
    recorded = Evaluation.objects.get(kind="compare")
    forget_everything()
    assert reindex().faults == []
    rebuilt = Evaluation.objects.get(kind="compare")
    assert (rebuilt.attempt.commit, rebuilt.against.commit) == (new.commit, old.commit)
    assert (rebuilt.result, rebuilt.stamp) == (recorded.result, recorded.stamp)
    assert rebuilt.result["comparison"]["change"] == "improved"
    assert rebuilt.sol_score is None


def test_a_second_writer_leaves_the_work_to_the_first(problem):
    make.make_agent("ada")
    repos.push("scale", "ada", "v1")
    intake.reconcile()
    judge()
    with notes._only_writer() as first:
        assert first
        assert notes.write() == 0
    assert notes.write() == 2


def test_a_row_without_its_commit_does_not_keep_others_from_being_noted(problem):
    make.make_evaluation(result=make.make_result())
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    judge()
    assert notes.write() == 2
    assert len(lines("evaluations", oid)) == 1


def test_a_huge_result_is_noted_without_its_logs_and_samples(problem):
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    result = make.make_result(Attempt.objects.get(), runner_log="x" * 200_000)
    many = result.workloads[0].model_copy(update={"samples_us": [1.0] * 600_000})
    queue.finish(queue.claim("cpu", "w"), result.model_copy(update={"workloads": [many]}))
    assert notes.write() == 2
    (line,) = lines("evaluations", oid)
    assert line["workloads"][0]["samples_us"] == []
    assert line["workloads"][0]["latency_us"] == 20.0


def test_a_lost_database_comes_back_from_git(problem):
    make.make_agent("ada", kind=Agent.Kind.TUNER)
    make.make_agent("bob", kind=Agent.Kind.LLM)
    make.make_campaign("night", problems=[problem])
    ensure_baselines(problem)
    judge([400.0, 800.0])
    judge([40.0, 80.0])
    _, hers = repos.push("scale", "ada", "v1", Campaign="night", Hypothesis="wider")
    intake.reconcile()
    first = judge([20.0, 40.0])
    repos.push("scale", "bob", "v2", parent=hers)
    repos.push("scale", "bob", "v1", slug="copy")
    intake.reconcile()
    judge(verdict=Verdict.INCORRECT, latencies=[None, None])
    queue.enqueue(first.attempt, "cpu", priority=Evaluation.Priority.RERUN, reason="rerun by eve")
    rerun = judge([19.0, 39.0])
    engineer = make.make_user("eve")
    publishing.review(first.attempt, engineer, "comment", "Looks good.\nAlmost.")
    publishing.review(first.attempt, engineer, "approved", "Yes.", evaluation=rerun)
    publishing.merge(first.attempt, rerun, engineer)
    notes.write()
    before = snapshot()
    assert len(before["attempts"]) == 5
    assert len(before["evaluations"]) == 5
    assert len(before["unfinished"]) == 1

    forget_everything()
    assert not Evaluation.objects.exists()
    report = reindex()

    assert report.faults == []
    after = snapshot()
    for part in before:
        assert after[part] == before[part], part
    assert (report.attempts, report.evaluations, report.reviews, report.solutions) == (5, 5, 2, 1)

    again = reindex()
    assert (again.attempts, again.evaluations, again.reviews, again.solutions, again.queued) == (0, 0, 0, 0, 0)
    assert snapshot() == before
    assert queue.enqueue(Attempt.objects.first(), "cpu").pk > rerun.pk, "new numbers come after the restored ones"


def test_an_evaluation_noted_twice_is_restored_once(problem):
    """The writer crashed after appending and before it marked the row."""
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    judge()
    notes.write()
    Evaluation.objects.update(note_written_at=None)
    notes.write()
    assert len(lines("evaluations", oid)) == 2
    before = snapshot()
    forget_everything()
    assert reindex().evaluations == 1
    assert snapshot() == before


def test_work_that_was_queued_is_queued_again(problem):
    make.make_agent("ada")
    repos.push("scale", "ada", "v1")
    intake.reconcile()
    forget_everything()
    report = reindex()
    assert (report.attempts, report.evaluations, report.queued) == (1, 0, 1)
    assert Evaluation.objects.get().state == "queued"


def test_a_number_taken_meanwhile_does_not_lose_the_older_evaluation(problem):
    """The portal ran on with an empty database before anyone thought of reindexing."""
    make.make_agent("ada")
    repos.push("scale", "ada", "v1")
    intake.reconcile()
    old = judge()
    notes.write()
    old_number, token = old.pk, old.lease_token
    forget_everything()
    problem = repos.start_again()
    make.make_agent("ada")
    repos.push("scale", "ada", "v2", slug="later")
    (later,) = intake.reconcile(["refs/heads/attempts/scale/cpp/ada/later"])
    Evaluation.objects.filter(attempt=later).update(id=old_number)
    judge()
    reindex()
    assert Evaluation.objects.filter(state="done").count() == 2
    assert Evaluation.objects.get(lease_token=token).attempt.problem == problem
    assert scores.latest_evaluation(later).pk == old_number


def test_notes_that_are_no_evaluations_are_reported_and_passed_over(problem):
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    judge()
    notes.write()
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        repository.append_notes("evaluations", [(oid, "not json"), (oid, '{"verdict": "passed"}')])
        repository.append_notes("attempts", [(oid, "[]")])
        repository.append_notes("reviews", [(oid, "[]"), (oid, '{"decision": "approved"}')])
    forget_everything()
    report = reindex()
    assert report.evaluations == 1
    assert len(report.faults) == 5


def _changed(line: dict, **fields) -> str:
    return json.dumps({**line, "run": f"forged-{sorted(fields)}", **fields})


@pytest.mark.parametrize("forge", [
    lambda line: "[" * 100_000,
    lambda line: '{"a":' * 50_000 + "1" + "}" * 50_000,
    lambda line: json.dumps(line)[:-1] + f', "evaluation_id": {"9" * 9000}}}',
    lambda line: json.dumps(line) + json.dumps(line),
    lambda line: json.dumps([line]),
    lambda line: _changed(line, workloads={"0": 1}),
    lambda line: _changed(line, verdict="passed\n"),
], ids=["deep-list", "deep-object", "huge-number", "two-in-a-line", "in-a-list", "wrong-type", "odd-verdict"])
def test_a_note_that_would_break_a_parser_is_reported_and_the_rest_comes_back(problem, forge):
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    judge()
    notes.write()
    (honest,) = lines("evaluations", oid)
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        repository.append_notes("evaluations", [(oid, forge(honest))])
    forget_everything()
    report = reindex()
    assert report.evaluations == 1 and len(report.faults) == 1
    assert Evaluation.objects.get(state="done").lease_token == honest["run"]


@pytest.mark.parametrize("fields", [
    {"evaluation_id": 2**80}, {"evaluation_id": "7; DROP TABLE"}, {"evaluation_id": [1]}, {"evaluation_id": -1},
    {"evaluation_id": True}, {"evaluation_id": 1e308}, {"priority": 2**70}, {"claims": "many"},
    {"started_at": "2026-01-01T00:00:00"}, {"claimed_at": "99999-01-01", "queued_at": {}}, {"reason": "\x00\ud800"},
    {"against": "\x00"}, {"claimed_by": ["x"] * 1000}, {"kind": ["measure"]},
], ids=lambda fields: ",".join(fields))
def test_a_note_with_odd_values_neither_stops_nor_harms_the_others(problem, fields):
    make.make_agent("ada")
    _, oid = repos.push("scale", "ada", "v1")
    intake.reconcile()
    judge()
    notes.write()
    (honest,) = lines("evaluations", oid)
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        repository.append_notes("evaluations", [
            (oid, _changed(honest, **({"evaluation_id": honest["evaluation_id"] + 1} | fields))),
        ])
    forget_everything()
    report = reindex()
    assert report.evaluations + len(report.faults) == 2
    assert Evaluation.objects.get(lease_token=honest["run"]).pk == honest["evaluation_id"]
    assert reindex().evaluations == 0, "what came back once is recognised"


def test_the_command_says_what_is_not_in_git(problem, capsys) -> None:
    call_command("reindex")
    closing = capsys.readouterr().out.splitlines()[-1]
    assert "accounts and agents' tokens are not in git" in closing
    assert "createagent NAME --new-token" in closing

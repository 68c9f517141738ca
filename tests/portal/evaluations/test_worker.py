"""The worker around a judge that can be told how to behave (the real one is in test_cluster.py)."""

from __future__ import annotations

import time

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.utils import timezone
from django_q.exceptions import TimeoutException
from django_q.models import OrmQ, Schedule

from agentcore.judge.service import JudgeDied
from agentcore.vocabulary import Verdict
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations import queue, tasks, worker
from portal.evaluations.models import Evaluation
from portal.evaluations.worker import Worker
from portal.problems.models import Problem
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


class ScriptedJudge:
    """Answers each call with the next of ``script`` (a verdict, or an exception to raise); then passes everything."""

    script: list
    started: list
    digest = ""

    def __init__(self, hardware) -> None:
        type(self).started.append(self)
        self.closed = False
        self.seen: list[dict[str, bytes]] = []

    def evaluate(self, problem_dir, kernel_dir, language, *, deadline_s, should_abort):
        assert (problem_dir / "definition.json").is_file()
        assert kernel_dir.parent.stat().st_mode & 0o005 == 0o005, "the sandbox's user can reach it"
        self.seen.append({path.name: path.read_bytes() for path in kernel_dir.iterdir()})
        answer = type(self).script.pop(0) if type(self).script else Verdict.PASSED
        if isinstance(answer, BaseException):
            raise answer
        if answer == "hang":
            deadline = time.monotonic() + 10
            while not should_abort():
                assert time.monotonic() < deadline, "nobody gave up"
                time.sleep(0.01)
            raise JudgeDied("given up")
        result = make.make_result(Attempt.objects.get(), verdict=answer)
        return result.model_copy(update={"problem_digest": type(self).digest or result.problem_digest})

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def judge():
    ScriptedJudge.script, ScriptedJudge.started, ScriptedJudge.digest = [], [], ""
    return ScriptedJudge


@pytest.fixture
def attempt(tmp_path) -> Attempt:
    repos.start(tmp_path)
    make.make_agent("ada")
    repos.push("scale", "ada", "int kernel;")
    (attempt,) = intake.reconcile()
    return attempt


def test_a_row_is_exported_judged_and_recorded(attempt, judge):
    machine = Worker("cpu", judge)
    assert machine.run(budget_s=60) == (1, False)
    row = Evaluation.objects.get()
    assert (row.state, row.verdict, row.claims) == ("done", "passed", 1)
    assert judge.started[0].seen == [{"kernel.cpp": b"int kernel;"}]
    assert list((django_settings.CACHE_DIR / "exports").iterdir()) == [], "the export is gone"
    machine.close()
    assert judge.started[0].closed


def test_one_judge_serves_many_rows(attempt, judge):
    for _ in range(3):
        queue.enqueue(attempt, "cpu")
    machine = Worker("cpu", judge)
    assert machine.run(budget_s=60) == (4, False)
    assert len(judge.started) == 1
    machine.close()


@pytest.mark.parametrize("trouble", [JudgeDied("signal 9"), OSError("disk full"), TimeoutException("960 seconds")])
def test_trouble_with_the_judge_requeues_the_row_and_replaces_the_judge(attempt, judge, trouble):
    judge.script = [trouble]
    machine = Worker("cpu", judge)
    assert machine.run(budget_s=60) == (1, False)
    row = Evaluation.objects.get()
    assert row.state == "queued"
    assert str(trouble) in row.message
    assert judge.started[0].closed
    Evaluation.objects.update(not_before=timezone.now())
    machine.run(budget_s=60)
    row.refresh_from_db()
    assert (row.state, row.verdict, row.claims) == ("done", "passed", 2)
    assert len(judge.started) == 2
    machine.close()


def test_an_infrastructure_verdict_is_tried_again_and_kept_only_at_the_last_claim(attempt, judge, settings):
    judge.script = [Verdict.INFRA_ERROR] * settings.EVALUATION_MAX_CLAIMS
    machine = Worker("cpu", judge)
    for _ in range(settings.EVALUATION_MAX_CLAIMS):
        assert machine.run(budget_s=60)[0] == 1
        Evaluation.objects.update(not_before=None)
    row = Evaluation.objects.get()
    assert (row.state, row.verdict, row.claims) == ("done", "infra_error", 3)
    assert row.result["stamp"]["device_uuid"], "the judge's own account of it is kept"
    machine.close()


def test_a_commit_that_cannot_be_exported_ends_as_infra_error_with_the_reason(attempt, judge, settings):
    settings.EVALUATION_MAX_CLAIMS = 1
    Attempt.objects.update(commit="0" * 39 + "1")
    machine = Worker("cpu", judge)
    machine.run(budget_s=60)
    row = Evaluation.objects.get()
    assert row.verdict == "infra_error"
    assert "0" * 39 + "1" in row.message


def test_files_that_are_not_the_imported_problem_give_no_result(attempt, judge, settings):
    """Someone edited the problem, or this host has another checkout, and nobody imported it."""
    settings.EVALUATION_MAX_CLAIMS = 1
    judge.digest = "another"
    machine = Worker("cpu", judge)
    machine.run(budget_s=60)
    row = Evaluation.objects.get()
    assert row.verdict == "infra_error"
    assert "not the problem as imported" in row.message
    machine.close()


def test_a_host_with_other_paths_finds_the_problem_by_its_name(attempt, judge):
    Problem.objects.update(source_path="/only/on/the/portal")
    machine = Worker("cpu", judge)
    machine.run(budget_s=60)
    assert Evaluation.objects.get().verdict == "passed"
    machine.close()


def test_a_lost_lease_stops_the_judge_and_records_nothing(attempt, judge, settings, monkeypatch):
    settings.EVALUATION_LEASE_S = 0.06
    judge.script = ["hang"]
    monkeypatch.setattr(worker.queue, "renew", lambda claim: False)
    machine = Worker("cpu", judge)
    machine.run(budget_s=60)
    row = Evaluation.objects.get()
    assert (row.state, row.result) == ("running", None), "left for the reaper, or for its new owner"
    assert judge.started[0].closed


def test_a_long_queue_is_continued_by_another_message(attempt, judge):
    queue.enqueue(attempt, "cpu")
    machine = Worker("cpu", judge)
    assert machine.run(budget_s=0.02, after_each=lambda: time.sleep(0.03)) == (1, True)
    assert machine.run(budget_s=60) == (1, False)
    machine.close()


def test_an_idle_judge_gives_its_memory_back(attempt, judge, settings):
    settings.JUDGE_IDLE_S = 0.05
    machine = Worker("cpu", judge)
    machine.run(budget_s=60)
    deadline = time.monotonic() + 5
    while not judge.started[0].closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert judge.started[0].closed


def test_the_task_returns_normally_and_writes_notes(attempt, judge, monkeypatch):
    monkeypatch.setattr(tasks, "Worker", lambda hardware: Worker(hardware, judge))
    monkeypatch.setattr(tasks, "_workers", {})
    assert tasks.work("cpu") == "1 judged"
    assert Evaluation.objects.get().note_written_at is not None
    assert tasks.work("cpu") == "0 judged"
    assert tasks.work("abacus").startswith("failed:")


def test_housekeeping_finds_missed_hooks_lost_messages_and_dead_leases(attempt, judge):
    repos.push("scale", "ada", "int second;")
    stale = queue.claim("cpu", "dead:1")
    Evaluation.objects.filter(pk=stale.evaluation_id).update(lease_expires_at=timezone.now())
    OrmQ.objects.all().delete()
    done = tasks.tick()
    assert done["reaped"] == [stale.evaluation_id]
    assert done["attempts"] == 1
    assert OrmQ.objects.filter(key="kernelyard").exists()
    assert Attempt.objects.count() == 2


def test_one_failing_step_of_housekeeping_stops_no_other(attempt, monkeypatch):
    monkeypatch.setattr(queue, "reap", lambda: 1 / 0)
    repos.push("scale", "ada", "int second;")
    done = tasks.tick()
    assert str(done["reaped"]).startswith("failed")
    assert done["attempts"] == 1


def test_housekeeping_without_repositories_still_reaps(home):
    assert tasks.tick() == {"reaped": [], "woken": []}


def test_migrating_again_keeps_one_schedule():
    Schedule.objects.update(minutes=30)
    call_command("migrate", verbosity=0)
    assert Schedule.objects.get(name="housekeeping").minutes == 1



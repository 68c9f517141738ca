"""The worker around a judge that can be told how to behave (the real one is in test_cluster.py)."""

from __future__ import annotations

import socket
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.utils import timezone
from django_q.exceptions import TimeoutException
from django_q.models import OrmQ, Schedule
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from agentcore.gitstore import AttemptsRepository, mirror
from agentcore.judge.service import JudgeDied
from agentcore.vocabulary import AttemptRef, Verdict
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations import materials, queue, tasks, worker
from portal.evaluations.broker import Broker
from portal.evaluations.models import Evaluation
from portal.evaluations.schedule import ensure_schedule
from portal.evaluations.worker import Worker
from portal.events.models import Event
from portal.problems.models import Problem
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class ScriptedJudge:
    """Answers each call with the next of ``script`` (a verdict, or an exception to raise); then passes everything."""

    script: list
    started: list
    compared: list
    rounds: list
    sanitized = 0
    digest = ""

    def __init__(self, hardware) -> None:
        type(self).started.append(self)
        self.closed = False
        self.seen: list[dict[str, bytes]] = []

    def evaluate(self, problem_dir, kernel_dir, language, *, deadline_s, should_abort, against=None, sanitize=False):
        assert (problem_dir / "definition.json").is_file()
        assert kernel_dir.parent.stat().st_mode & 0o005 == 0o005, "the sandbox's user can reach it"
        self.seen.append(_files(kernel_dir))
        type(self).sanitized += sanitize
        if against is not None:
            type(self).compared.append((_files(kernel_dir), _files(against.kernel_dir)))
            type(self).rounds.append(against.rounds)
        answer = type(self).script.pop(0) if type(self).script else Verdict.PASSED
        if isinstance(answer, BaseException):
            raise answer
        if answer == "hang":
            deadline = time.monotonic() + 10
            while not should_abort():
                assert time.monotonic() < deadline, "nobody gave up"
                time.sleep(0.01)
            raise JudgeDied("given up")
        result = make.make_result(Attempt.objects.first(), verdict=answer)
        return result.model_copy(update={"problem_digest": type(self).digest or result.problem_digest})

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def judge():
    ScriptedJudge.script, ScriptedJudge.started, ScriptedJudge.digest = [], [], ""
    ScriptedJudge.compared, ScriptedJudge.rounds, ScriptedJudge.sanitized = [], [], 0
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


def test_a_comparison_takes_both_kernels_to_the_judge(attempt, judge, settings):
    queue.finish(queue.claim("cpu", "w"), make.make_result(attempt))
    _, oid = repos.push("scale", "ada", "int better;", slug="better")
    intake.reconcile()
    better = Attempt.objects.get(commit=oid)
    queue.enqueue(better, "cpu", kind=Evaluation.Kind.COMPARE, against=attempt)
    machine = Worker("cpu", judge)
    assert machine.run(budget_s=60) == (2, False)  # the push's own measurement, and the comparison
    by_source = {kernel["kernel.cpp"]: earlier for kernel, earlier in judge.compared}
    assert by_source == {b"int better;": {"kernel.cpp": b"int kernel;"}}
    assert judge.rounds == [settings.COMPARISON_ROUNDS]
    assert list((settings.CACHE_DIR / "exports").iterdir()) == []
    machine.close()


def test_a_sanitizer_run_goes_to_the_judge_as_one(attempt, judge):
    queue.finish(queue.claim("cpu", "w"), make.make_result(attempt))
    row = queue.enqueue(attempt, "cpu", kind=Evaluation.Kind.SANITIZE)
    judge.script = [Verdict.CLEAN]
    machine = Worker("cpu", judge)
    assert machine.run(budget_s=60) == (1, False)
    row.refresh_from_db()
    assert (row.state, row.verdict, judge.sanitized) == ("done", "clean", 1)
    machine.close()


def test_a_comparison_with_nothing_is_nobodys_verdict(attempt, judge):
    queue.finish(queue.claim("cpu", "w"), make.make_result(attempt))
    row = queue.enqueue(attempt, "cpu", kind=Evaluation.Kind.COMPARE)
    machine = Worker("cpu", judge)
    machine.run(budget_s=60)
    row.refresh_from_db()
    assert (row.state, row.verdict) == ("queued", "")
    assert "a comparison with nothing" in row.message
    machine.close()


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
    monkeypatch.setattr(tasks, "Worker", lambda hardware, *_: Worker(hardware, judge))
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
    assert OrmQ.objects.filter(key="cpu").exists()
    assert Attempt.objects.count() == 2


def test_one_failing_step_of_housekeeping_stops_no_other(attempt, monkeypatch):
    monkeypatch.setattr(queue, "reap", lambda: 1 / 0)
    repos.push("scale", "ada", "int second;")
    done = tasks.tick()
    assert str(done["reaped"]).startswith("failed")
    assert done["attempts"] == 1


def test_housekeeping_without_repositories_still_reaps(home):
    assert tasks.tick() == {"reaped": [], "rescoring": 0, "woken": []}


def test_migrating_again_keeps_one_schedule():
    Schedule.objects.update(minutes=30)
    call_command("migrate", verbosity=0)
    assert Schedule.objects.get(name="housekeeping").minutes == 1




@pytest.fixture
def other_host(settings, tmp_path, monkeypatch):
    """Makes the worker of this test one of another host, given the portal's git address as reached from there."""
    monkeypatch.setattr(mirror, "RETRY_PAUSE_S", 0.01)

    def at(url: str) -> None:
        settings.GIT_URL = url
        settings.ATTEMPTS_MIRROR = tmp_path / "other-home" / "attempts-mirror.git"

    return at


def closed_address() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/git/attempts.git"


@pytest.mark.django_db(transaction=True)
def test_a_portal_out_of_reach_costs_no_evaluation_a_claim_and_is_awaited(other_host, live_server, attempt, judge):
    second = queue.enqueue(attempt, "cpu")
    address = closed_address()
    other_host(address)
    machine = Worker("cpu", judge)
    for _ in range(5):  # more often than an evaluation may be claimed
        assert machine.run(budget_s=60) == (0, False)
        Evaluation.objects.update(not_before=None)
    first, untouched = Evaluation.objects.order_by("id")
    assert (first.state, first.claims, first.verdict) == ("queued", 0, "")
    for part in (machine.name, address, attempt.ref, attempt.commit):
        assert part in first.message
    assert (untouched.pk, untouched.claims, untouched.message) == (second.pk, 0, ""), "one row found out for all"
    assert Event.objects.filter(kind="evaluation.requeued").count() == 1
    assert judge.started == []

    other_host(f"{live_server.url}/git/attempts.git")
    assert machine.run(budget_s=60) == (2, False)
    assert list(Evaluation.objects.values_list("state", "verdict", "claims")) == [("done", "passed", 1)] * 2
    assert judge.started[0].seen == [{"kernel.cpp": b"int kernel;"}] * 2
    machine.close()


def test_fetching_counts_as_part_of_the_evaluations_time(attempt, judge, monkeypatch, settings):
    settings.EVALUATION_DEADLINE_S = 100
    given = []
    monkeypatch.setattr(judge, "evaluate", lambda *a, deadline_s, should_abort: given.append(deadline_s) or 1 / 0)
    export = materials.export_kernel
    monkeypatch.setattr(materials, "export_kernel", lambda *a: time.sleep(0.2) or export(*a))
    Worker("cpu", judge).run(budget_s=60)
    assert 90 < given[0] < 99.8


def test_other_files_of_the_problem_are_noticed_before_any_measuring(attempt, judge, settings):
    settings.EVALUATION_MAX_CLAIMS = 1
    reference = Problem.objects.get().directory() / "reference.py"
    reference.write_text(reference.read_text() + "# edited\n")
    Worker("cpu", judge).run(budget_s=60)
    row = Evaluation.objects.get()
    assert row.verdict == "infra_error"
    for part in (str(reference.parent), Problem.objects.get().digest[:12], "update this host's checkout"):
        assert part in row.message
    assert judge.started == []


def test_a_problem_that_this_host_does_not_have_is_named(attempt, judge, settings):
    settings.EVALUATION_MAX_CLAIMS = 1
    Problem.objects.update(source_path="/only/on/the/portal")
    settings.PROBLEMS_DIR = settings.KERNELYARD_HOME / "nothing"
    Worker("cpu", judge).run(budget_s=60)
    row = Evaluation.objects.get()
    assert row.verdict == "infra_error"
    assert f"scale cannot be read from {settings.PROBLEMS_DIR / 'scale'}" in row.message


def test_another_host_neither_notes_nor_indexes_nor_packs(other_host, attempt):
    repos.push("scale", "ada", "int second;")
    other_host(closed_address())
    assert tasks.tick() == {"reaped": [], "rescoring": 0, "woken": []}
    assert tasks.pack() == {}
    tasks._after_each()
    assert Attempt.objects.count() == 1
    assert Attempt.objects.get().note_written_at is None


def test_the_portals_repositories_are_packed_and_lose_nothing(attempt):
    before = sum(1 for path in (django_settings.ATTEMPTS_REPOSITORY / "objects").glob("??/*"))
    assert before
    assert tasks.pack() == {"attempts": "packed", "solutions": "packed"}
    assert not list((django_settings.ATTEMPTS_REPOSITORY / "objects").glob("??/*"))
    with AttemptsRepository.open(django_settings.ATTEMPTS_REPOSITORY) as repository:
        assert repository.read_kernel(attempt.commit, AttemptRef.parse(attempt.ref)) == {"kernel.cpp": b"int kernel;"}


def test_housekeeping_and_packing_are_scheduled_for_the_portals_own_cluster():
    ensure_schedule()
    rows = Schedule.objects.order_by("name").values_list("name", "func", "schedule_type", "minutes", "cluster")
    assert list(rows) == [
        ("housekeeping", "portal.evaluations.tasks.tick", Schedule.MINUTES, 1, None),
        ("packing", "portal.evaluations.tasks.pack", Schedule.HOURLY, None, None),
    ]


def test_only_the_portals_own_cluster_takes_housekeeping_and_it_takes_cpu_work_too(attempt):
    async_task("portal.evaluations.tasks.tick", cluster="kernelyard")
    OrmQ.objects.filter(key="cpu").update(lock=timezone.now() - timedelta(hours=1))
    queue.wake("h200")
    OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1))

    def taken_by(cluster: str) -> list[str]:
        broker, found = Broker(list_key=cluster), []
        while messages := broker.dequeue():
            found += [SignedPackage.loads(payload)["func"].rpartition(".")[2] for _, payload in messages]
        OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1))
        return found

    assert taken_by("cpu") == ["work"]
    assert taken_by("h200") == ["work"]
    assert taken_by("kernelyard") == ["bounds", "tick", "work"]

"""The rules of the queue, one process: claim, lease, fence, reap, retry."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from django_q.models import OrmQ

from agentcore.vocabulary import Verdict
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
Priority = Evaluation.Priority


def test_enqueue_writes_the_row_and_wakes_the_cluster_of_its_hardware():
    attempt = make.make_attempt()
    queue.enqueue(attempt, "cpu", reason="push")
    queue.enqueue(attempt, "h200", reason="push")
    assert sorted(OrmQ.objects.values_list("key", flat=True)) == ["cpu", "h200"]
    message = OrmQ.objects.get(key="h200")
    assert (message.task["func"], message.task["args"]) == ("portal.evaluations.tasks.work", ("h200",))


def test_a_rolled_back_row_takes_its_message_with_it():
    attempt = make.make_attempt()
    with transaction.atomic():
        queue.enqueue(attempt, "cpu")
        transaction.set_rollback(True)
    assert not Evaluation.objects.exists()
    assert not OrmQ.objects.exists()


def test_claims_go_by_priority_then_age_and_only_within_the_hardware():
    attempt = make.make_attempt()
    agent = queue.enqueue(attempt, "cpu")
    second = queue.enqueue(attempt, "cpu")
    baseline = queue.enqueue(attempt, "cpu", priority=Priority.BASELINE)
    rerun = queue.enqueue(attempt, "cpu", priority=Priority.RERUN)
    queue.enqueue(attempt, "b200", priority=Priority.RERUN)
    order = []
    while claim := queue.claim("cpu", "w"):
        order.append(claim.evaluation_id)
    assert order == [rerun.pk, baseline.pk, agent.pk, second.pk]


def test_a_claim_leases_the_row_and_counts():
    evaluation = make.make_evaluation()
    claim = queue.claim("cpu", "host:1")
    evaluation.refresh_from_db()
    assert claim == queue.Claim(evaluation.pk, evaluation.lease_token, 1)
    assert (evaluation.state, evaluation.claims, evaluation.claimed_by) == ("running", 1, "host:1")
    assert evaluation.lease_expires_at > timezone.now()
    assert queue.claim("cpu", "host:2") is None


def test_finishing_under_the_live_token_records_once():
    evaluation = make.make_evaluation()
    claim = queue.claim("cpu", "w")
    result = make.make_result(evaluation.attempt)
    assert queue.finish(claim, result)
    assert not queue.finish(claim, result)
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict, evaluation.lease_token) == ("done", "passed", claim.token)
    assert evaluation.workloads.count() == 2
    assert Event.objects.filter(kind="evaluation.finished", evaluation=evaluation).count() == 1


def test_a_late_result_under_a_dead_token_is_refused_and_the_live_one_accepted():
    evaluation = make.make_evaluation()
    dead = queue.claim("cpu", "slow")
    assert queue.reap(timezone.now() + timedelta(hours=1)) == [evaluation.pk]
    live = queue.claim("cpu", "fast")
    assert not queue.renew(dead)
    assert not queue.finish(dead, make.make_result(evaluation.attempt, verdict=Verdict.INCORRECT))
    assert queue.finish(live, make.make_result(evaluation.attempt))
    evaluation.refresh_from_db()
    assert (evaluation.verdict, evaluation.claims, evaluation.claimed_by) == ("passed", 2, "fast")


def test_a_renewed_lease_is_not_reaped(settings):
    make.make_evaluation()
    claim = queue.claim("cpu", "w")
    Evaluation.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert queue.renew(claim)
    assert queue.reap() == []
    assert Evaluation.objects.get().state == "running"


def test_a_lease_renewed_between_the_look_and_the_update_is_left_alone(monkeypatch):
    """Another worker renews just after the reaper listed the row as stale."""
    evaluation = make.make_evaluation()
    claim = queue.claim("cpu", "w")
    Evaluation.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    held = queue._held

    def renew_first(stale):
        monkeypatch.setattr(queue, "_held", held)
        queue.renew(claim)
        return held(stale)

    monkeypatch.setattr(queue, "_held", renew_first)
    assert queue.reap() == []
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.lease_token) == ("running", claim.token)


def test_reaping_wakes_the_cluster():
    make.make_evaluation(hardware="h100")
    queue.claim("h100", "w")
    queue.reap(timezone.now() + timedelta(hours=1))
    assert OrmQ.objects.get().key == "h100"


def test_after_the_last_claim_a_dead_worker_ends_the_evaluation_as_infra_error(settings):
    evaluation = make.make_evaluation()
    later = timezone.now() + timedelta(hours=1)
    for _ in range(settings.EVALUATION_MAX_CLAIMS):
        assert queue.claim("cpu", "w")
        queue.reap(later)
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict) == ("done", "infra_error")
    assert "stopped renewing" in evaluation.message
    assert queue.claim("cpu", "w") is None


def test_giving_up_pauses_the_row_and_ends_it_at_the_last_claim(settings):
    evaluation = make.make_evaluation()
    for number in range(1, settings.EVALUATION_MAX_CLAIMS):
        claim = queue.claim("cpu", "w")
        assert claim.number == number
        assert queue.give_up(claim, "the device is busy")
        evaluation.refresh_from_db()
        assert (evaluation.state, evaluation.message) == ("queued", "the device is busy")
        assert queue.claim("cpu", "w") is None, "not before the pause is over"
        Evaluation.objects.update(not_before=timezone.now())
    assert queue.give_up(queue.claim("cpu", "w"), "the device is busy")
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict, evaluation.message) == ("done", "infra_error", "the device is busy")


def test_a_released_row_is_claimable_at_once():
    evaluation = make.make_evaluation()
    claim = queue.claim("cpu", "w")
    assert queue.release(claim, "its worker is gone")
    assert not queue.release(claim)
    evaluation.refresh_from_db()
    assert evaluation.message == "its worker is gone"
    assert queue.claim("cpu", "w").evaluation_id == evaluation.pk
    evaluation.refresh_from_db()
    assert evaluation.message == "", "why it waited is over"


def test_only_queued_rows_can_be_cancelled():
    evaluation = make.make_evaluation()
    assert queue.cancel(evaluation, "ada")
    assert queue.claim("cpu", "w") is None
    running = make.make_evaluation()
    queue.claim("cpu", "w")
    assert not queue.cancel(running, "ada")


def test_lost_messages_are_sent_again_only_where_work_is_due_and_none_is_pending():
    make.make_evaluation(hardware="h200")
    make.make_evaluation(hardware="cpu", not_before=timezone.now() + timedelta(minutes=5))
    assert queue.wake_all() == ["h200"]
    assert queue.wake_all() == [], "a message is already waiting for that cluster"
    assert OrmQ.objects.count() == 1

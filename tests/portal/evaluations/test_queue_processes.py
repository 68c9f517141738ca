"""The queue among real processes, on SQLite and on PostgreSQL: each row is worked on by one, and recorded once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress

import pytest

FILL = """
from portal.evaluations import queue
attempt = make.make_attempt()
for _ in range({count}):
    queue.enqueue(attempt, "cpu")
"""
CLAIM_ALL = """
from portal.evaluations import queue
print("ready", flush=True)
sys.stdin.readline()
claimed = []
while (claim := queue.claim("cpu", "worker {name}")) is not None:
    claimed.append(claim.evaluation_id)
print(json.dumps(claimed))
"""
CLAIM_AND_HANG = """
import time
from portal.evaluations import queue
claim = queue.claim("cpu", "doomed")
print(claim.token, flush=True)
time.sleep(600)
"""
TAKE_OVER = """
from datetime import timedelta
from django.utils import timezone
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
assert queue.reap() == [], "the lease is still alive"
assert queue.reap(timezone.now() + timedelta(minutes=10))
claim = queue.claim("cpu", "heir")
attempt = Evaluation.objects.get(pk=claim.evaluation_id).attempt
assert queue.finish(claim, make.make_result(attempt))
dead = queue.Claim(claim.evaluation_id, {token!r}, 1)
assert not queue.renew(dead)
assert not queue.finish(dead, make.make_result(attempt, latencies=[1.0, 1.0]))
row = Evaluation.objects.get()
print(json.dumps([row.state, row.verdict, row.claimed_by, row.claims, row.workloads.count(), row.latency_geomean_us]))
"""


def start_together(processes):
    """Let processes that print "ready" and wait for a line go on at the same moment."""
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.communicate()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def test_many_processes_claim_each_row_exactly_once(deployment):
    deployment.python(FILL.format(count=60))
    workers = [deployment.start(CLAIM_ALL.format(name=n), stdin=-1) for n in range(5)]
    start_together(workers)
    outputs = [worker.communicate(timeout=100) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 5, outputs
    claimed = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    rows = [row for mine in claimed for row in mine]
    assert len(rows) == 60
    assert len(set(rows)) == 60
    assert sum(bool(mine) for mine in claimed) > 1, "the work was shared"


def test_a_killed_workers_row_is_finished_by_another_exactly_once(deployment):
    deployment.python(FILL.format(count=1))
    doomed = deployment.start(CLAIM_AND_HANG)
    token = doomed.stdout.readline().strip()
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.communicate()
    state, verdict, by, claims, workloads, latency = deployment.json(TAKE_OVER.format(token=token))
    assert (state, verdict, by, claims, workloads) == ("done", "passed", "heir", 2, 2)
    assert latency > 20


def test_two_processes_finishing_and_reaping_at_once_record_one_outcome(deployment):
    """Many rows at the end of their lease: one process finishes each while another reaps each."""
    deployment.python(FILL.format(count=30))
    tokens = deployment.json(
        """
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from django.utils import timezone
claims = [queue.claim("cpu", "w") for _ in range(30)]
Evaluation.objects.update(lease_expires_at=timezone.now())
print(json.dumps([[c.evaluation_id, c.token] for c in claims]))
"""
    )
    finisher = deployment.start(
        f"""
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
attempt = Evaluation.objects.first().attempt
print("ready", flush=True)
sys.stdin.readline()
done = [queue.finish(queue.Claim(pk, token, 1), make.make_result(attempt)) for pk, token in {tokens!r}]
print(json.dumps(sum(done)))
""",
        stdin=-1,
    )
    reaper = deployment.start(
        """
from portal.evaluations import queue
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(len(queue.reap())))
""",
        stdin=-1,
    )
    start_together([finisher, reaper])
    (finished, finish_errors), (reaped, reap_errors) = finisher.communicate(), reaper.communicate()
    assert (finisher.returncode, reaper.returncode) == (0, 0), finish_errors + reap_errors
    states = deployment.json(
        """
from portal.evaluations.models import Evaluation, WorkloadResult
print(json.dumps([Evaluation.objects.filter(state=s).count() for s in ("done", "queued", "running")]
                 + [WorkloadResult.objects.count()]))
"""
    )
    assert states == [int(finished), int(reaped), 0, 2 * int(finished)]
    assert int(finished) + int(reaped) == 30


RECORD = """
from django.db import transaction
from portal.problems.models import Problem
problem = Problem.objects.get()
stamp = make.make_stamp(device_uuid="{device}")
print("ready", flush=True)
with transaction.atomic():
    {record}
    print("recorded", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.postgres
def test_a_kernel_and_its_baseline_that_two_devices_record_at_once_meet(postgres_deployment):
    """Neither transaction sees the other's row: whoever scores second has to wait for the first."""
    postgres_deployment.python("make.make_problem()")
    kernel = postgres_deployment.start(RECORD.format(device="one", record=(
        "attempt = make.make_attempt(problem); "
        "make.make_evaluation(attempt, result=make.make_result(attempt, stamp=stamp))"
    )), stdin=-1)
    assert [kernel.stdout.readline() for _ in range(2)] == ["ready\n", "recorded\n"], kernel.communicate()
    baseline = postgres_deployment.start(
        RECORD.format(device="two", record="make.make_baseline(problem, stamp=stamp)"), stdin=subprocess.DEVNULL
    )
    assert baseline.stdout.readline() == "ready\n", baseline.communicate()
    # With nothing to wait for it would be done in this time, and the kernel stay without a score.
    with suppress(subprocess.TimeoutExpired):
        baseline.wait(timeout=1.5)
    assert kernel.communicate("go\n", timeout=60)[1] == "" and kernel.returncode == 0
    errors = baseline.communicate(timeout=60)[1]
    assert baseline.returncode == 0, errors
    assert postgres_deployment.json(
        """
from portal.evaluations.models import Evaluation
print(json.dumps([row.speedup is not None for row in Evaluation.objects.all()]))
"""
    ) == [True, True]


@pytest.mark.postgres
def test_hostile_text_and_restored_numbers_suit_postgresql_too(postgres_deployment):
    """NUL in jsonb and a sequence behind explicit keys are what SQLite would never complain about."""
    postgres_deployment.python(
        """
from django.db import transaction
from portal.attempts.reindex import _reset_sequence
from portal.evaluations.models import Evaluation
with transaction.atomic():
    attempt = make.make_attempt()
    row = make.make_evaluation(attempt, result=make.make_result(attempt, message="a\\x00b\\ud800", runner_log="\\x00"))
    make.make_evaluation(attempt, pk=row.pk + 50)
    _reset_sequence()
    assert make.make_evaluation(attempt).pk > row.pk + 50
    transaction.set_rollback(True)
"""
    )

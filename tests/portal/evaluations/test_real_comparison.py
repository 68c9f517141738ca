"""A comparison from the queue to its record, by the real judge."""

from __future__ import annotations

import pytest

from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations import queue
from portal.evaluations.models import Evaluation
from portal.evaluations.worker import Worker
from tests.portal import factories as make
from tests.portal import repositories as repos
from tests.portal.evaluations.clusters import KERNEL, NEEDS_A_JUDGE

pytestmark = [*NEEDS_A_JUDGE, pytest.mark.django_db]


def test_a_worker_has_two_kernels_measured_in_turn(tmp_path, settings, lay_cpu_rates):
    lay_cpu_rates(settings.CACHE_DIR)
    settings.COMPARISON_ROUNDS, settings.EVALUATION_LEASE_S = 2, 600
    repos.start(tmp_path)
    make.make_agent("ada")
    commits = [
        repos.push("scale", "ada", source, slug=slug)[1]
        for slug, source in (("plain", KERNEL), ("again", f"// The same once more.{KERNEL}"))
    ]
    intake.reconcile()
    old, new = (Attempt.objects.get(commit=commit) for commit in commits)
    Evaluation.objects.all().delete()  # their measurements are not what this is about
    row = queue.enqueue(new, "cpu", kind=Evaluation.Kind.COMPARE, against=old)
    machine = Worker("cpu")
    try:
        for _ in range(3):
            machine.run(budget_s=60)
            row.refresh_from_db()
            if row.state == Evaluation.State.DONE:
                break
            Evaluation.objects.update(not_before=None)  # the machine was busy
    finally:
        machine.close()
    assert (row.state, row.verdict) == ("done", "passed"), row.message
    found = row.result["comparison"]
    assert (len(found["rounds"]), found["old_language"], found["old_verdict"]) == (2, "cpp", "passed")
    assert found["low"] < found["ratio"] < found["high"]
    assert found["old_kernel_digest"] != row.result["kernel_digest"]
    assert sorted(one["first"] for one in found["rounds"]) == ["new", "old"]
    assert row.sol_score is None, "a comparison scores nothing"

"""Evaluations compared from their rows: the same answers as from the judge's records."""

from __future__ import annotations

import pytest

from agentcore.judge.compare import Measured
from agentcore.judge.compare import compare as compare_measured
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import Change, HardwareName, Verdict
from portal.evaluations import comparisons
from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def measured(problem, latencies, *, attempt=None, **result):
    attempt = attempt or make.make_attempt(problem)
    return make.make_evaluation(attempt, result=make.make_result(attempt, latencies=latencies, **result))


@pytest.fixture
def problem():
    return make.make_problem()


def test_a_change_within_the_noise_is_unproven_and_one_beyond_it_counts(problem):
    old = measured(problem, [2000.0, 4000.0])
    same = comparisons.compare(measured(problem, [1950.0, 3900.0]), old)
    assert same.change is Change.UNPROVEN
    assert same.low < 1 < same.ratio < same.high
    new = measured(problem, [1500.0, 3000.0])
    better, worse = comparisons.compare(new, old), comparisons.compare(old, new)
    assert (better.change, worse.change) == (Change.IMPROVED, Change.REGRESSED)
    assert better.ratio == pytest.approx(4 / 3)
    assert [w.change for w in better.workloads] == [Change.IMPROVED] * 2


def test_rows_give_what_the_records_give(problem):
    h200 = {"hardware": HardwareName.H200, "stamp": make.make_stamp(HardwareName.H200)}
    old = measured(problem, [2.4, 68.0], heldout=[1.0], **h200)
    new = measured(problem, [2.2, 60.0], heldout=[9.0], **h200)
    sides = [Measured.of(EvaluationResult.model_validate(e.result)) for e in (new, old)]
    told = compare_measured(*sides)
    found = comparisons.compare(new, old)
    assert (found.change, found.ratio, found.low, found.high) == (told.change, told.ratio, told.low, told.high)
    assert [w.uuid for w in found.workloads] == ["w0", "w1"]


def test_only_passed_evaluations_with_common_workloads_compare(problem):
    good = measured(problem, [2000.0, 4000.0])
    bad = measured(problem, [1000.0, 1000.0], verdict=Verdict.INCORRECT)
    assert comparisons.compare(bad, good).reasons == ("the new one did not pass (incorrect)",)
    waiting = make.make_evaluation(make.make_attempt(problem))
    assert "did not pass (queued)" in comparisons.compare(waiting, good).reasons[0]
    other = measured(problem, [2000.0])
    other.workloads.update(uuid="elsewhere")
    assert comparisons.compare(other, good).change is Change.INCOMPARABLE


def test_another_harness_or_device_model_is_never_silently_compared(problem):
    old = measured(problem, [2000.0, 4000.0])
    new = measured(problem, [1000.0, 2000.0], stamp=make.make_stamp(device_name="another", harness_version="0"))
    found = comparisons.compare(new, old)
    assert found.change is Change.INCOMPARABLE
    assert "another device model: another against A cpu device" in found.reasons
    assert any("another harness version: 0 against" in reason for reason in found.reasons)


def test_an_evaluation_without_a_readable_stamp_is_incomparable_and_breaks_nothing(problem):
    old, new = measured(problem, [2000.0, 4000.0]), measured(problem, [1000.0, 2000.0])
    for broken in (None, {"threads": "many"}, ["no", "stamp"], {"hardware": "abacus"}):
        Evaluation.objects.filter(pk=new.pk).update(stamp=broken)
        new.refresh_from_db()
        assert comparisons.compare(new, old).change is Change.INCOMPARABLE


def test_many_evaluations_are_made_ready_in_two_queries(problem, django_assert_num_queries):
    for _ in range(4):
        measured(problem, [2000.0, 4000.0])
    with django_assert_num_queries(2):
        first, *others = comparisons.ready(Evaluation.objects.all())
        assert all(comparisons.compare(other, first).change is Change.UNPROVEN for other in others)

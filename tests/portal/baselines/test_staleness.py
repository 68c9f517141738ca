"""What makes a measured baseline stale."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.baselines import staleness
from portal.evaluations.models import Device
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def problem():
    return make.make_problem()


def measured(attempt, minutes_ago: int, **stamp):
    result = make.make_result(attempt, stamp=make.make_stamp(**{"torch": "2.13", **stamp}))
    return make.make_evaluation(
        attempt, result=result, finished_at=timezone.now() - timedelta(minutes=minutes_ago)
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"harness_version": "1"}, "measured with harness 1, now "),
        ({"driver": "0.9"}, "another driver on its device: 1.0, measured with 0.9"),
        ({"torch": "2.1"}, "another torch on its device: 2.13, measured with 2.1"),
        ({"threads": 3}, "another number of threads on its device: 1, measured with 3"),
    ],
)
def test_another_harness_or_another_state_of_its_device(problem, changed, why):
    old = measured(make.make_baseline_attempt(problem), 9, **changed)
    kernel = measured(make.make_attempt(problem), 5)
    (reason,) = staleness.reasons(old, problem)
    assert reason.startswith(why)
    assert staleness.reasons(kernel, problem) == []


def test_another_problem(problem):
    row = measured(make.make_baseline_attempt(problem), 9)
    problem.digest = "e" * 64
    assert staleness.reasons(row, problem) == ["the problem changed"]


def test_a_device_model_that_joined_and_one_it_was_measured_on_too(problem):
    attempt = make.make_baseline_attempt(problem)
    first = measured(attempt, 9)
    other = {"device_uuid": "cpu-device-1", "device_name": "Another CPU"}
    measured(make.make_attempt(problem), 5, **other)
    assert Device.objects.count() == 2
    assert staleness.reasons(first, problem) == ["never measured on Another CPU, which the fleet uses now"]
    second = measured(attempt, 1, **other)
    assert staleness.reasons(second, problem) == staleness.reasons(first, problem) == []


def test_another_device_of_the_same_model_is_no_reason(problem):
    first = measured(make.make_baseline_attempt(problem), 9)
    measured(make.make_attempt(problem), 5, device_uuid="cpu-device-1")
    assert staleness.reasons(first, problem) == []


def test_another_torch_installed_on_this_host(problem, monkeypatch):
    monkeypatch.setattr(staleness, "_torch_here", lambda: "2.14")
    row = measured(make.make_baseline_attempt(problem), 9, host=staleness.platform.node())
    assert staleness.reasons(row, problem) == ["another torch on this host: 2.14, measured with 2.13"]
    away = measured(make.make_baseline_attempt(make.make_problem()), 9, device_uuid="cpu-device-1")
    assert staleness.reasons(away, away.attempt.problem) == []

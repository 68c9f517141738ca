"""Only measurements speak for an attempt: the other kinds of evaluation move no standing, score or duplicate."""

from __future__ import annotations

import json

import pytest

from agentcore.vocabulary import HardwareName
from portal.api import shapes
from portal.attempts import intake, notes
from portal.attempts.models import Attempt
from portal.evaluations import queue, rerun, scores
from portal.evaluations.models import Evaluation
from portal.pages import queries
from portal.solutions import publishing
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
Kind = Evaluation.Kind
OTHERS = [Kind.COMPILE, Kind.SANITIZE, Kind.COMPARE]


def recorded(attempt, kind, latencies=(20.0, 40.0)):
    return make.make_evaluation(attempt, kind=kind, result=make.make_result(attempt, latencies=latencies))


@pytest.mark.parametrize("kind", OTHERS)
def test_only_a_measurement_stands_for_an_attempt(kind):
    attempt = make.make_attempt()
    measured = recorded(attempt, Kind.MEASURE)
    other = recorded(attempt, kind, latencies=(1.0, 1.0))
    assert list(scores.standing_evaluations(pk=attempt.pk)) == [measured]
    assert scores.latest_evaluation(attempt) == measured
    assert (measured.sol_score, other.sol_score, other.baseline) == (None, None, None)
    make.make_baseline(attempt.problem)
    measured.refresh_from_db()
    other.refresh_from_db()
    assert measured.sol_score is not None
    assert other.sol_score is None


@pytest.mark.parametrize("kind", OTHERS)
def test_what_was_not_measured_cannot_be_merged(kind):
    attempt = make.make_attempt()
    assert f"is of kind {kind}" in " ".join(publishing.obstacles(attempt, recorded(attempt, kind)))


def test_a_baseline_of_another_kind_is_no_baseline():
    problem = make.make_problem()
    attempt = make.make_baseline_attempt(problem)
    recorded(attempt, Kind.SANITIZE)
    assert scores.current_baseline(problem, "cpu") is None


@pytest.mark.parametrize("kind", OTHERS)
def test_a_worker_gets_only_the_kinds_it_asks_for(kind):
    row = queue.enqueue(make.make_attempt(), HardwareName.CPU, kind=kind)
    assert queue.claim(HardwareName.CPU, "w") is None
    claim = queue.claim(HardwareName.CPU, "w", (Kind.MEASURE, kind))
    assert claim is not None
    assert claim.evaluation_id == row.pk


def test_kinds_are_scheduled_and_deduplicated_apart():
    first = make.make_attempt()
    measured = intake.schedule(first, HardwareName.CPU)
    compiled = intake.schedule(first, HardwareName.CPU, kind=Kind.COMPILE)
    assert (measured.kind, compiled.kind) == ("measure", "compile")
    assert intake.schedule(first, HardwareName.CPU, kind=Kind.COMPILE) == compiled
    same = make.make_attempt(first.problem, kernel_tree=first.kernel_tree)
    assert intake.schedule(same, HardwareName.CPU).duplicate_of == measured
    again = intake.schedule(same, HardwareName.CPU, kind=Kind.COMPILE)
    assert (again.kind, again.duplicate_of) == ("compile", compiled)


def test_a_rerun_asks_for_the_same_kind_again():
    user, attempt = make.make_user(), make.make_attempt()
    row = recorded(attempt, Kind.SANITIZE)
    queue.enqueue(attempt, HardwareName.CPU)
    again = rerun.rerun_evaluation(row, user)
    assert (again.kind, again.state) == ("sanitize", "queued")
    assert rerun.rerun_evaluation(row, user) == again
    assert [e.kind for e in rerun.rerun_attempt(attempt, user)] == ["measure"]


def test_pages_and_api_show_a_measurement_before_a_compilation_and_never_another_kind():
    attempt = make.make_attempt()
    recorded(attempt, Kind.SANITIZE)

    def outcome():
        return queries.with_outcome(Attempt.objects.all()).get().outcome_id

    def spoken():
        found = shapes.speaking_evaluation(attempt.evaluations.order_by("-id"))
        return found and found.pk

    assert (outcome(), spoken()) == (None, None)
    measured, compiled = recorded(attempt, Kind.MEASURE), recorded(attempt, Kind.COMPILE)
    assert (outcome(), spoken()) == (measured.pk, measured.pk)
    assert shapes.evaluation_summary(compiled)["kind"] == "compile"


def test_the_note_says_the_kind():
    row = recorded(make.make_attempt(), Kind.COMPARE)
    assert json.loads(notes.evaluation_line(row))["kind"] == "compare"

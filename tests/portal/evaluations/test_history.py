"""The running best, read in few queries, is the one that comparing every attempt with the leaders gives."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from django.utils import timezone

from agentcore.vocabulary import Change, Verdict
from portal.evaluations import comparisons
from portal.evaluations.history import running_best
from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def compared_one_by_one(problem) -> list[int]:
    """The numbers of the evaluations that took a lead, with every workload of everything read."""
    rows = comparisons.ready(
        Evaluation.objects.filter(attempt__problem=problem, attempt__kind="agent").order_by("finished_at", "id")
    )
    leaders: list[Evaluation] = []
    best: Evaluation | None = None
    found = []
    for row in rows:
        if row.verdict != Verdict.PASSED.value:
            continue
        takes = True
        for place, leader in enumerate(leaders):
            change = comparisons.compare(row, leader).change
            if change is not Change.INCOMPARABLE:
                takes = change is Change.IMPROVED
                if takes:
                    leaders[place] = row
                break
        else:
            leaders.append(row)
        if takes and (best is None or row.sol_score > best.sol_score):
            best = row
            found.append(row.pk)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_what_comparing_everything_gives(seed: int, django_assert_max_num_queries) -> None:
    problem = make.make_problem()
    make.make_baseline(problem, latencies=[400.0, 800.0])
    agent, dice, start = make.make_agent(), random.Random(seed), timezone.now()
    stamps = [make.make_stamp(), make.make_stamp(device_name="another model"), make.make_stamp(harness_version="0")]
    for minute in range(24):
        attempt, gain = make.make_attempt(problem, agent), (1 - minute / 48) * dice.uniform(0.8, 1.2)
        ended = dice.choice([Verdict.PASSED] * 4 + [Verdict.INCORRECT])
        times = [200 * gain, 400 * gain] if ended is Verdict.PASSED else [None, None]
        row = make.make_evaluation(attempt, result=make.make_result(
            attempt, latencies=times, verdict=ended, stamp=dice.choice(stamps), noise=dice.choice([0.001, 0.05])
        ))
        Evaluation.objects.filter(pk=row.pk).update(finished_at=start + timedelta(minutes=minute))
    with django_assert_max_num_queries(25):
        points = running_best(problem, "cpp", "cpu")
    assert len(points) == 24
    leading = [point.evaluation_id for point in points if point.is_new_best]
    assert leading == compared_one_by_one(problem)
    assert len(leading) > 2

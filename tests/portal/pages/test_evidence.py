"""What stands beside an evaluation's tables."""

from __future__ import annotations

import pytest

from portal.evaluations.models import Evaluation
from portal.pages.evidence import gather
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def test_every_rate_of_the_bounds_is_shown_once_with_its_source_and_the_best_that_was_measured():
    attempt = make.make_attempt()
    result = make.make_result(attempt).model_dump(mode="json")
    for workload in result["workloads"]:
        workload["bound"] |= {
            "rates": {"memory": 4.8e12, "half": 1.07e15}, "ceilings": {"memory": 4.18e12},
            "rate_sources": {"memory": "datasheet <b>", "half": "SM x clock"},
        }
    evaluation = Evaluation(attempt=attempt, result=result, hardware="cpu")
    evaluation.save()
    assert gather(evaluation).rates == [
        "memory 4.80 TB/s: datasheet <b>; measured at best 4.18 TB/s, which the bound does not use",
        "half 1.07 PFLOP/s: SM x clock",
    ]

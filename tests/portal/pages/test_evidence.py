"""What stands beside an evaluation's tables."""

from __future__ import annotations

import pytest

from agentcore.judge.result import BuildReport, KernelResources
from agentcore.vocabulary import Language
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


@pytest.mark.parametrize(("word", "caption", "said"), [
    ("binary", "What each function uses", "Read from the built binary; spills and barriers are a claim"),
    ("log", "What each function is said to use", "A claim, what the compiler's log says: a source can print"),
])
def test_what_functions_use_is_shown_with_whose_word_it_is(client, word, caption, said):
    attempt = make.make_attempt()
    kernel = KernelResources(name="scale", registers=31, spill_store_bytes=None)
    build = BuildReport(
        ok=True, language=Language.CPP, resources=[kernel], resources_from=word, resources_note="<i>cut</i>"
    )
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt).model_copy(update={"build": build}))
    found = gather(evaluation)
    assert found.resources is not None and found.resources.caption == caption
    assert found.resources_said.startswith(said)
    page = client.get(evaluation.get_absolute_url()).content.decode()
    assert said.replace("'", "&#x27;") in page and "Note: &lt;i&gt;cut&lt;/i&gt;" in page

"""What the README says of reviewing and merging is on the pages, word for word."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from portal.evaluations.models import Evaluation
from portal.solutions.models import Solution
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def test_the_words_of_the_steps_are_on_the_pages(as_reviewer: Client, client: Client, yard) -> None:
    readme = (settings.BASE_DIR / "README.md").read_text("utf-8")
    section = readme.partition("## Review and merge\n")[2].partition("\n## ")[0]
    words = [" ".join(word.split()) for word in re.findall(r"\*\*(.+?)\*\*", section, re.DOTALL)]
    assert len(words) > 8
    Solution.objects.create(
        problem=yard.problem, language="cpp", hardware="cpu", attempt=yard.passed, evaluation=yard.evaluation,
        commit=make.oid(), published_at=timezone.now(),
    )
    better = make.make_attempt(yard.problem, yard.agent, slug="better", parent=yard.passed)
    make.make_evaluation(better, result=make.make_result(better, latencies=(10.0, 20.0)))
    make.make_sanitizer_run(better)
    pages = client.get(better.get_absolute_url()).content.decode()
    pages += as_reviewer.get(better.get_absolute_url()).content.decode()
    result = make.make_result(better).model_copy(update={"comparison": make.make_comparison()})
    make.make_evaluation(better, result=result, kind=Evaluation.Kind.COMPARE, against=yard.passed)
    pages += as_reviewer.get(better.get_absolute_url()).content.decode()
    assert [word for word in words if word not in pages] == []
    assert "git clone" in section and "kernelyard verify solutions/solutions/" in section

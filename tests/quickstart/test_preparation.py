"""What the quick start works on: the portal gets the whole suite, the campaign only what a tuner can search."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcore.problems import find_problems
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem
from portal.quickstart import preparation

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


def test_the_campaign_holds_the_problems_with_a_kernel_to_tune_and_the_portal_lists_all() -> None:
    campaign = preparation.open_campaign(preparation.import_suite(()))
    listed = set(Problem.objects.filter(is_active=True).values_list("name", flat=True))
    assert listed == {path.name for path in find_problems(ROOT / "problems")}
    tunable = {
        source.parents[1].name
        for source in (ROOT / "kernels_repo" / "kernels").glob("*/cpp/kernel.cpp") if "// tune:" in source.read_text()
    }
    assert "rmsnorm_h4096" in tunable
    assert {p.name for p in campaign.problems.all()} == tunable
    assert not Evaluation.objects.exists(), "importing a problem measures nothing"

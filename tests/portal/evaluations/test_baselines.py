"""T_b: per workload the fastest verified baseline that the campaign's rule admits; every score kept with its own."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from agentcore.vocabulary import Verdict
from portal.evaluations import baselines, scores, tasks
from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def problem():
    return make.make_problem()


def measured(problem, slug: str, latencies, **fields) -> Evaluation:
    attempt = make.make_baseline_attempt(problem, slug=slug)
    return make.make_evaluation(attempt, result=make.make_result(attempt, latencies=latencies, **fields))


def kernel(problem, latencies=(20.0, 40.0), campaign=None, **fields) -> Evaluation:
    attempt = make.make_attempt(problem, campaign=campaign)
    return make.make_evaluation(attempt, result=make.make_result(attempt, latencies=latencies, **fields))


def t_b(evaluation: Evaluation) -> list[tuple]:
    rows = evaluation.workloads.filter(heldout=False)
    return [(row.baseline_us, row.baseline_kind, row.baseline_id) for row in rows]


def test_each_workload_is_held_against_the_fastest_of_its_own(problem):
    eager = measured(problem, "eager", [30.0, 90.0], heldout=[7.0])
    compiled = measured(problem, "compile", [50.0, 60.0], heldout=[6.0])
    evaluation = kernel(problem, heldout=[3.0])
    assert t_b(evaluation) == [(30.0, "eager", eager.pk), (60.0, "compile", compiled.pk)]
    assert evaluation.workloads.get(heldout=True).baseline_us == 6.0
    assert evaluation.speedup == pytest.approx((30 / 20 * 60 / 40) ** 0.5)
    assert evaluation.baseline == eager  # the fastest as a whole


@pytest.mark.parametrize("verdict", [Verdict.INCORRECT, Verdict.RUNTIME_ERROR, Verdict.FASTER_THAN_LIGHT])
def test_one_that_failed_is_never_used(problem, verdict):
    hand = measured(problem, "hand-optimised", [40.0, 80.0])
    measured(problem, "compile", [1.0, 1.0], verdict=verdict, message="no")
    assert {row[2] for row in t_b(kernel(problem))} == {hand.pk}


def test_a_campaigns_rule_says_which_kinds_count_and_changing_it_scores_again(problem):
    campaign = make.make_campaign(problems=[problem], baseline_kinds=["eager"])
    eager = measured(problem, "eager", [40.0, 80.0])
    hand = measured(problem, "hand-optimised", [20.0, 40.0])
    inside, outside = kernel(problem, campaign=campaign), kernel(problem)
    assert {row[1:] for row in t_b(inside)} == {("eager", eager.pk)}
    assert {row[1:] for row in t_b(outside)} == {("hand", hand.pk)}
    assert scores.current_baseline(problem, "cpu", rule=campaign.baseline_kinds) == eager
    before = inside.sol_score

    campaign.baseline_kinds = []
    campaign.save()
    tasks.rescore(campaign.pk)
    inside.refresh_from_db()
    assert {row[1:] for row in t_b(inside)} == {("hand", hand.pk)}
    assert inside.speedup == pytest.approx(1.0)
    now, earlier = inside.scores.all()
    assert (earlier.rule, earlier.sol_score, earlier.speedup) == (["eager"], before, pytest.approx(2.0))
    assert [(w["baseline_us"], w["baseline"], w["kind"]) for w in earlier.workloads if not w["heldout"]] == [
        (40.0, eager.pk, "eager"), (80.0, eager.pk, "eager"),
    ]
    assert (now.rule, now.sol_score) == ([], inside.sol_score)
    assert outside.scores.count() == 1, "its T_b stayed the same"


def test_a_rule_that_admits_nothing_measured_leaves_attempts_without_a_score(problem):
    campaign = make.make_campaign(problems=[problem], baseline_kinds=["library"])
    measured(problem, "hand-optimised", [40.0, 80.0])
    evaluation = kernel(problem, campaign=campaign)
    assert (evaluation.sol_score, evaluation.speedup, evaluation.baseline) == (None, None, None)
    assert not evaluation.scores.exists()


def test_a_rule_names_known_kinds():
    campaign = make.make_campaign(baseline_kinds=["eager", "fastest"])
    with pytest.raises(ValidationError, match="must be a list of: eager, compile, hand, agent, library"):
        campaign.clean()


def test_a_baseline_measured_again_scores_again_and_keeps_the_score_it_gave(problem):
    first = measured(problem, "eager", [40.0, 80.0])
    evaluation = kernel(problem)
    again = make.make_evaluation(first.attempt, result=make.make_result(first.attempt, latencies=[30.0, 60.0]))
    evaluation.refresh_from_db()
    assert {row[2] for row in t_b(evaluation)} == {again.pk}
    assert [record.speedup for record in evaluation.scores.all()] == [pytest.approx(1.5), pytest.approx(2.0)]
    assert [record.baseline for record in evaluation.scores.all()] == [again, first]
    make.make_evaluation(
        first.attempt, result=make.make_result(first.attempt, verdict=Verdict.INCORRECT, latencies=[None, None])
    )
    evaluation.refresh_from_db()
    assert evaluation.sol_score is None
    assert [record.speedup for record in evaluation.scores.all()] == [None, pytest.approx(1.5), pytest.approx(2.0)]


def test_a_changed_source_counts_once_it_is_measured(problem):
    old = measured(problem, "hand-optimised", [10.0, 10.0])
    new = make.make_baseline_attempt(problem)
    assert [each.evaluation for each in baselines.verified_baselines(problem, "cpu")] == [old]
    newer = make.make_evaluation(new, result=make.make_result(new, latencies=[40.0, 80.0]))
    make.make_evaluation(old.attempt, result=make.make_result(old.attempt, latencies=[9.0, 9.0]))  # a rerun
    assert [each.evaluation for each in baselines.verified_baselines(problem, "cpu")] == [newer]


def test_baselines_measured_where_the_kernel_was_go_before_others(problem):
    elsewhere = measured(problem, "eager", [10.0, 10.0], stamp=make.make_stamp(device_name="A faster CPU"))
    first = kernel(problem)
    assert {row[2] for row in t_b(first)} == {elsewhere.pk}, "better than none; the pages say what differs"
    here = make.make_evaluation(
        elsewhere.attempt, result=make.make_result(elsewhere.attempt, latencies=[40.0, 80.0])
    )
    first.refresh_from_db()
    assert {row[2] for row in t_b(first)} == {here.pk}
    assert {row[2] for row in t_b(kernel(problem, stamp=make.make_stamp(device_name="A faster CPU")))} == {elsewhere.pk}


def test_the_same_program_measured_for_another_attempt_counts_too(problem):
    attempt = make.make_attempt(problem, language="torch")
    first = make.make_evaluation(attempt, result=make.make_result(attempt, latencies=[30.0, 30.0]))
    copy = make.make_baseline_attempt(problem, slug="library")
    Evaluation.objects.create(attempt=copy, hardware="cpu", state="duplicate", duplicate_of=first)
    (found,) = baselines.verified_baselines(problem, "cpu")
    assert (found.kind, found.evaluation) == ("library", first)


def test_the_rule_is_ticked_in_the_admin_and_shown_with_the_campaign(problem, client):
    campaign = make.make_campaign("night", problems=[problem])
    eager = measured(problem, "eager", [40.0, 80.0])
    measured(problem, "hand-optimised", [20.0, 40.0])
    inside = kernel(problem, campaign=campaign)
    client.force_login(make.make_user("root", superuser=True))
    form = {"state": "active", "problems": [problem.pk], "budget": "{}"}
    address = f"/admin/campaigns/campaign/{campaign.pk}/change/"
    refused = client.post(address, form | {"baseline_kinds": ["fastest"]})
    assert "Select a valid choice" in refused.content.decode()
    assert client.post(address, form | {"baseline_kinds": ["eager", "agent"]}).status_code == 302
    assert "are being computed again" in client.get("/admin/").content.decode()
    tasks.rescore(campaign.pk)
    assert {row[2] for row in t_b(inside)} == {eager.pk}
    assert "baselines</a>: eager, agent" in client.get("/campaigns/night/").content.decode()
    assert client.get("/api/v1/campaigns/night").json()["baseline_kinds"] == ["eager", "agent"]
    client.post(address, form)
    assert "baselines</a>: any kind" in client.get("/campaigns/night/").content.decode()

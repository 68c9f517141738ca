"""The JSON that agents read: fields, filters, pages, errors."""

from __future__ import annotations

import pytest

from agentcore.vocabulary import CheckName, Verdict
from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def get(client, path: str, status: int = 200, **query):
    response = client.get(f"/api/v1/{path}", query)
    assert response.status_code == status, response.content[:500]
    assert response["Content-Type"] == "application/json"
    assert response["Cache-Control"] == "no-store"
    return response.json()


@pytest.fixture
def problem():
    problem = make.make_problem("rmsnorm")
    make.make_baseline(problem)
    return problem


def passed(problem, latencies=(20.0, 40.0), **fields):
    attempt = make.make_attempt(problem, **fields)
    return make.make_evaluation(attempt, result=make.make_result(attempt, latencies=latencies, heldout=(33.0,)))


def test_an_attempt_shows_its_verdict_scores_and_workloads(client, problem) -> None:
    evaluation = passed(problem)
    answer = get(client, f"attempts/{evaluation.attempt.commit}")
    assert answer["problem"] == "rmsnorm"
    assert answer["evaluation"]["verdict"] == "passed"
    (shown,) = answer["evaluations"]
    assert shown["speedup"] == pytest.approx(2.0)
    first = shown["workloads"][0]
    assert (first["latency_us"], first["baseline_us"], first["t_sol_us"]) == (20.0, 40.0, 5.0)
    assert first["axes"] == {"batch": 1}
    assert 0.5 < first["sol_score"] < 1
    assert shown["build"]["compiler"] == "g++ 12.2"
    assert shown["stamp"]["device_name"] == "A cpu device"
    assert "host" not in shown["stamp"]


def test_held_out_shapes_keep_their_axes_and_messages_to_themselves(client, problem) -> None:
    attempt = make.make_attempt(problem)
    result = make.make_result(
        attempt, verdict=Verdict.INCORRECT, heldout=(33.0,), failed_check=CheckName.MATCHES_REFERENCE, message="batch 7"
    )
    kept = [w for w in result.workloads if w.heldout]
    make.make_evaluation(attempt, result=result.model_copy(update={"workloads": kept, "message": "wrong"}))
    (shown,) = get(client, f"attempts/{attempt.commit}")["evaluations"]
    assert shown["workloads"][0]["axes"] == {}
    failed = [check for check in shown["checks"] if check["status"] == "fail"]
    assert failed == [{"name": "matches-reference", "status": "fail", "message": "", "workload": "held out"}]
    assert "batch 7" not in str(shown)


def test_an_attempt_is_found_by_the_beginning_of_its_commit(client, problem) -> None:
    commit = passed(problem).attempt.commit
    assert get(client, f"attempts/{commit[:10]}")["commit"] == commit


@pytest.mark.parametrize(("commit", "status"), [("0" * 40, 404), ("xyz", 400), ("abc123", 400), ("A" * 40, 400)])
def test_an_unknown_or_malformed_commit_is_a_clear_error(client, commit: str, status: int) -> None:
    assert "commit" in get(client, f"attempts/{commit}", status)["error"] or status == 404


def test_an_ambiguous_commit_asks_for_more(client, problem) -> None:
    for tail in ("0", "1"):
        make.make_attempt(problem, commit="ab" * 19 + "0" + tail)
    assert "more characters" in get(client, "attempts/" + "ab" * 10, 400)["error"]


def test_a_duplicate_carries_the_outcome_it_points_at(client, problem) -> None:
    first = passed(problem)
    twin = make.make_attempt(problem, kernel_tree=first.attempt.kernel_tree)
    make.make_evaluation(twin, state=Evaluation.State.DUPLICATE, duplicate_of=first)
    (shown,) = get(client, f"attempts/{twin.commit}")["evaluations"]
    assert (shown["state"], shown["verdict"]) == ("duplicate", "passed")
    assert shown["duplicate_of_commit"] == first.attempt.commit
    assert len(shown["workloads"]) == 3


def test_a_queued_rerun_comes_first_and_the_standing_result_still_speaks(client, problem) -> None:
    old = passed(problem)
    rerun = make.make_evaluation(old.attempt)
    answer = get(client, f"attempts/{old.attempt.commit}")
    assert [e["id"] for e in answer["evaluations"]] == [rerun.pk, old.pk]
    assert answer["evaluation"]["id"] == old.pk


def test_history_is_newest_first_with_lineage_and_filters(client, problem) -> None:
    ada, bob = make.make_agent("ada"), make.make_agent("bob")
    first = passed(problem, agent=ada).attempt
    second = make.make_attempt(problem, agent=bob, language="cuda", parent=first, hypothesis="wider", body="learned")
    rows = get(client, "problems/rmsnorm/history", kind="agent")["attempts"]
    assert [row["commit"] for row in rows] == [second.commit, first.commit]
    assert rows[0]["parent"] == first.commit
    assert (rows[0]["hypothesis"], rows[0]["body"], rows[0]["evaluation"]) == ("wider", "learned", None)
    assert [r["agent"] for r in get(client, "problems/rmsnorm/history", agent="ada")["attempts"]] == ["ada"]
    assert [r["agent"] for r in get(client, "problems/rmsnorm/history", language="cuda")["attempts"]] == ["bob"]
    judged = get(client, "problems/rmsnorm/history", verdict="passed", kind="agent")["attempts"]
    assert [row["commit"] for row in judged] == [first.commit]


def test_history_pages_without_gaps(client, problem) -> None:
    commits = [make.make_attempt(problem).commit for _ in range(5)]
    seen, before = [], None
    while True:
        page = get(client, "problems/rmsnorm/history", kind="agent", limit=2, **({"before": before} if before else {}))
        seen += [row["commit"] for row in page["attempts"]]
        before = page["next"]
        if before is None:
            break
    assert seen == commits[::-1]


def test_best_lists_passed_attempts_by_score(client, problem) -> None:
    slow, fast = passed(problem, (30.0, 60.0)), passed(problem, (10.0, 20.0))
    wrong = make.make_attempt(problem)
    make.make_evaluation(wrong, result=make.make_result(wrong, latencies=(1.0, 1.0), verdict=Verdict.INCORRECT))
    rows = get(client, "problems/rmsnorm/history", best=1, language="cpp")["attempts"]
    assert [row["commit"] for row in rows] == [fast.attempt.commit, slow.attempt.commit]
    (listed,) = get(client, "problems")["problems"]
    (best,) = listed["best"]
    assert (best["language"], best["hardware"], best["commit"]) == ("cpp", "cpu", fast.attempt.commit)


def test_a_problem_shows_its_public_workloads_and_only_counts_the_others(client, problem) -> None:
    from portal.problems.models import Workload

    Workload.objects.create(problem=problem, target="heldout", uuid="h0", index=0, axes={"batch": 777})
    answer = get(client, "problems/rmsnorm")
    assert answer["reference"].startswith("def run")
    assert {w["target"] for w in answer["workloads"]} == {"gpu", "cpu"}
    assert answer["heldout_workloads"] == 1
    assert "777" not in str(answer)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"language": "rust"}, "language must be one of"),
        ({"hardware": "tpu"}, "hardware must be one of"),
        ({"limit": "0"}, "limit must be"),
        ({"limit": "x"}, "limit must be"),
        ({"before": "-1"}, "before must be"),
    ],
)
def test_a_wrong_parameter_is_named(client, problem, query, said: str) -> None:
    assert said in get(client, "problems/rmsnorm/history", 400, **query)["error"]


def test_unknown_things_are_404_with_a_reason(client) -> None:
    for path in ("problems/none", "problems/none/history", "campaigns/none", "evaluations/999"):
        assert "there is no" in get(client, path, 404)["error"]


def test_nothing_can_be_written(client, problem) -> None:
    response = client.post("/api/v1/problems")
    assert response.status_code == 405
    assert "git" in response.json()["error"]


def test_a_campaign_reports_the_figures_of_its_best_attempts(client, problem) -> None:
    other = make.make_problem("softmax")
    campaign = make.make_campaign("spring", problems=[problem, other])
    evaluation = passed(problem, campaign=campaign)
    answer = get(client, "campaigns/spring")
    assert (answer["attempts"], answer["passed"], answer["waiting"]) == (1, 1, 0)
    assert answer["geomean_speedup"] == pytest.approx(2.0)
    assert answer["median_sol"] == pytest.approx(evaluation.sol_score)
    assert answer["share_beating_baseline"] == 0.5
    assert [(p["problem"], p["best_commit"]) for p in answer["problems"]] == [
        ("rmsnorm", evaluation.attempt.commit), ("softmax", None),
    ]
    assert get(client, "campaigns")["campaigns"][0]["name"] == "spring"


def test_health_counts_waiting_work(client, problem) -> None:
    make.make_evaluation(make.make_attempt(problem))
    assert get(client, "health")["evaluations"] == {"cpu": {"queued": 1, "running": 0}}


def test_the_history_costs_a_fixed_number_of_queries(client, problem, django_assert_max_num_queries) -> None:
    for _ in range(10):
        passed(problem)
    with django_assert_max_num_queries(6):
        get(client, "problems/rmsnorm/history")
    with django_assert_max_num_queries(6):
        get(client, "problems/rmsnorm/history", best=1)


@pytest.mark.parametrize("path", ["nonexistent", "problems/", "problems/a/b/c", "evaluations/first"])
def test_an_address_with_nothing_behind_it_answers_json(client, path) -> None:
    assert "/api/v1/ lists" in get(client, path, 404)["error"]


def test_the_number_of_a_held_out_workload_is_never_that_of_another(client, problem) -> None:
    shown = get(client, f"evaluations/{passed(problem).pk}")
    assert [(w["index"], w["heldout"]) for w in shown["workloads"]] == [(0, False), (1, False), (None, True)]

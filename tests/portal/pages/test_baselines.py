"""The baselines on a problem's page, and the scores that an evaluation had."""

from __future__ import annotations

import pytest
from django.test import Client

from agentcore.judge.version import HARNESS_VERSION
from agentcore.vocabulary import HardwareName, Verdict
from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
ADDRESS = "/problems/rmsnorm_h4096/"


def add(problem, slug: str, latencies, hardware: str = "cpu", **fields) -> Evaluation:
    attempt = make.make_baseline_attempt(problem, slug=slug)
    return make.make_evaluation(attempt, result=make.make_result(
        attempt, latencies=latencies, hardware=HardwareName(hardware), **fields
    ))


def rows(client: Client, table: str, address: str = ADDRESS) -> list[dict]:
    return client.get(f"{address}?format=json&table={table}").json()["rows"]


def test_every_kind_is_shown_and_only_verified_ones_give_t_b(client: Client, yard) -> None:
    eager = add(yard.problem, "eager", [30.0, 90.0])
    add(yard.problem, "compile", [None, None], verdict=Verdict.RUNTIME_ERROR,
        message="torch.compile failed: <script>alert(1)</script>")
    shown = {row["kind"]: row for row in rows(client, "baselines")}
    assert list(shown) == ["eager", "compile", "hand", "agent", "library"]
    assert [(kind, shown[kind]["outcome"], shown[kind]["fastest"]) for kind in ("eager", "compile", "hand")] == [
        ("eager", "passed", 1), ("compile", "runtime_error", 0), ("hand", "passed", 1),
    ]
    assert shown["agent"]["evaluation"] is None and shown["agent"]["note"].startswith("Empty:")
    assert shown["library"]["note"].endswith("baselines --hardware cpu --problem rmsnorm_h4096 --kind library")
    assert shown["compile"]["note"].startswith("Not used. torch.compile failed:")
    assert [(row["baseline_us"], row["baseline_kind"], row["baseline_evaluation"])
            for row in rows(client, "baseline_workloads")] == [
        (30.0, "eager", eager.pk), (80.0, "hand", yard.baseline.pk),
    ]
    page = client.get(ADDRESS).content.decode()
    assert f'<a href="/evaluations/{eager.pk}/">eager</a>' in page
    assert "<script>alert(1)" not in page and "&lt;script&gt;alert(1)" in page


def test_one_that_another_harness_measured_says_so(client: Client, yard) -> None:
    assert {row["kind"]: row["note"] for row in rows(client, "baselines")}["hand"] == ""
    Evaluation.objects.filter(pk=yard.baseline.pk).update(harness_version="2")
    assert {row["kind"]: row["note"] for row in rows(client, "baselines")}["hand"] == (
        f"Measured with harness 2, now {HARNESS_VERSION}: manage.py baselines --hardware cpu --problem rmsnorm_h4096"
        " measures it again."
    )


def test_the_t_b_of_a_campaign_with_a_rule_stands_beside(client: Client, yard) -> None:
    eager = add(yard.problem, "eager", [90.0, 90.0])
    yard.campaign.baseline_kinds = ["eager"]
    yard.campaign.save()
    page = client.get(ADDRESS).content.decode()
    assert "Campaign spring admits eager only." in page and "T_b in spring (µs)" in page
    assert [(row["baseline_kind"], row["baseline_spring_us"], row["baseline_spring_evaluation"])
            for row in rows(client, "baseline_workloads")] == [("hand", 90.0, eager.pk), ("hand", 90.0, eager.pk)]


def test_an_evaluation_links_its_t_b_and_keeps_the_scores_it_had(client: Client, yard) -> None:
    address = yard.evaluation.get_absolute_url()
    assert "Scores it had" not in client.get(address).content.decode()
    eager = add(yard.problem, "eager", [30.0, 90.0])
    page = client.get(address).content.decode()
    assert "Scores it had" in page and f'<a href="/evaluations/{eager.pk}/"><span title="eager">30' in page
    now, earlier = rows(client, "scores", address)
    assert (now["speedup"], earlier["speedup"]) == (pytest.approx(3**0.5), pytest.approx(2.0))
    assert [workload["kind"] for workload in now["workloads"]] == ["eager", "hand", ""]  # the last one is held out
    first = client.get(f"/api/v1/evaluations/{yard.evaluation.pk}").json()["workloads"][0]
    assert (first["baseline_us"], first["baseline_kind"], first["baseline_evaluation"]) == (30.0, "eager", eager.pk)


def test_a_problem_that_nobody_attempted_shows_its_baselines(client: Client, yard) -> None:
    waiting = make.make_baseline_attempt(yard.other, slug="eager")
    make.make_evaluation(waiting, hardware="h200")
    page = client.get("/problems/untouched/").content.decode()
    assert "Baselines on h200" in page and "No baseline is verified on h200" in page
    shown = {row["kind"]: row for row in rows(client, "baselines", "/problems/untouched/")}
    assert (shown["eager"]["outcome"], shown["hand"]["outcome"]) == ("queued", None)
    assert shown["hand"]["note"] == "The problem has no baseline.py."


def test_those_on_other_hardware_are_a_click_away(client: Client, yard) -> None:
    add(yard.problem, "eager", [9.0, 9.0], hardware="h200")
    page = client.get(ADDRESS).content.decode()
    assert "Baselines on cpu" in page and 'href="?baselines=h200#baselines"' in page
    there = client.get(f"{ADDRESS}?format=json&table=baseline_workloads&baselines=h200").json()["rows"]
    assert [row["baseline_us"] for row in there] == [9.0, 9.0]
    for nowhere in ("b200", "<script>"):
        assert "Baselines on cpu" in client.get(ADDRESS, {"baselines": nowhere}).content.decode()


def test_more_baselines_cost_no_more_queries(client: Client, yard, django_assert_max_num_queries) -> None:
    for slug in ("eager", "compile", "library", "agent", "another"):
        add(yard.problem, slug, [50.0, 50.0])
    with django_assert_max_num_queries(24):
        assert client.get(ADDRESS).status_code == 200

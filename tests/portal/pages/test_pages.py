"""Every page: what it shows with data, what it says without, its filters, and the CSV and JSON beside its tables."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from agentcore.vocabulary import HardwareName, Verdict
from portal.evaluations.models import CheckResult, Device, Evaluation
from portal.events.models import log
from portal.pages import listings
from tests.portal import factories as make

pytestmark = pytest.mark.django_db

LISTS = ("home", "campaign-list", "problem-list", "attempt-list", "attempt-compare", "solution-list", "device-list",
         "event-list", "glossary", "login")


def get(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, address
    return response.content.decode()


@pytest.mark.parametrize("name", LISTS)
def test_an_empty_portal_answers_and_says_what_to_do_next(client: Client, name: str) -> None:
    page = get(client, reverse(name))
    assert "<h1>" in page
    if name not in ("attempt-compare", "glossary", "login", "solution-list"):
        assert 'class="empty"' in page or "quickstart" in page


def test_the_protocol_is_a_page_and_a_text_and_who_is_sent_to_it_finds_a_link(
    client: Client, settings, tmp_path: Path
) -> None:
    written = Path(settings.PROTOCOL_PATH).read_text("utf-8")
    page = get(client, "/protocol/")
    assert page.count("<h1>") == 1
    for heading in re.findall(r"^## (.+)$", written, re.MULTILINE):
        assert f"<h2>{heading}</h2>" in page
    raw = client.get("/protocol.md")
    assert (raw["Content-Type"], raw.content.decode()) == ("text/plain; charset=utf-8", written)
    assert 'href="/protocol.md"' in page
    make.make_campaign("empty")
    for address in ("/attempts/", "/campaigns/empty/"):
        assert '<a href="/protocol/">the protocol</a>' in get(client, address)
    settings.PROTOCOL_PATH = tmp_path / "protocol.md"
    get(client, "/protocol.md", 404)
    settings.PROTOCOL_PATH.write_text("# Ours\n\nA <b>word</b> of [ours](javascript:alert)\n")
    assert "A &lt;b&gt;word&lt;/b&gt; of" in get(client, "/protocol/")
    assert 'href="javascript' not in get(client, "/protocol/")


@pytest.mark.parametrize("name", LISTS)
def test_pages_keep_a_strict_content_security_policy(client: Client, yard, name: str) -> None:
    response = client.get(reverse(name))
    policy = response["Content-Security-Policy"]
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy
    page = response.content.decode()
    assert not re.search(r"<script(?![^>]*(src=|application/json))", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=\"", page)


def test_home_is_the_newest_active_campaign_with_its_figures(client: Client, yard) -> None:
    make.make_campaign("finished-later", state="finished")
    page = get(client, "/")
    assert "<h1>spring" in page
    assert "2.00×" in page  # 40 µs and 80 µs baselines against 20 µs and 40 µs
    assert "1 / 2" in page  # one of two problems is faster than its baseline
    assert "finished-later" in page


def test_a_problem_shows_its_history_its_latencies_and_what_it_asks_for(client: Client, yard) -> None:
    page = get(client, yard.problem.get_absolute_url())
    assert 'id="score-history"' in page
    assert 'id="workload-latency"' in page
    assert "<strong>rows</strong>" in page
    assert "hl-k" in page  # the reference is highlighted
    assert "cpp on cpu" in page
    assert page.count("<details") >= 3
    assert "Wider loads" in page


def test_a_problem_without_attempts_says_how_to_start(client: Client, yard) -> None:
    assert "yard new untouched" in get(client, yard.other.get_absolute_url())


def test_held_out_workloads_are_counted_not_shown(client: Client, yard) -> None:
    yard.problem.workloads.create(target="heldout", uuid="secret-shape", index=0, axes={"batch": 31337})
    page = get(client, yard.problem.get_absolute_url())
    assert "1 <a" in page
    assert "held-out" in page
    assert "31337" not in page
    assert "secret-shape" not in page


def test_an_attempt_shows_times_checks_build_and_environment(client: Client, yard) -> None:
    page = get(client, yard.passed.get_absolute_url())
    for expected in ("Wider loads", "2.00×", "g++ 12.2", "bubblewrap", "matches-reference", "Held-out workloads",
                     "Eight lanes at a time.", "memory", "19.8 to 20.2 µs", "What the bounds are made of", "x 8.19 kB"):
        assert expected in page, expected


def test_checks_that_say_the_same_of_many_workloads_are_one_row() -> None:
    assert listings.ranges([0, 1, 2, 5, 7, 8]) == "#0–2, #5, #7–8"
    assert listings.ranges([]) == "–"
    checks = [
        CheckResult(name="runs", status="pass", workload_index=0),
        CheckResult(name="runs", status="pass", workload_index=1),
        CheckResult(name="runs", status="fail", workload_index=2, message="returned 9"),
        CheckResult(name="compiles", status="pass"),
    ]
    rows = list(listings.checks(checks).exported())
    assert [(row["name"], row["status"], row["workloads"]) for row in rows] == [
        ("runs", "fail", [2]), ("runs", "pass", [0, 1]), ("compiles", "pass", []),
    ]


def test_a_failed_attempt_opens_with_the_check_that_failed(client: Client, yard) -> None:
    page = get(client, yard.failed.get_absolute_url())
    assert "y[3]: got 1, expected 2" in page
    assert re.search(r'<details id="checks-\d+" class="checks" open>', page)
    assert "Built from" in page
    assert "Wider loads" in page


def test_a_repository_that_is_missing_is_said_not_raised(client: Client, yard) -> None:
    assert "cannot be read here" in get(client, yard.passed.get_absolute_url())


def test_an_evaluation_has_its_whole_record_as_json(client: Client, yard) -> None:
    address = yard.evaluation.get_absolute_url()
    assert "Evaluation #" in get(client, address)
    record = client.get(address + "?format=json").json()
    assert record["verdict"] == "passed"
    assert len(record["workloads"]) == 3


def test_a_superseded_evaluation_names_the_later_one(client: Client, yard) -> None:
    later = make.make_evaluation(yard.passed, result=make.make_result(yard.passed))
    assert f"evaluation #{later.pk}" in get(client, yard.evaluation.get_absolute_url())


def test_a_duplicate_shows_the_result_it_points_at(client: Client, yard) -> None:
    twin = make.make_attempt(yard.problem, yard.agent, slug="twin", kernel_tree=yard.passed.kernel_tree)
    make.make_evaluation(twin, state=Evaluation.State.DUPLICATE, duplicate_of=yard.evaluation)
    page = get(client, twin.get_absolute_url())
    assert "measured before" in page
    assert yard.passed.commit[:10] in page
    assert "2.00×" in page
    listed = client.get("/attempts/?verdict=duplicate&format=json").json()["rows"]
    assert [row["commit"] for row in listed] == [twin.commit]


@pytest.mark.parametrize(
    ("query", "subjects"),
    [
        ("verdict=passed", {"Wider loads", "Vectorise the inner loop"}),
        ("verdict=passed&kind=agent", {"Wider loads"}),
        ("verdict=incorrect", {"Skip the tail"}),
        ("verdict=queued", {"Prefetch"}),
        ("agent=atlas&campaign=spring&language=cpp&hardware=cpu&problem=rmsnorm_h4096",
         {"Wider loads", "Skip the tail", "Prefetch"}),
        ("q=tail", {"Skip the tail"}),
        ("agent=nobody", set()),
        ("language=cuda", set()),
    ],
)
def test_attempts_are_filtered_by_the_address(client: Client, yard, query: str, subjects: set[str]) -> None:
    rows = client.get(f"/attempts/?format=json&{query}").json()["rows"]
    assert {row["subject"] for row in rows} == subjects


def test_attempts_sort_by_score_with_the_scoreless_last(client: Client, yard) -> None:
    rows = client.get("/attempts/?format=json&sort=-sol_score&kind=agent").json()["rows"]
    assert [row["sol_score"] is None for row in rows] == [False, True, True]


def test_problems_sort_and_filter_and_export(client: Client, yard) -> None:
    rows = client.get("/problems/?format=json&sort=-sol_score").json()["rows"]
    assert [row["problem"] for row in rows] == ["rmsnorm_h4096", "untouched"]
    assert rows[0]["attempts"] == 3
    assert rows[0]["passed"] == 1
    assert rows[0]["headroom"] == pytest.approx(1 - rows[0]["sol_score"])
    unsolved = client.get("/problems/?format=json&standing=unsolved").json()["rows"]
    assert [row["problem"] for row in unsolved] == ["untouched"]
    assert client.get("/problems/?format=json&q=nothing-like-it").json()["rows"] == []


@pytest.mark.parametrize("address", ["/", "/problems/", "/attempts/", "/fleet/", "/events/", "/campaigns/",
                                     "/problems/rmsnorm_h4096/?table=history"])
def test_tables_are_also_csv(client: Client, yard, address: str) -> None:
    log("attempt.pushed", "atlas", attempt=yard.passed, problem=yard.problem)
    response = client.get(address + ("&" if "?" in address else "?") + "format=csv")
    assert response["Content-Type"].startswith("text/csv")
    rows = list(csv.reader(io.StringIO(response.content.decode())))
    assert len(rows) >= 2
    assert all(len(row) == len(rows[0]) for row in rows)


def test_digests_among_events_are_short_with_the_whole_on_hover(client: Client, yard) -> None:
    digest = "0123456789abcdef" * 4
    log("problem.created", "system", problem=yard.problem, digest=digest, said="<b>" + "a" * 50)
    page = get(client, "/events/")
    assert f'digest: <span title="{digest}">{digest[:12]}…</span>' in page
    assert "&lt;b&gt;" in page and "<b>a" not in page
    assert client.get("/events/?format=json").json()["rows"][0]["data"]["digest"] == digest


def test_the_fleet_shows_devices_queue_and_work(client: Client, yard) -> None:
    page = get(client, "/fleet/")
    assert "A cpu device" in page
    assert f"#{yard.queued.pk}" in page
    assert "1 queued" in page


def test_what_ran_without_a_sandbox_is_shown_in_red_and_in_words_wherever_it_shows(as_reviewer: Client, yard) -> None:
    attempt = make.make_attempt(yard.problem, yard.agent, slug="bare", subject="Unconfined")
    stamp = make.make_stamp(sandbox="none", device_uuid="cpu-device-1", device_name="A bare device")
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt, stamp=stamp))
    red = '<span class="badge tone-bad" title="kernels ran unconfined'
    for address in (attempt.get_absolute_url(), evaluation.get_absolute_url()):
        page = get(as_reviewer, address)
        assert red in page and "ran without a sandbox" in page and "can never be merged" in page, address
        assert "none: not confined" in page
    page = get(as_reviewer, attempt.get_absolute_url())
    assert "the evaluation ran without a sandbox" in page
    merge = page[page.index("merge-form") :]
    assert '<button class="primary" disabled' in merge[: merge.index("</form>")]
    fleet = get(as_reviewer, "/fleet/")
    assert fleet.count(red) == 2 and "1 device runs kernels without a sandbox" in fleet
    device = get(as_reviewer, reverse("device-detail", args=[Device.objects.get(uuid="cpu-device-1").pk]))
    assert red in device and "KERNELYARD_SANDBOX" in device


def test_what_ran_in_a_sandbox_carries_no_such_warning(client: Client, yard) -> None:
    device = reverse("device-detail", args=[Device.objects.get().pk])
    addresses = (yard.passed.get_absolute_url(), yard.evaluation.get_absolute_url(), "/fleet/", device)
    for address in addresses:
        assert "no sandbox" not in get(client, address), address


def test_solutions_give_the_clone_command_and_how_to_verify(client: Client, yard, settings) -> None:
    settings.PUBLIC_URL = "https://yard.example"
    page = get(client, "/solutions/")
    assert "git clone https://yard.example/git/solutions.git" in page
    assert "kernelyard verify" in page


def test_every_term_a_table_links_to_is_in_the_glossary(client: Client, yard) -> None:
    glossary = get(client, "/glossary/")
    anchors = set(re.findall(r'id="([\w-]+)"', glossary))
    for address in ("/", "/attempts/", "/problems/", yard.problem.get_absolute_url(), yard.passed.get_absolute_url(),
                    yard.failed.get_absolute_url(), "/fleet/"):
        for term in re.findall(r'/glossary/#([\w-]+)"', get(client, address)):
            assert term in anchors, f"{term} on {address}"


def test_unknown_things_are_not_found(client: Client, yard) -> None:
    for address in ("/problems/nope/", "/attempts/" + "0" * 40 + "/", "/evaluations/99999/", "/campaigns/nope/"):
        assert "Nothing is at this address" in get(client, address, 404)


def test_the_number_of_a_held_out_workload_is_never_that_of_another(client: Client, yard) -> None:
    assert {w.index for w in yard.evaluation.workloads.filter(heldout=True)} == {0}, "numbered by themselves"
    rows = csv.reader(io.StringIO(get(client, f"{yard.problem.get_absolute_url()}?format=csv&table=latency")))
    at = next(rows).index("index")
    assert [row[at] for row in rows] == ["0", "1", ""]
    checks = CheckResult.objects.filter(evaluation=yard.evaluation, name="matches-reference")
    assert sorted(checks.values_list("workload_index", flat=True), key=str) == [0, 1, None]


def test_nothing_is_counted_against_a_baseline_that_is_not_there(client: Client, yard) -> None:
    compared = "Faster than the baseline on 2 of 2 workloads."
    assert compared in get(client, yard.passed.get_absolute_url())
    assert compared in get(client, yard.problem.get_absolute_url())
    lone = make.make_attempt(yard.other)
    measured = make.make_evaluation(lone, result=make.make_result(lone))
    for address in (lone.get_absolute_url(), measured.get_absolute_url(), yard.other.get_absolute_url()):
        page = get(client, address)
        assert 'id="workload-latency"' in page
        assert "Faster than the baseline on" not in page and "0 / 2" not in page, address


def test_a_track_says_how_many_attempts_only_compiled(client: Client, yard) -> None:
    attempt = make.make_attempt(yard.other, language="cuda")
    make.make_evaluation(attempt, kind=Evaluation.Kind.COMPILE, result=make.make_result(
        attempt, latencies=(), verdict=Verdict.COMPILED, hardware=HardwareName.H200))
    address = f"{yard.other.get_absolute_url()}?language=cuda&hardware=h200"
    page = get(client, address)
    assert "1 attempt compiled without being measured." in page
    assert "No evaluation has finished" not in page
    assert "0 passed, 0 improved, 1 only compiled" in page
    make.make_evaluation(attempt, result=make.make_result(attempt, hardware=HardwareName.H200))
    page = get(client, address)
    assert "only compiled" not in page and "1 attempt, 1 passed" in page


def test_a_campaign_counts_attempts_and_neither_their_comparisons_nor_their_reruns(client: Client, yard) -> None:
    def badges() -> list[tuple[str, str]]:
        return re.findall(r"verdict=(\w+)\">.*?<b>(\d+)</b>", get(client, "/"))

    before = badges()
    assert before == [("passed", "1"), ("incorrect", "1")]
    make.make_evaluation(yard.passed, kind=Evaluation.Kind.COMPARE, against=yard.failed, result=make.make_result(
        yard.passed, comparison=make.make_comparison()))
    make.make_evaluation(yard.passed, result=make.make_result(yard.passed))
    assert badges() == before
    assert "1 passed" in get(client, "/")


def test_the_first_digits_of_a_commit_lead_to_its_attempt_where_they_are_unique(client: Client, yard) -> None:
    whole = yard.passed.get_absolute_url()
    assert client.get(f"/attempts/{yard.passed.commit[:10]}/?diff=split").headers["Location"] == f"{whole}?diff=split"
    get(client, f"/attempts/{yard.passed.commit[:6]}/", 404)
    make.make_attempt(yard.problem, commit=yard.passed.commit[:12] + "0" * 28)
    get(client, f"/attempts/{yard.passed.commit[:12]}/", 404)


def test_one_attempt_is_not_called_attempts(client: Client, yard) -> None:
    assert "1 attempt<" in get(client, "/attempts/?verdict=passed&campaign=spring")

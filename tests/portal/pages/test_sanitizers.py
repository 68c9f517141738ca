"""What the pages show of sanitizer runs, and what a reviewer does with them."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from agentcore.vocabulary import HardwareName
from portal.evaluations import sanitizing
from portal.evaluations.models import Evaluation
from portal.events.models import Event
from portal.pages import sources
from portal.pages.highlighting import code
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown(yard):
    """A measured attempt on a host that has sanitizers."""
    yard.attempt = make.make_attempt(yard.problem, yard.agent, slug="d", subject="Fewer passes")
    stamp = make.make_stamp(HardwareName.CPU, sanitizers=["address", "undefined", "thread"])
    make.make_evaluation(yard.attempt, result=make.make_result(yard.attempt, stamp=stamp))
    return yard


def page(client: Client, shown) -> str:
    return client.get(shown.attempt.get_absolute_url()).content.decode()


def test_a_finding_links_to_its_line(client: Client, shown) -> None:
    run = make.make_sanitizer_run(shown.attempt, make.make_finding(file="include/tile.hpp", line=17))
    target = f"{shown.attempt.get_absolute_url()}#{sources.line_anchor('include/tile.hpp')}-17"
    for content in (page(client, shown), client.get(run.get_absolute_url()).content.decode()):
        assert f'<a href="{target}"><code>include/tile.hpp:17</code></a>' in content
        assert "heap-buffer-overflow" in content
        assert "0 bytes after the end of x" in content
    # What the link points at is what the source is shown with.
    html = code("a\nb\n", "tile.hpp", anchor=sources.line_anchor("include/tile.hpp"))
    assert f'id="{sources.line_anchor("include/tile.hpp")}-2"' in html


def test_a_place_outside_of_the_kernel_has_no_link(client: Client, shown) -> None:
    make.make_sanitizer_run(shown.attempt, make.make_finding(file="stl_vector.h", in_kernel=False))
    assert "<code>stl_vector.h:2</code>" in page(client, shown)
    assert f"#{sources.line_anchor('stl_vector.h')}" not in page(client, shown)


def test_hostile_text_in_a_finding_is_escaped(client: Client, shown) -> None:
    evil = "<script>alert(1)</script>\u202e"
    make.make_sanitizer_run(shown.attempt, make.make_finding(
        message=evil, kernel=evil, file=evil, kind=evil, buffer=evil, detail=evil
    ))
    content = page(client, shown)
    assert "<script>alert(1)" not in content
    assert "\u202e" not in content
    assert "&lt;script&gt;alert(1)" in content


def test_findings_are_exported(client: Client, shown) -> None:
    run = make.make_sanitizer_run(shown.attempt, make.make_finding())
    answer = client.get(run.get_absolute_url(), {"format": "json", "table": "findings"}).json()
    row = (answer["rows"] if isinstance(answer, dict) else answer)[0]
    assert (row["place"], row["kernel"], row["buffer"], row["size_bytes"]) == ("kernel.cpp:2", "kernel_launch", "x", 4)


def test_a_reviewer_is_told_what_is_missing_and_asks_for_it(as_reviewer: Client, shown) -> None:
    content = page(as_reviewer, shown)
    assert "no sanitizer has looked at this kernel on cpu" in content
    assert "Run sanitizers on cpu" in content
    response = as_reviewer.post(
        reverse("attempt-sanitize", args=[shown.attempt.commit]), {"hardware": "cpu"}, follow=True
    )
    run = Evaluation.objects.get(kind=Evaluation.Kind.SANITIZE)
    assert f"Sanitizer run {run.pk} is queued" in response.content.decode()
    assert f"sanitizer run {run.pk} is queued" in page(as_reviewer, shown)
    assert "Run sanitizers" not in page(as_reviewer, shown)
    as_reviewer.post(reverse("attempt-sanitize", args=[shown.attempt.commit]), {"hardware": "cpu"})
    assert Evaluation.objects.filter(kind=Evaluation.Kind.SANITIZE).count() == 1


def test_unknown_hardware_is_refused(as_reviewer: Client, shown) -> None:
    as_reviewer.post(reverse("attempt-sanitize", args=[shown.attempt.commit]), {"hardware": "abacus"})
    assert not Evaluation.objects.filter(kind=Evaluation.Kind.SANITIZE).exists()


def test_a_run_is_asked_for_again_from_its_own_page(as_reviewer: Client, shown) -> None:
    run = make.make_sanitizer_run(shown.attempt)
    as_reviewer.post(reverse("evaluation-rerun", args=[run.pk]))
    again = Evaluation.objects.exclude(pk=run.pk).get(kind=Evaluation.Kind.SANITIZE)
    assert (again.state, again.attempt) == ("queued", shown.attempt)


def test_findings_are_acknowledged_with_a_reason(as_reviewer: Client, shown) -> None:
    run = make.make_sanitizer_run(shown.attempt, make.make_finding())
    address = reverse("attempt-acknowledge", args=[shown.attempt.commit])
    assert "Acknowledge findings" in page(as_reviewer, shown)
    refused = as_reviewer.post(address, {"evaluation": run.pk, "reason": " "}, follow=True)
    assert "say why" in refused.content.decode()
    as_reviewer.post(address, {"evaluation": run.pk, "reason": "Rows are padded <b>always</b>."})
    event = Event.objects.get(kind=sanitizing.ACKNOWLEDGED)
    assert (event.actor_name, event.evaluation) == ("rosa", run)
    content = page(as_reviewer, shown)
    assert "Rows are padded &lt;b&gt;always&lt;/b&gt;." in content
    assert "Acknowledge findings" not in content
    assert "ended with findings" not in content


def test_a_visitor_sees_findings_and_no_buttons(client: Client, shown) -> None:
    make.make_sanitizer_run(shown.attempt, make.make_finding())
    content = page(client, shown)
    assert "heap-buffer-overflow" in content
    assert "Acknowledge" not in content
    assert "Run sanitizers" not in content


def test_a_host_without_the_tool_is_said(client: Client, yard) -> None:
    content = client.get(yard.passed.get_absolute_url()).content.decode()
    assert "none is asked for before a merge" in content


def test_the_measurement_stays_the_outcome(client: Client, shown) -> None:
    make.make_sanitizer_run(shown.attempt, make.make_finding())
    answer = client.get(shown.attempt.get_absolute_url())
    assert answer.context["shown"].kind == Evaluation.Kind.MEASURE


def test_the_admin_queues_runs_for_what_tools_can_look_at(client: Client, shown) -> None:
    client.force_login(make.make_user("boss", superuser=True))
    torch = make.make_baseline(make.make_problem("other_one"))
    rows = [Evaluation.objects.get(attempt=shown.attempt).pk, torch.pk]
    response = client.post(
        reverse("admin:evaluations_evaluation_changelist"), {"action": "sanitize", "_selected_action": rows},
        follow=True,
    )
    assert Evaluation.objects.get(kind=Evaluation.Kind.SANITIZE).attempt == shown.attempt
    content = response.content.decode()
    assert "1 sanitizer runs are queued" in content
    assert "no sanitizer looks at there" in content

"""Live parts: nothing is sent while nothing changed, a fragment when it did, and polling ends with the work."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from portal.evaluations.models import Evaluation
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def poll_address(page: str) -> str | None:
    found = re.search(r'hx-get="([^"]*)"', page)
    return found[1].replace("&amp;", "&") if found else None


@pytest.mark.parametrize("part", ["attempt", "problem", "campaign", "fleet", "evaluation"])
def test_a_live_part_is_sent_again_only_when_the_work_moved(client: Client, yard, part: str) -> None:
    address = {
        "attempt": yard.waiting.get_absolute_url(), "problem": yard.problem.get_absolute_url(),
        "campaign": yard.campaign.get_absolute_url(), "fleet": "/fleet/",
        "evaluation": yard.queued.get_absolute_url(),
    }[part]
    page = client.get(address).content.decode()
    query = poll_address(page)
    assert query is not None
    assert 'hx-trigger="every 2s"' in page
    assert client.get(address + query, headers={"HX-Request": "true"}).status_code == 204

    Evaluation.objects.filter(pk=yard.queued.pk).update(state=Evaluation.State.RUNNING, claims=1)
    answer = client.get(address + query, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert answer["Vary"].find("HX-Request") >= 0
    fragment = answer.content.decode()
    assert "1 running" in fragment
    assert "<html" not in fragment
    assert poll_address(fragment) != query


def test_polling_ends_when_the_attempt_has_its_result(client: Client, yard) -> None:
    address = yard.waiting.get_absolute_url()
    query = poll_address(client.get(address).content.decode())
    Evaluation.objects.filter(pk=yard.queued.pk).delete()
    make.make_evaluation(yard.waiting, result=make.make_result(yard.waiting))
    fragment = client.get(address + str(query), headers={"HX-Request": "true"}).content.decode()
    assert poll_address(fragment) is None
    assert "passed" in fragment
    assert 'hx-swap-oob="true"' in fragment  # the review's evaluation is refreshed with it


def test_the_polling_address_keeps_the_filters_of_the_page(client: Client, yard) -> None:
    page = client.get(yard.problem.get_absolute_url() + "?language=cpp&hardware=cpu").content.decode()
    assert "language=cpp" in str(poll_address(page))


def test_a_waiting_duplicate_follows_the_evaluation_it_points_at(client: Client, yard) -> None:
    twin = make.make_attempt(yard.problem, yard.agent, slug="twin")
    make.make_evaluation(twin, state=Evaluation.State.DUPLICATE, duplicate_of=yard.queued)
    assert poll_address(client.get(twin.get_absolute_url()).content.decode()) is not None

"""The accounts that the quick start prints can do on the pages what they are for."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from portal.quickstart import accounts
from portal.solutions.models import Review
from tests.portal import factories as make

pytestmark = pytest.mark.django_db


def signed_in(passwords: dict[str, str], name: str) -> Client:
    client = Client()
    assert client.login(username=name, password=passwords[name])
    return client


def test_the_printed_reviewer_reviews_and_merges_but_does_not_administer() -> None:
    client = signed_in(accounts.ensure_people(), "reviewer")
    attempt = make.make_attempt(make.make_problem())
    evaluation = make.make_evaluation(attempt, result=make.make_result(attempt))
    address = reverse("attempt-review", args=[attempt.commit])
    assert client.post(address, {"decision": "rejected", "comment": "Too long."}).status_code == 302
    assert Review.objects.get().reviewer_name == "reviewer"
    merging = client.post(
        reverse("attempt-merge", args=[attempt.commit]), {"evaluation": evaluation.pk}, follow=True
    )
    assert b"rejected by reviewer" in merging.content  # refused for what it is, not for who asks
    assert client.get("/admin/").status_code == 302


def test_a_reviewer_of_an_earlier_version_gets_the_right_and_keeps_the_password() -> None:
    user = make.make_user("reviewer", password="kept")
    assert "reviewer" not in accounts.ensure_people()
    user = type(user).objects.get(pk=user.pk)
    assert user.has_perm("solutions.add_solution")
    assert user.check_password("kept")

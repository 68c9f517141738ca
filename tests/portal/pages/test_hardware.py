"""The page of peak rates: every class of GPU, and what was measured on the CPUs of the fleet."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from agentcore.judge.result import BoundRecord
from agentcore.vocabulary import HardwareName
from portal.problems.models import BoundCount, WorkloadBound
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
SOURCE = "measured on this host at 2026-01-02 03:04 UTC, 2 threads, raised by 10%"


def bound(rate: float) -> BoundRecord:
    return BoundRecord(
        t_sol_us=5.0, limiter="memory", hardware=HardwareName.CPU, bytes_moved={"x": 8192}, resource_us={"memory": 5.0},
        rates={"memory": rate}, rate_sources={"memory": SOURCE},
    )


def rows(client: Client) -> list[dict[str, object]]:
    return client.get("/hardware/?format=json&table=rates-cpu").json()["rows"]


def test_without_any_bound_the_page_says_where_rates_will_come_from(client: Client, yard) -> None:
    assert rows(client) == []
    page = client.get("/hardware/").content.decode()
    assert "No bound of a CPU was counted yet" in page and 'id="b200"' in page


def test_the_rates_measured_on_each_host_are_shown_with_their_source(client: Client, yard) -> None:
    result = make.make_result(yard.passed, heldout=(30.0,))
    result = result.model_copy(update={"workloads": [
        workload.model_copy(update={"bound": bound(rate)})
        for workload, rate in zip(result.workloads, (274e9, 91e9, 1e12), strict=True)
    ]})
    evaluation = make.make_evaluation(yard.passed, result=result)
    assert rows(client) == [{
        "host": "bench1", "device": "A cpu device", "resource": "memory", "low": 91e9, "high": 274e9, "source": SOURCE,
        "where": f"evaluation #{evaluation.pk}",
    }]
    page = client.get("/hardware/").content.decode()
    assert "91.0 GB/s to 274 GB/s" in page and SOURCE in page
    assert f'href="{evaluation.get_absolute_url()}"' in page


def test_rates_of_what_was_counted_at_import_are_shown_before_anything_is_measured(client: Client, yard) -> None:
    BoundCount.objects.create(problem=yard.other, digest=yard.other.digest, harness_version="1", state="done",
                              asked_at=timezone.now(), finished_at=timezone.now(), host="<i>portal</i>")
    records = [bound(50e9).model_dump(mode="json"), None, {"rates": "none"}]
    for workload, record in zip(yard.other.workloads.all(), records, strict=False):
        WorkloadBound.objects.create(workload=workload, hardware="cpu", t_sol_us=5, record=record)
    assert [(row["host"], row["low"], row["where"]) for row in rows(client)] == [
        ("<i>portal</i>", 50e9, yard.other.name)
    ]
    page = client.get("/hardware/").content.decode()
    assert "50.0 GB/s" in page and "<i>portal" not in page

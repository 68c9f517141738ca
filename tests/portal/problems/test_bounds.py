"""T_SOL before any attempt: asked for at import, counted in a real sandbox while the host is idle, shown as it is."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from django_q.models import OrmQ

from agentcore.bounds.hardware import rate_table
from agentcore.sandbox import SandboxError, find_sandbox
from agentcore.vocabulary import HardwareName
from portal.evaluations import tasks
from portal.evaluations.models import Evaluation
from portal.problems import bounds
from portal.problems.importing import import_problem
from portal.problems.models import BoundCount, Problem, WorkloadBound
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db


def has_sandbox() -> bool:
    try:
        find_sandbox()
    except SandboxError:
        return False
    return True


needs_sandbox = pytest.mark.skipif(not has_sandbox(), reason="no sandbox (Debian: apt install bubblewrap)")


def imported(directory: Path, reference: str = "") -> Problem:
    """The small problem, imported; with another reference where one is given."""
    path = repos.write_problem(directory)
    if reference:
        (path / "reference.py").write_text(reference)
    return import_problem(path).problem


def waited(minutes: float = 2) -> None:
    """As if the problems had been imported so long ago."""
    BoundCount.objects.update(asked_at=timezone.now() - timedelta(minutes=minutes))


def messages() -> list[str]:
    return [row.func() for row in OrmQ.objects.all()]


@needs_sandbox
def test_a_problem_without_attempts_gets_its_bounds_and_its_page_says_what_they_are_made_of(
    tmp_path, client: Client, lay_cpu_rates, settings
):
    lay_cpu_rates(Path(settings.CACHE_DIR))
    problem = imported(tmp_path)
    assert messages() == ["portal.evaluations.tasks.bounds"]
    page = client.get(problem.get_absolute_url()).content.decode()
    assert "T_SOL is not counted yet. Counting waits until" in page
    assert tasks.bounds() == "0 counted", "evaluations may be asked for right after an import: they go first"
    waited()
    assert tasks.bounds() == "1 counted"
    count = BoundCount.objects.get()
    assert (count.state, count.message, count.digest) == ("done", "", problem.digest)
    found = {(row.workload.target, row.workload.uuid, row.hardware): row for row in
             WorkloadBound.objects.select_related("workload")}
    assert sorted(found) == sorted(
        [("gpu", uuid, hardware) for uuid in ("w4", "w16") for hardware in ("b200", "h200", "h100")]
        + [("cpu", uuid, "cpu") for uuid in ("c4", "c16")]
    ), "held-out workloads have none: they would give their shapes away"
    record = found["gpu", "w16", "h200"].record
    assert record["bytes_moved"] == {"x": 16 * 8 * 4, "weight": 8 * 4, "y": 16 * 8 * 4}
    rates = rate_table(HardwareName.H200).rates()
    assert record["resource_us"]["memory"] == pytest.approx((2 * 512 + 32) / rates["memory"].value * 1e6)

    address = problem.get_absolute_url()
    page = client.get(address + "?bounds=h200").content.decode()
    assert 'id="table-t_sol"' in page and "Bounds on h200" in page and "512 B" in page
    assert "peak rates, boost clocks" in page, "the assumptions"
    assert 'href="/hardware/#h200"' in page and rates["memory"].source in page
    rows = client.get(address + "?bounds=cpu&format=json&table=t_sol").json()["rows"]
    assert [(row["uuid"], row["t_sol_us"] > 0) for row in rows] == [("c4", True), ("c16", True)]
    import_problem(tmp_path / "scale")
    assert BoundCount.objects.get().state == "done", "the same again is not counted again"
    import_problem(repos.write_problem(tmp_path, batches=(5,)))
    assert BoundCount.objects.get().state == "pending" and not WorkloadBound.objects.exists()


@needs_sandbox
def test_a_reference_that_fails_is_said_on_the_page_and_tried_again_by_an_import(
    tmp_path, client: Client, lay_cpu_rates, settings
):
    lay_cpu_rates(Path(settings.CACHE_DIR))
    secret = tmp_path / "secret"
    secret.write_text("key")
    secret.chmod(0o644)
    problem = imported(tmp_path, (
        f"import sys\ntry:\n    said = open({str(secret)!r}).read()\nexcept OSError:\n    said = 'kept'\n"
        "print('{\"uuid\": \"w4\", \"hardware\": \"h200\", \"bound\": {}}', flush=True)\n"
        "def run(x, weight):\n    raise ValueError(f'<b>{said}</b>')\n"
    ))
    waited()
    tasks.bounds()
    row = WorkloadBound.objects.filter(hardware="h200").first()
    assert row.t_sol_us is None and "kept" in row.trouble
    assert BoundCount.objects.get().state == "failed"
    page = client.get(problem.get_absolute_url()).content.decode()
    assert "T_SOL could not be counted: " in page and "&lt;b&gt;kept" in page and "<b>kept" not in page
    import_problem(tmp_path / "scale")
    assert BoundCount.objects.get().state == "pending"


def test_counting_never_imports_torch_into_the_portal():
    code = "import sys, agentcore.bounds.confined; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_run_where_the_host_confines_nothing(tmp_path, settings, client: Client, lay_cpu_rates):
    settings.SANDBOX = "none"
    lay_cpu_rates(Path(settings.CACHE_DIR))
    escape = tmp_path / "escaped"
    problem = imported(tmp_path, f"open({str(escape)!r}, 'w')\ndef run(x, weight):\n    return x * weight\n")
    waited()
    assert tasks.bounds() == "1 counted"
    assert not escape.exists()
    page = client.get(problem.get_absolute_url()).content.decode()
    assert "T_SOL could not be counted: this host confines nothing" in page


def test_it_waits_while_kernels_are_timed_here_but_not_for_ever(tmp_path):
    problem = imported(tmp_path)
    now = timezone.now()
    assert bounds._next(now) is None
    waited(2)
    assert bounds._next(now).problem == problem
    evaluation = make.make_evaluation(make.make_attempt(problem))
    assert bounds._next(now) is None, "one is queued"
    Evaluation.objects.filter(pk=evaluation.pk).update(state="done", finished_at=now - timedelta(seconds=5))
    assert bounds._next(now) is None, "one has just ended: another may follow"
    assert bounds._next(now + timedelta(minutes=2)) is not None
    Evaluation.objects.filter(pk=evaluation.pk).update(state="queued", finished_at=None)
    waited(31)
    assert bounds._next(now).problem == problem, "long enough"


def test_problems_of_an_active_campaign_are_counted_first(tmp_path):
    rows = {}
    for number, name in enumerate(("paused", "unwanted", "wanted", "wanted-later")):
        problem = make.make_problem(name)
        rows[name] = BoundCount.objects.create(
            problem=problem, digest=problem.digest, harness_version="1",
            asked_at=timezone.now() - timedelta(hours=2) + timedelta(minutes=number))
    make.make_campaign("now", problems=[rows["wanted"].problem, rows["wanted-later"].problem])
    make.make_campaign("too", problems=[rows["wanted"].problem])
    make.make_campaign("then", problems=[rows["paused"].problem], state="paused")
    order = []
    while (row := bounds._claim(timezone.now())) is not None:
        order.append(row.problem.name)
    assert order == ["wanted", "wanted-later", "paused", "unwanted"]


def test_a_dead_worker_is_followed_by_another_three_times_and_a_late_one_writes_nothing(tmp_path):
    imported(tmp_path)
    for tries in (1, 2, 3):
        waited()
        row = bounds._claim(timezone.now())
        assert row.tries == tries
        assert bounds._claim(timezone.now()) is None, "each goes to one"
        BoundCount.objects.update(started_at=timezone.now() - timedelta(hours=1))
        assert bounds.tick() == (1 if tries < 3 else 0)
    count = BoundCount.objects.get()
    assert (count.state, count.message) == ("failed", "whoever counted them died, 3 times")
    bounds._store(row, bounds.Bounds(trouble="late"))
    assert BoundCount.objects.get().message == count.message


def test_what_an_older_harness_counted_or_nobody_asked_for_is_asked_for_by_housekeeping(tmp_path):
    imported(tmp_path)
    BoundCount.objects.update(state="done", harness_version="0")
    assert bounds.tick() == 1
    BoundCount.objects.all().delete()
    assert bounds.tick() == 1
    assert set(messages()) == {"portal.evaluations.tasks.bounds"}

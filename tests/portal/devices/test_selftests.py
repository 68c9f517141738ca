"""Self-tests in the portal: kept from a run or a file, shown per device, warned of where one is lacking."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django_q.models import OrmQ

from agentcore.judge.version import HARNESS_VERSION
from agentcore.selftest.corpus import default_root
from agentcore.selftest.report import CaseRecord, SelfTestReport, Summary
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict
from portal.devices import record, running, standing, tasks
from portal.devices.models import SelfTest
from portal.devices.record import NotAReport
from portal.devices.running import CannotRun
from portal.evaluations.models import Device
from portal.events.models import Event
from portal.solutions import publishing
from tests.portal import factories as make

pytestmark = pytest.mark.django_db
STARTED = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)


def case(name: str = "cpp/zeros", *, kind: str = "exploit", ok: bool = True, **fields) -> CaseRecord:
    return CaseRecord(**({
        "case": name, "kind": kind, "language": Language.CPP, "family": "correctness", "ok": ok, "seconds": 0.5,
        "summary": "Writes zeros.", "verdict": Verdict.INCORRECT if kind == "exploit" else Verdict.PASSED,
        "checks": [CheckName.MATCHES_REFERENCE] if kind == "exploit" else [],
    } | fields))


def report(*cases: CaseRecord, **fields) -> SelfTestReport:
    cases = cases or (case(), case("cpp/control_vector", kind="control"))
    return SelfTestReport(**({
        "hardware": HardwareName.CPU, "stamp": make.make_stamp(), "started_at": STARTED, "seconds": 120.0,
        "complete": True, "corpus_digest": "c" * 64, "summary": Summary.of(cases), "cases": list(cases),
    } | fields))


ACCEPTED = case("cpp/late_thread", ok=False, accepted=True, verdict=Verdict.PASSED, why="accepted", checks=[])
CONTROL = case("cpp/control_vector", kind="control")


@pytest.fixture
def evaluation():
    problem = make.make_problem()
    make.make_baseline(problem)
    attempt = make.make_attempt(problem)
    return make.make_evaluation(attempt, result=make.make_result(attempt))


def page(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


# -- keeping ---------------------------------------------------------------------------------------------------------


def test_a_report_is_kept_once_with_its_device_counts_and_event() -> None:
    row = record.store(report(), "root")
    assert (row.exploits, row.accepted, row.controls, row.refused, row.passed) == (1, 0, 1, 0, True)
    assert row.device.uuid == "cpu-device-0" and row.harness_version == HARNESS_VERSION
    assert record.store(report(), "root").pk == row.pk
    assert Event.objects.get(kind="device.selftest").data["passed"] is True


def test_what_a_worker_reported_of_a_device_is_not_overwritten(evaluation) -> None:
    before = Device.objects.get(uuid="cpu-device-0")
    record.store(report(stamp=make.make_stamp(device_name="another name")), "root")
    after = Device.objects.get(uuid="cpu-device-0")
    assert (after.name, after.last_seen_at) == (before.name, before.last_seen_at)


@pytest.mark.parametrize(("text", "says"), [
    ("", "EOF"),
    ("[]", "whole file"),
    ("{}", "hardware"),
    (report(complete=False).model_dump_json(), "part of the corpus"),
    (report(stamp=make.make_stamp(device_uuid="")).model_dump_json(), "device_uuid"),
    (report(ACCEPTED, CONTROL, summary=Summary(exploits=1, controls=1)).model_dump_json(), "does not count"),
    ("[" * 100_000, "recursion"),
])
def test_a_file_that_is_no_whole_report_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "out.json"
    file.write_text(text)
    with pytest.raises(CommandError, match=says) as error:
        call_command("selftest", f"--import={file}")
    assert str(file) in str(error.value)
    assert not SelfTest.objects.exists()


def test_a_file_larger_than_any_report_is_not_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(record, "MAX_FILE_BYTES", 100)
    file = tmp_path / "out.json"
    file.write_text(report().model_dump_json())
    with pytest.raises(NotAReport, match="larger"):
        record.read_report(file)


def test_importing_says_whether_the_device_passed(tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    file.write_text(report().model_dump_json())
    call_command("selftest", f"--import={file}")
    assert "passed" in capsys.readouterr().out
    file.write_text(report(ACCEPTED, CONTROL, started_at=STARTED + timedelta(hours=1)).model_dump_json())
    with pytest.raises(CommandError, match="did not pass"):
        call_command("selftest", f"--import={file}")
    assert SelfTest.objects.filter(passed=False).count() == 1


# -- what it says of a device ----------------------------------------------------------------------------------------


def test_the_newest_self_test_counts_and_only_for_its_harness() -> None:
    assert standing.standing("cpu-device-0", HARNESS_VERSION).word == standing.NEVER
    record.store(report(ACCEPTED, CONTROL), "root")
    found = standing.standing("cpu-device-0", HARNESS_VERSION)
    assert found.word == standing.FAILED and "1 cheats accepted" in found.warning
    record.store(report(started_at=STARTED + timedelta(hours=1)), "root")
    found = standing.standing("cpu-device-0", HARNESS_VERSION)
    assert (found.word, found.warning) == (standing.PASSED, "")
    assert standing.standing("cpu-device-0", "older").word == standing.OUTDATED
    assert standing.standing("another-device", HARNESS_VERSION).word == standing.NEVER
    # One that came late does not replace a newer one.
    record.store(report(ACCEPTED, CONTROL, started_at=STARTED - timedelta(hours=1)), "root")
    assert standing.standing("cpu-device-0", HARNESS_VERSION).word == standing.PASSED


@pytest.mark.parametrize("which", ["attempt", "evaluation"])
def test_results_of_a_device_that_never_passed_carry_a_warning_until_it_has(client, evaluation, which: str) -> None:
    address = (evaluation.attempt if which == "attempt" else evaluation).get_absolute_url()
    assert "never passed a self-test" in page(client, address)
    failed = record.store(report(ACCEPTED, CONTROL), "root")
    shown = page(client, address)
    assert "self-test of this device failed" in shown and failed.get_absolute_url() in shown
    record.store(report(started_at=STARTED + timedelta(hours=1)), "root")
    assert "self-test" not in page(client, address).partition("<main")[2].partition("<footer")[0]


def test_nothing_of_a_device_that_failed_can_be_merged(evaluation) -> None:
    def names_it() -> bool:
        return any("self-test" in each for each in publishing.obstacles(evaluation.attempt, evaluation))

    assert not names_it()  # a device that was never tried is only warned of
    record.store(report(ACCEPTED, CONTROL), "root")
    assert names_it()
    record.store(report(started_at=STARTED + timedelta(hours=1)), "root")
    assert not names_it()


# -- pages -----------------------------------------------------------------------------------------------------------


def test_the_fleet_page_shows_each_device_s_self_test(client, evaluation) -> None:
    address = reverse("device-list")
    shown = page(client, address)
    assert "never self-tested" in shown and "1 device has not passed" in shown
    row = record.store(report(), "root")
    shown = page(client, address)
    assert "self-test passed" in shown and row.get_absolute_url() in shown and "0 / 1" in shown
    assert "has not passed" not in shown
    (exported,) = client.get(address, {"format": "json", "table": "devices"}).json()["rows"]
    assert (exported["selftest"], exported["accepted"], exported["refused"]) == ("self-test passed", 0, 0)


def test_a_self_test_lists_its_cases_what_went_wrong_first(client) -> None:
    skipped = case("cute/one", skipped=True, why="the Python module cutlass is not installed", verdict=None, tries=0)
    hostile = case("cpp/x", ok=False, why="<script>alert(1)</script>", verdict=Verdict.TIMEOUT)
    row = record.store(report(case(), skipped, CONTROL, ACCEPTED, hostile), "root")
    shown = page(client, row.get_absolute_url())
    assert "self-test failed" in shown and "<script>alert" not in shown
    assert shown.index("cpp/late_thread") < shown.index("cpp/zeros")
    exported = client.get(row.get_absolute_url(), {"format": "json", "table": "cases"}).json()["rows"]
    assert [c["case"] for c in exported][:2] == ["cpp/late_thread", "cpp/x"] and len(exported) == 5
    assert client.get(row.get_absolute_url(), {"format": "json"}).json()["summary"]["accepted"] == 1
    device = page(client, reverse("device-detail", args=[row.device.pk]))
    assert row.get_absolute_url() in device and "self-test failed" in device and "bench1" in device
    assert client.get(reverse("selftest-detail", args=[row.pk + 1])).status_code == 404


def test_a_stored_report_of_another_schema_does_not_break_the_pages(client) -> None:
    row = record.store(report(), "root")
    SelfTest.objects.filter(pk=row.pk).update(report={"strange": True})
    assert "cannot be read" in page(client, row.get_absolute_url())
    assert "bench1" in page(client, reverse("device-detail", args=[row.device.pk]))


# -- running ---------------------------------------------------------------------------------------------------------


def small_corpus(tmp_path: Path) -> Path:
    root = tmp_path / "checkout" / "tests" / "hacks"
    shutil.copytree(default_root() / "include", root / "include")
    source = default_root().parents[1] / "problems" / "rmsnorm_h4096"
    shutil.copytree(source, tmp_path / "checkout" / "problems" / "rmsnorm_h4096")
    (root / "cpp").mkdir()
    for name in ("zeros", "control_vector"):
        shutil.copy(default_root() / "cpp" / f"{name}.cpp", root / "cpp")
    return root


def test_the_command_runs_the_corpus_on_this_host_and_keeps_the_result(tmp_path: Path, capsys) -> None:
    call_command("selftest", "--hardware=cpu", f"--corpus={small_corpus(tmp_path)}")
    row = SelfTest.objects.get()
    assert row.passed and (row.exploits, row.controls) == (1, 1) and row.device.hardware == "cpu"
    assert {c["case"] for c in row.report["cases"]} == {"cpp/zeros", "cpp/control_vector"}
    assert "cpp/zeros" in capsys.readouterr().out


def test_a_run_that_hangs_is_stopped_and_one_that_cannot_start_says_why(tmp_path: Path, settings) -> None:
    with pytest.raises(CannotRun, match="did not end within"):
        running.run_selftest(HardwareName.CPU, deadline_s=1.0, corpus=small_corpus(tmp_path))
    with pytest.raises(CannotRun, match="holds no case"):
        running.run_selftest(HardwareName.CPU, deadline_s=60.0, corpus=tmp_path / "nowhere")
    settings.SANDBOX = "none"
    with pytest.raises(CannotRun, match="never run without a sandbox"):
        running.run_selftest(HardwareName.CPU, deadline_s=60.0)


def test_the_admin_asks_the_device_s_own_host(client) -> None:
    device = record.store(report(), "root").device
    root = make.make_user("root", superuser=True)
    client.force_login(root)
    client.post(reverse("admin:evaluations_device_changelist"), {"action": "selftest", "_selected_action": [device.pk]})
    (message,) = OrmQ.objects.all()
    assert message.key == "cpu" and message.func() == "portal.devices.tasks.selftest"
    assert message.task["args"][:3] == ("cpu", "bench1", "root")
    assert Event.objects.get(kind="device.selftest-asked").actor == root


def test_another_host_hands_the_message_on_and_gives_up_after_an_hour(monkeypatch) -> None:
    import time

    monkeypatch.setattr(tasks, "HAND_ON_PAUSE_S", 0.0)
    assert "handed on" in tasks.selftest("cpu", "elsewhere", "root", time.time())
    (message,) = OrmQ.objects.all()
    assert message.task["args"][:3] == ("cpu", "elsewhere", "root")
    assert "within an hour" in tasks.selftest("cpu", "elsewhere", "root", time.time() - 4000)
    assert Event.objects.get(kind="device.selftest-failed").data["host"] == "elsewhere"


def test_a_task_that_cannot_run_returns_and_leaves_an_event(settings) -> None:
    settings.SANDBOX = "none"
    assert "without a sandbox" in tasks.selftest("cpu", "", "root", 0.0)
    assert json.dumps(Event.objects.get(kind="device.selftest-failed").data)

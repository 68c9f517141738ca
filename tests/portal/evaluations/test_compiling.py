"""Compile-only evaluations: asked for where no host has the hardware, compiled for real, no measurement to anybody."""

from __future__ import annotations

import os

import pytest
from django.core.management import CommandError, call_command
from django_q.models import OrmQ

from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.vocabulary import HardwareName, Language, Verdict
from portal.api import shapes
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations import compiling, queue, scores, tasks
from portal.evaluations.broker import Broker
from portal.evaluations.models import Device, Evaluation
from portal.evaluations.worker import Worker, start_compiler
from portal.pages import queries
from portal.solutions import publishing
from tests.portal import factories as make
from tests.portal import repositories as repos

pytestmark = pytest.mark.django_db
Kind = Evaluation.Kind

KERNEL = """
#include "problem.h"
__global__ void scale(const float* x, const float* weight, float* y, int64_t n) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = x[i] * weight[i % KY_HIDDEN];
}
extern "C" int kernel_launch(const float* x, const float* weight, float* y, int64_t batch, cudaStream_t stream) {
    const int64_t n = batch * KY_HIDDEN;
    scale<<<unsigned((n + 255) / 256), 256, 0, stream>>>(x, weight, y, n);
    return cudaGetLastError() != cudaSuccess;
}
"""


@pytest.fixture
def needs_nvcc() -> None:
    try:
        find_tool("nvcc")
    except ToolMissing as error:
        pytest.skip(str(error))


@pytest.fixture
def problem(tmp_path):
    problem = repos.start(tmp_path)
    make.make_agent("ada")
    make.make_campaign("blackwell", language="cuda", hardware="b200", problems=[problem])
    return problem


def pushed(source: str = KERNEL, language: Language = Language.CUDA, slug: str = "main") -> tuple[Attempt, Evaluation]:
    repos.push("scale", "ada", source, language=language, slug=slug)
    (attempt,) = intake.reconcile()
    return attempt, attempt.evaluations.get()


def announce(hardware: str) -> None:
    compiling.announce(HardwareName(hardware))


def test_an_attempt_for_hardware_that_nobody_has_is_compiled_instead_of_measured(problem):
    _, evaluation = pushed()
    assert (evaluation.kind, evaluation.hardware, evaluation.state) == ("compile", "b200", "queued")
    message = OrmQ.objects.get(key="compile")
    assert message.task["func"] == "portal.evaluations.tasks.compile_queued"
    assert not OrmQ.objects.filter(key="b200").exists()
    assert queue.claim("b200", "a worker that measures") is None


@pytest.mark.parametrize("known", ["device", "host"])
def test_where_a_host_has_it_an_attempt_is_measured(problem, known):
    if known == "host":
        announce("b200")
        announce("b200")
    else:
        make.make_evaluation(result=make.make_result(hardware=HardwareName.B200))
        assert Device.objects.get().hardware == "b200"
    _, evaluation = pushed()
    assert evaluation.kind == "measure"
    assert compiling.is_measured(HardwareName.B200)
    assert not compiling.is_measured(HardwareName.H200)


@pytest.mark.parametrize(("language", "kind"), [("cute", "compile"), ("triton", "measure"), ("torch", "measure")])
def test_languages_that_compile_by_running_wait_for_a_device(problem, language, kind):
    problem.campaigns.update(language=language)
    _, evaluation = pushed("def run(x, weight, y):\n    pass\n", Language(language))
    assert (evaluation.kind, evaluation.hardware) == (kind, "b200")


def test_once_a_host_joins_what_was_only_compiled_is_measured_once(problem):
    attempt, compiled = pushed()
    other, cancelled = pushed(KERNEL + "// other\n", slug="other")
    assert tasks.tick()["measured"] == 0
    announce("b200")
    assert tasks.tick()["measured"] == 2
    row = attempt.evaluations.get(kind=Kind.MEASURE)
    assert (row.state, row.hardware, row.reason) == ("queued", "b200", "compiled before there was a device")
    queue.cancel(other.evaluations.get(kind=Kind.MEASURE), make.make_user())
    assert tasks.tick()["measured"] == 0, "what somebody cancelled stays cancelled"
    assert {compiled.kind, cancelled.kind} == {"compile"}


@pytest.mark.usefixtures("needs_nvcc")
def test_what_is_queued_is_compiled_here_and_counts_for_nothing(problem, settings, monkeypatch):
    monkeypatch.setattr(tasks, "_workers", {})
    attempt, evaluation = pushed()
    _, faulty = pushed("#include \"problem.h\"\nint nonsense", slug="broken")
    assert tasks.compile_queued() == "2 judged"
    for worker in tasks._workers.values():
        worker.close()
    evaluation.refresh_from_db()
    faulty.refresh_from_db()
    assert (evaluation.state, evaluation.verdict) == ("done", "compiled"), evaluation.message
    (scale,) = evaluation.result["build"]["resources"]
    assert scale["arch"] == "sm_100a"
    assert scale["registers"] > 0
    assert (evaluation.latency_geomean_us, evaluation.speedup, evaluation.sol_score) == (None, None, None)
    assert not evaluation.workloads.exists()
    assert not Device.objects.exists(), "nothing was measured, so no device was seen"
    assert faulty.verdict == Verdict.COMPILE_ERROR

    assert not scores.standing_evaluations(pk=attempt.pk).exists()
    assert scores.best_evaluation(problem, "cuda", "b200") is None
    assert any("of kind compile" in why for why in publishing.obstacles(attempt, evaluation))
    shown = queries.with_outcome(Attempt.objects.filter(pk=attempt.pk)).get()
    assert (shown.outcome_id, shown.outcome_verdict) == (evaluation.pk, "compiled")
    assert shapes.attempt_summary(attempt, shapes.speaking_evaluation([evaluation]))["evaluation"]["kind"] == "compile"


def test_the_pages_say_that_it_was_never_measured(problem, client):
    attempt, _ = pushed()
    Evaluation.objects.all().delete()
    result = make.make_result(attempt, verdict=Verdict.COMPILED, latencies=[], hardware=HardwareName.B200)
    evaluation = make.make_evaluation(attempt, kind=Kind.COMPILE, result=result)
    for address in (attempt.get_absolute_url(), evaluation.get_absolute_url()):
        page = client.get(address).content.decode()
        assert "Compiled only, neither run nor measured: no host of the fleet had this hardware (b200) then." in page
        assert "compiled only" in page and "Measured since" not in page
    measured = make.make_evaluation(attempt, result=make.make_result(attempt, hardware=HardwareName.B200))
    later = client.get(evaluation.get_absolute_url()).content.decode()
    assert f'Measured since: <a href="{measured.get_absolute_url()}">evaluation #{measured.pk}</a>' in later
    # What was true of the fleet then must not be said of it now.
    assert "never measured" not in later and "Superseded" not in later


def test_a_lost_message_is_made_up_for_in_the_right_cluster(problem):
    _, evaluation = pushed()
    make.make_evaluation(hardware="cpu")
    OrmQ.objects.all().delete()
    assert queue.wake_all() == ["compile", "cpu"]
    claim = queue.claim("b200", "w", (Kind.COMPILE,))
    OrmQ.objects.all().delete()
    queue.release(claim)
    assert [message.key for message in OrmQ.objects.all()] == ["compile"]
    assert queue.claim("b200", "w", (Kind.COMPILE,)).evaluation_id == evaluation.pk


def test_the_portals_own_cluster_compiles_where_it_has_a_compiler(monkeypatch):
    from django_q.conf import Conf

    for able, keys in ((True, {"kernelyard", "cpu", "compile"}), (False, {"kernelyard", "cpu"})):
        monkeypatch.setattr("portal.evaluations.broker.can_compile", lambda able=able: able)
        assert set(Broker(list_key=Conf.PREFIX)._keys()) == keys
        assert Broker(list_key="h200")._keys() == ("h200",)
        assert Broker(list_key="compile")._keys() == ("compile",)


def test_a_host_can_join_to_compile_only(home, monkeypatch, capsys):
    started: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: started.append(environment))
    from portal.attempts.repository import ensure_repositories

    ensure_repositories()
    monkeypatch.setattr("portal.evaluations.fleet.can_compile", lambda: True)
    call_command("fleet", "--compile-only", "--hardware", "b200")
    assert started[0]["Q_CLUSTER_NAME"] == "compile"
    assert "compiled only and never measured" in capsys.readouterr().out
    assert not compiling.is_measured(HardwareName.B200), "a host that only compiles measures nothing"
    here = {"hardware": "b200", "name": "NVIDIA B200", "uuid": "GPU-1", "driver": "580"}
    monkeypatch.setattr("agentcore.judge.devices.gpus", lambda: [here])
    call_command("fleet", "--hardware", "b200")
    assert compiling.is_measured(HardwareName.B200)
    monkeypatch.setattr("portal.evaluations.fleet.can_compile", lambda: False)
    with pytest.raises(CommandError, match="no nvcc here to compile with"):
        call_command("fleet", "--compile-only")
    assert len(started) == 2


@pytest.mark.usefixtures("needs_nvcc")
def test_a_worker_compiles_one_hardware_class_by_itself(problem):
    _, evaluation = pushed()
    machine = Worker("b200", start_compiler, (Kind.COMPILE,))
    try:
        assert machine.run(budget_s=60) == (1, False)
        evaluation.refresh_from_db()
        assert evaluation.verdict == "compiled"
    finally:
        machine.close()

"""The judge kept up for a worker: deadlines, deaths, secrets, and that nothing outlives anybody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcore.judge.service import JudgeDied, JudgeFailure, JudgeService, JudgeTimeout, Opponent
from agentcore.sandbox import Sandbox
from agentcore.vocabulary import HardwareName, Language, Verdict
from tests.judge.conftest import (
    DOUBLE,
    DOUBLE_KERNEL,
    below,
    candidates_of,
    wait_until,
    whole_kernel,
    workload,
    write_kernel,
    write_problem,
)

HANG = "if (x) for (;;) usleep(1000);"
QUICK = {"quick": True}


@pytest.fixture(scope="module")
def problem_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("service") / "problem", DOUBLE, [workload()])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, problem_dir: Path) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("kernels")
    for parent in (root, root.parent):
        parent.chmod(0o755)
    sources = {"good": DOUBLE_KERNEL, "hang": HANG + DOUBLE_KERNEL}
    return {name: write_kernel(root / name, whole_kernel(body, problem_dir)) for name, body in sources.items()}


@pytest.fixture(scope="module")
def service(cache_dir: Path, sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeService]:
    """One service whose judge stays up, as in a worker; started with secrets around."""
    secrets = {
        "KERNELYARD_SECRET_KEY": "secret-1", "KERNELYARD_DATABASE_URL": "secret-2", "DATABASE_URL": "secret-3",
        "PGPASSWORD": "secret-4", "ANTHROPIC_API_KEY": "secret-5", "DJANGO_SETTINGS_MODULE": "secret-6",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in secrets.items():
            patch.setenv(name, value)
        log = tmp_path_factory.mktemp("log") / "judge.log"
        with JudgeService(HardwareName.CPU, cache_dir, log) as made:
            yield made


def judged(service: JudgeService, problem_dir: Path, kernel: Path, deadline_s: float = 200, **more: object) -> Verdict:
    for _ in range(3):
        result = service.evaluate(
            problem_dir, kernel, Language.CPP, deadline_s=deadline_s, options=QUICK, **more,  # type: ignore[arg-type]
        )
        if "canary" not in result.message:  # a busy machine
            break
    return result.verdict


def test_two_kernels_in_turn_give_one_result_with_their_comparison(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    said: list[str] = []
    result = service.evaluate(
        problem_dir, kernels["good"], Language.CPP, deadline_s=120, options=QUICK,
        against=Opponent(kernels["good"], Language.CPP, rounds=2), progress=said.append,
    )
    found = result.comparison
    assert result.verdict is Verdict.PASSED and found is not None, result.message
    assert len(found.rounds) == 2 and found.ratio is not None and found.old_kernel_digest == result.kernel_digest
    assert any("round 2 of 2" in text for text in said)


def test_the_judge_stays_up_between_evaluations_and_tells_how_far_it_is(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    heard: list[str] = []
    assert judged(service, problem_dir, kernels["good"], progress=heard.append) is Verdict.PASSED
    first = service.pid
    assert judged(service, problem_dir, kernels["good"]) is Verdict.PASSED
    assert service.pid == first is not None
    assert "building" in heard and any(text.startswith("measuring workload 0") for text in heard)


def test_no_secret_of_the_worker_is_in_the_judges_environment(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    judged(service, problem_dir, kernels["good"])
    assert service.pid is not None
    inherited = Path(f"/proc/{service.pid}/environ").read_bytes()
    assert b"secret-" not in inherited and b"PATH=" in inherited


def test_a_problem_that_cannot_be_loaded_is_a_failure_that_the_judge_survives(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path], tmp_path: Path
) -> None:
    judged(service, problem_dir, kernels["good"])
    before = service.pid
    with pytest.raises(JudgeFailure, match=r"definition\.json"):
        judged(service, tmp_path / "nowhere", kernels["good"])
    assert judged(service, problem_dir, kernels["good"]) is Verdict.PASSED and service.pid == before


def test_a_deadline_kills_the_judge_and_its_candidate_and_the_next_evaluation_works(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    seen: set[int] = set()
    for deadline_s in (1.5, 6, 15, 40):  # where others have the device, the first may pass before it is this one's turn
        judged(service, problem_dir, kernels["good"])
        pid = service.pid
        assert pid is not None
        ended = threading.Event()

        def watch(pid: int = pid, ended: threading.Event = ended) -> None:
            if wait_until(lambda: ended.is_set() or candidates_of(pid), 100) and not ended.is_set():
                seen.update(below(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        begun = time.monotonic()
        with pytest.raises(JudgeTimeout):
            service.evaluate(problem_dir, kernels["hang"], Language.CPP, deadline_s=deadline_s)
        assert time.monotonic() - begun < deadline_s + 20
        ended.set()
        watcher.join()
        if seen:
            break
    assert seen and wait_until(lambda: not any(Path(f"/proc/{p}").exists() for p in seen | {pid}))
    assert judged(service, problem_dir, kernels["good"]) is Verdict.PASSED


def test_a_judge_killed_in_the_middle_is_reported_and_the_next_evaluation_works(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    judged(service, problem_dir, kernels["good"])
    pid = service.pid
    assert pid is not None

    def kill() -> None:
        wait_until(lambda: bool(candidates_of(pid)), 100)
        seen.update(below(pid))
        os.kill(pid, signal.SIGKILL)

    seen: set[int] = set()
    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(JudgeDied, match=r"judge\.log"):
        service.evaluate(problem_dir, kernels["hang"], Language.CPP, deadline_s=200)
    killer.join()
    assert seen and wait_until(lambda: not any(Path(f"/proc/{p}").exists() for p in seen))
    assert judged(service, problem_dir, kernels["good"]) is Verdict.PASSED and service.pid != pid


def test_an_evaluation_can_be_given_up_from_outside(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    judged(service, problem_dir, kernels["good"])
    begun = time.monotonic()
    with pytest.raises(JudgeDied, match="given up"):
        judged(service, problem_dir, kernels["hang"], should_abort=lambda: time.monotonic() > begun + 0.5)
    assert time.monotonic() - begun < 20


WORKER = """
import sys
from pathlib import Path
from agentcore.judge.service import JudgeService
from agentcore.vocabulary import HardwareName, Language
problem, good, bad, cache = map(Path, sys.argv[1:])
assert not [name for name in ("torch", "django", "numpy") if name in sys.modules], "imported before"
service = JudgeService(HardwareName.CPU, cache)
result = service.evaluate(problem, good, Language.CPP, deadline_s=200, options={"quick": True})
assert "torch" not in sys.modules and "django" not in sys.modules
print(result.schema_version, service.pid, flush=True)
service.evaluate(problem, bad, Language.CPP, deadline_s=200)
"""


def test_a_worker_needs_no_torch_and_its_sudden_death_takes_judge_and_candidate_along(
    problem_dir: Path, kernels: dict[str, Path], cache_dir: Path
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, *map(str, (problem_dir, kernels["good"], kernels["hang"], cache_dir))],
        stdout=subprocess.PIPE, text=True,
    )
    try:
        assert worker.stdout is not None
        version, pid = worker.stdout.readline().split()
        assert version == "1" and wait_until(lambda: bool(candidates_of(int(pid))), 100)
        everybody = below(worker.pid)
        assert int(pid) in everybody
        worker.kill()
        worker.wait()
        assert wait_until(lambda: not any(_running(p) for p in everybody)), json.dumps(sorted(everybody))
    finally:
        worker.kill()
        worker.wait()


def _running(pid: int) -> bool:
    """Neither gone nor a zombie that nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_closing_leaves_no_process_and_can_be_done_twice(
    service: JudgeService, problem_dir: Path, kernels: dict[str, Path]
) -> None:
    judged(service, problem_dir, kernels["good"])
    assert service.pid is not None
    everybody = {service.pid} | below(service.pid)
    service.close()
    service.close()
    assert service.pid is None and wait_until(lambda: not any(Path(f"/proc/{p}").exists() for p in everybody))


def test_a_judge_that_cannot_start_says_where_its_log_is(cache_dir: Path, tmp_path: Path) -> None:
    log = tmp_path / "judge.log"
    service = JudgeService(HardwareName.H200, cache_dir, log)
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this host has a GPU; the judge would start")
    with pytest.raises(JudgeDied, match=str(log)):
        service.evaluate(tmp_path, tmp_path, Language.CUDA, deadline_s=100)
    assert "needs an NVIDIA GPU" in log.read_text()

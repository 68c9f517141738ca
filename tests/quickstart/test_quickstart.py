"""The whole way, for real: problems, git, HTTP, queue, judge, tuner, review, published solutions."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.sandbox import SandboxUnavailable
from portal.quickstart import requirements

from .conftest import Run, processes_of

ONE = ("--problems", "rmsnorm_h4096", "--attempts-per-problem", "1")


def figures(run: Run) -> list[str]:
    """The rows of the table that a run ends with: the problem's and the campaign's."""
    return [line for line in run.lines if line.startswith(("rmsnorm_h4096  ", "campaign  "))]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_stopped_it_resumes_ends_in_a_merged_solution_and_later_runs_add_nothing_and_serve(
    quickstart: Callable[..., Run], tmp_path: Path
) -> None:
    first = quickstart(*ONE)
    first.until(lambda line: "eager by baseline" in line)  # one evaluation is done, the next one is running
    assert first.interrupt(signal.SIGTERM) == 130
    assert processes_of(first.home) == []
    first.lines += first.rest()
    passwords = [line for line in first.lines if "sign in" in line and "(kept nowhere else)" in line]
    assert [line.split()[2] for line in passwords] == ["admin", "reviewer"] * 2, "at the start and again at the end"
    assert passwords[:2] == passwords[2:]
    answers = next(index for index, line in enumerate(first.lines) if "the portal answers at" in line)
    assert first.lines[answers + 1 : answers + 3] == passwords[:2]

    second = quickstart("--once", *ONE)
    outcome = second.result()
    assert set(outcome) == {"attempts", "passed", "campaign", "merged", "solutions"}
    assert outcome["attempts"] == outcome["passed"] == 1
    assert outcome["merged"] == ["rmsnorm_h4096/cpp"]
    assert outcome["campaign"]["geomean_speedup"] > 1
    assert 0 < outcome["campaign"]["median_sol"] <= 1
    assert processes_of(second.home) == []
    assert not any("eager by baseline" in line for line in second.lines), "a finished evaluation was done again"
    assert not any("(kept nowhere else)" in line for line in second.lines)
    clone = tmp_path / "solutions"
    subprocess.run(["git", "clone", "-q", outcome["solutions"], str(clone)], check=True)
    solution = clone / "solutions" / "rmsnorm_h4096" / "cpp-cpu"
    assert (solution / "kernel.cpp").is_file()
    assert json.loads((solution / "result.json").read_text())["verdict"] == "passed"

    serving = quickstart(*ONE)
    serving.until(lambda line: "serving until Ctrl-C" in line)
    assert not any("tune-" in line or "by baseline" in line for line in serving.lines), "finished work was done again"
    assert "rmsnorm_h4096: already merged" in serving.lines
    assert len(figures(second)) == 2
    assert figures(serving) == figures(second)
    address = next(line.split()[-1] for line in serving.lines if line.startswith("solutions"))
    subprocess.run(["git", "clone", "-q", address, str(tmp_path / "clone")], check=True)
    assert (tmp_path / "clone" / "solutions" / "rmsnorm_h4096").is_dir()
    another = quickstart("--once")
    output, _ = another.process.communicate(timeout=60)
    assert another.process.returncode != 0
    assert "already running" in output
    assert serving.interrupt(signal.SIGINT) == 130
    assert processes_of(serving.home) == []


def test_a_missing_tool_is_named_with_the_package_that_brings_it(
    quickstart: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    run = quickstart("--once", environment={"PATH": str(tmp_path / "bin")})
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode != 0
    for tool in ("git", "g++"):
        assert any(f"{tool} is missing" in line and f"apt-get install {tool}" in line for line in output.splitlines())
    assert "Traceback" not in output


def test_a_host_without_a_sandbox_is_told_which_package_brings_one(monkeypatch) -> None:
    def unavailable(setting: str) -> None:
        raise SandboxUnavailable("bubblewrap: bwrap was not found; unshare: not root")

    monkeypatch.setattr(requirements, "find_sandbox", unavailable)
    (fault,) = requirements.missing()
    assert "bwrap was not found" in fault
    assert "apt-get install bubblewrap" in fault


def test_a_busy_port_is_a_clear_error(quickstart: Callable[..., Run]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = quickstart("--once", "--port", str(port))
        output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode != 0
    assert f"port {port} on 127.0.0.1 is in use" in output


def test_an_unknown_problem_is_named_with_those_there_are(quickstart: Callable[..., Run]) -> None:
    run = quickstart("--once", "--problems", "no_such_problem")
    output, _ = run.process.communicate(timeout=60)
    assert run.process.returncode != 0
    assert "no_such_problem" in output
    assert "rmsnorm_h4096" in output
    assert "sign in" not in output
    assert not list(run.home.glob("*.sqlite3")), "refused before anything was made"

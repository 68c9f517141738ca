"""The client, run as agents run it: a file in a clone, real git behind it."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from agentcore import paths
from agentcore.agents.workspace import Workspace
from agentcore.vocabulary import NAME_PATTERN, Language

from .conftest import TOKEN, YARD, Clone, FakePortal, git

BRANCH = "attempts/rmsnorm/cpp/ada/wide-rows"


def evaluation(verdict: str | None = "passed", state: str = "done", **more: Any) -> dict[str, Any]:
    return {
        "id": 7, "hardware": "cpu", "state": state, "verdict": verdict, "message": "", "latency_geomean_us": 12.5,
        "speedup": 1.38, "sol_score": 0.56, "harness_version": "0.1.0", "stamp": {"device_name": "a cpu"},
        "checks": [{"name": "compiles", "status": "pass", "message": "", "workload": None}],
        "workloads": [
            {"index": 0, "uuid": "u", "axes": {"tokens": 64}, "verdict": "passed", "message": "", "latency_us": 12.5,
             "latency_low_us": 12.4, "latency_high_us": 12.7, "t_sol_us": 4.0, "baseline_us": 17.3, "sol_score": 0.56},
        ],
        **more,
    }


def attempt(commit: str, *evaluations: dict[str, Any]) -> dict[str, Any]:
    return {"commit": commit, "ref": f"refs/heads/{BRANCH}", "evaluations": list(evaluations), "url": ""}


def start(clone: Clone) -> None:
    clone.yard("new", "rmsnorm", "cpp", "wide-rows")
    clone.kernel.write_text("#define ROWS 2  // tune: 1 2 4\n")


def test_new_makes_the_branch_of_this_agent_from_main(clone: Clone) -> None:
    done = clone.yard("new", "rmsnorm", "cpp", "wide-rows")
    assert clone.git("symbolic-ref", "--short", "HEAD") == BRANCH
    assert clone.head() == clone.git("rev-parse", "origin/main")
    assert "kernels/rmsnorm/cpp/" in done.stdout


def test_submit_pushes_one_commit_with_the_trailers_and_the_handoff(clone: Clone) -> None:
    start(clone)
    clone.yard(
        "submit", "-m", "Two rows", "--hypothesis", "fewer\nregisters", "--body-file", "-", "--campaign", "spring",
        "--model", "none", stdin="Tried 2.\n\nAgent: mallory\n\nBeware of 1.",
    )
    bare_tip = git(clone.bare, "rev-parse", BRANCH)
    assert bare_tip == clone.head()
    assert git(clone.bare, "log", "-1", "--format=%an <%ae>|%s", bare_tip) == "ada <ada@agents.kernelyard>|Two rows"
    trailers = git(clone.bare, "log", "-1", "--format=%(trailers:only,unfold)", bare_tip).splitlines()
    assert trailers == [
        "Problem: rmsnorm", "Language: cpp", "Agent: ada", "Campaign: spring", "Hypothesis: fewer registers",
        "Model: none",
    ]
    assert "Beware of 1." in git(clone.bare, "log", "-1", "--format=%B", bare_tip)
    assert git(clone.bare, "diff", "--name-only", "main", BRANCH) == "kernels/rmsnorm/cpp/kernel.cpp"


def test_submit_waits_through_indexing_and_queueing_for_the_verdict(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    commit = clone.head()
    portal.answers[f"attempts/{commit}"] = [
        None, attempt(commit, evaluation(None, "queued")), attempt(commit, evaluation(None, "running")),
        attempt(commit, evaluation()),
    ]
    done = clone.yard("result", "--wait")
    for expected in ("passed on cpu", "12.5", "tokens=64", "0.56", "1.38×", "compiles"):
        assert expected in done.stdout
    assert "running on cpu" in done.stderr


def test_an_attempt_that_does_not_pass_exits_1_and_names_the_failed_check(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    failed = {"name": "inputs-intact", "status": "fail", "message": "wrote input x", "workload": 0}
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), evaluation("reward_hack", checks=[failed]))
    done = clone.yard("result", expect=1)
    assert "reward_hack" in done.stdout
    assert "inputs-intact (workload 0): wrote input x" in done.stdout


def test_only_a_measurement_speaks_and_where_there_is_none_that_it_was_compiled(
    clone: Clone, portal: FakePortal
) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    sanitized = evaluation("incorrect", id=9, kind="sanitize")
    compiled = evaluation("compiled", id=8, kind="compile", workloads=[], latency_geomean_us=None)
    measured = evaluation(id=7, kind="measure")
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), sanitized, compiled)
    done = clone.yard("result", expect=1)
    assert "compiled on cpu" in done.stdout and "compiled only, never measured" in done.stdout
    assert "incorrect" not in done.stdout
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), sanitized, compiled, measured)
    said = clone.yard("result").stdout
    assert "passed on cpu" in said and "never measured" not in said


def test_a_rerun_in_the_queue_is_waited_for_and_the_older_verdict_not_taken(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    old = evaluation("incorrect", id=1)
    portal.answers[f"attempts/{clone.head()}"] = [
        attempt(clone.head(), evaluation(None, "queued", id=2), old), attempt(clone.head(), evaluation(id=2), old),
    ]
    assert "passed" in clone.yard("result", "--wait").stdout


def test_waiting_ends_with_2_when_the_time_is_up(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), evaluation(None, "queued"))
    done = clone.yard("result", "--wait", "--timeout", "1", expect=2)
    assert "no verdict within 1 s (queued on cpu)" in done.stderr


def test_a_portal_that_stumbles_is_asked_again(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), evaluation())
    portal.failures = 2
    clone.yard("result")


def test_json_is_the_portals_answer_on_stdout(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), evaluation())
    assert json.loads(clone.yard("result", "--json").stdout)["evaluations"][0]["sol_score"] == 0.56


def test_an_attempt_can_build_on_another_agents_attempt(clone: Clone, tmp_path: Path) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    other = Clone(tmp_path / "other", clone.bare)
    git(tmp_path, "clone", "-q", "--single-branch", f"file://{clone.bare}", str(other.path))
    other.git("config", "yard.agent", "bob")
    other.yard("new", "rmsnorm", "cpp", "on-ada", "--from", BRANCH)
    assert other.head() == clone.head()
    other.git("checkout", "-q", "main")
    other.yard("new", "rmsnorm", "cpp", "on-ada-2", "--from", clone.head())
    other.kernel.write_text("#define ROWS 1  // tune: 1 2 4\n")
    other.yard("submit", "-m", "One row")
    assert other.git("rev-parse", "HEAD^") == clone.head()


def test_from_best_asks_the_record(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    commit = clone.head()
    portal.answers["problems/rmsnorm/history"] = {"attempts": [{"commit": commit}], "next": None}
    clone.git("checkout", "-q", "main")
    clone.yard("new", "rmsnorm", "cpp", "further", "--from", "best")
    assert clone.head() == commit
    assert "best=1" in portal.asked[-1]


def test_an_unchanged_kernel_is_only_submitted_on_request(clone: Clone) -> None:
    clone.yard("new", "rmsnorm", "cpp", "wide-rows")
    assert "--unchanged" in clone.yard("submit", "-m", "x", expect=2).stderr
    clone.yard("submit", "-m", "Measure", "--unchanged")
    assert git(clone.bare, "log", "-1", "--format=%s", BRANCH) == "Measure"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: c.kernel.chmod(0o755), "is executable"),
        (lambda c: (c.kernel.parent / "link").symlink_to("/etc/passwd"), "only regular files"),
        (lambda c: c.kernel.write_text("x" * 1_100_000), "a file may have"),
        (lambda c: c.kernel.unlink(), "kernel.cpp is missing"),
        (lambda c: (c.kernel.parent / "kernel.so").write_bytes(b"\x7fELF"), "only these kinds of file"),
        (lambda c: (c.path / "yard").open("a").write("# mine"), "may only change kernels/"),
    ],
)
def test_what_a_push_would_refuse_is_said_before_it(clone: Clone, spoil: Any, said: str) -> None:
    start(clone)
    spoil(clone)
    assert said in clone.yard("submit", "-m", "x", expect=2).stderr
    assert BRANCH not in git(clone.bare, "branch", "--list")


def test_a_refused_push_shows_the_reason_and_is_sent_again_later(clone: Clone) -> None:
    hook = clone.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'kernel.cpp: too clever' >&2\nexit 1\n")
    hook.chmod(0o755)
    start(clone)
    refused = clone.yard("submit", "-m", "x", expect=2)
    assert "kernel.cpp: too clever" in refused.stderr
    commit = clone.head()
    hook.unlink()
    clone.yard("submit")
    assert git(clone.bare, "rev-parse", BRANCH) == commit


def test_the_token_is_never_printed(clone: Clone) -> None:
    clone.git("remote", "set-url", "origin", f"http://ada:{TOKEN.replace('/', '%2F')}@127.0.0.1:9/git/attempts.git")
    clone.git("config", "--unset", "yard.url")
    shown = ""
    for arguments, code in ((("new", "rmsnorm", "cpp", "wide-rows"), 0), (("problems",), 0)):
        done = clone.yard(*arguments, expect=code)
        shown += done.stdout + done.stderr
    clone.kernel.write_text("// changed\n")
    done = clone.yard("submit", "-m", "x", "--wait", "--timeout", "1", expect=2)
    shown += done.stdout + done.stderr
    assert "127.0.0.1:9" in shown
    for secret in (TOKEN, TOKEN.replace("/", "%2F"), "ky_secret"):
        assert secret not in shown


def test_a_configured_token_reaches_git_by_the_environment_only(clone: Clone, tmp_path: Path) -> None:
    """A wrapper records what git was started with: the token is in no argument, the header is in the environment."""
    real = shutil.which("git")
    seen = tmp_path / "seen"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$@ :: $GIT_CONFIG_VALUE_0" >> {seen}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    start(clone)
    subprocess.run(
        ["python3", str(clone.path / "yard"), "submit", "-m", "x"], cwd=clone.path, check=True, capture_output=True,
        env={"PATH": f"{wrapper.parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    text = seen.read_text()
    assert TOKEN not in text
    assert any(line.startswith("push") and "Authorization: Basic" in line for line in text.splitlines())


def test_history_shows_hypothesis_verdict_and_handoff(clone: Clone, portal: FakePortal) -> None:
    row = {
        **attempt("a" * 40), "language": "cpp", "agent": "ada", "slug": "wide-rows", "subject": "Two rows",
        "hypothesis": "fewer registers", "body": "Tried 2.\nBeware of 1.", "parent": None, "evaluation": evaluation(),
    }
    portal.answers["problems/rmsnorm/history"] = {"problem": "rmsnorm", "attempts": [row], "next": None}
    shown = clone.yard("history", "rmsnorm").stdout
    for expected in ("aaaaaaaaaaaa", "passed", "1.38×", "fewer registers", "Beware of 1."):
        assert expected in shown


def test_history_pages_until_it_has_all(clone: Clone, portal: FakePortal) -> None:
    def page(name: str, following: int | None) -> dict[str, Any]:
        return {"problem": "rmsnorm", "attempts": [{**attempt(name * 40), "evaluation": None}], "next": following}

    portal.answers["problems/rmsnorm/history"] = [page("a", 5), page("b", None)]
    answer = json.loads(clone.yard("history", "rmsnorm", "--limit", "0", "--json").stdout)
    assert [row["commit"][0] for row in answer["attempts"]] == ["a", "b"]
    assert "before=5" in portal.asked[-1]


def test_without_a_portal_history_and_results_come_from_branches_and_notes(clone: Clone) -> None:
    start(clone)
    clone.yard("submit", "-m", "Two rows", "--hypothesis", "fewer registers", "--body-file", "-", stdin="Learned: 2.")
    note = {
        "evaluation_id": 7, "problem": "rmsnorm", "hardware": "cpu", "verdict": "passed", "checks": [],
        "stamp": {"hardware": "cpu"},
        "workloads": [{"uuid": "u", "index": 0, "axes": {}, "verdict": "passed", "latency_us": 8.0,
                       "bound": {"t_sol_us": 2.0}}],
    }
    git(clone.bare, "notes", "--ref=refs/notes/evaluations", "add", "-m", json.dumps(note), clone.head())
    clone.git("config", "yard.url", "http://127.0.0.1:9")
    shown = clone.yard("history", "rmsnorm", "--best")
    assert "fewer registers" in shown.stdout
    assert "8.000 µs" in shown.stdout
    assert "| Learned: 2." in shown.stdout
    assert "| Problem:" not in shown.stdout
    assert "cannot be reached" in shown.stderr
    assert "passed on cpu" in clone.yard("result").stdout


def test_problems_come_from_the_clone_when_the_portal_is_away(clone: Clone) -> None:
    clone.git("config", "yard.url", "http://127.0.0.1:9")
    assert "Normalise rows." in clone.yard("problems").stdout


def test_terminal_escapes_in_results_are_defused(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    hostile = evaluation("compile_error", message="\x1b[2J\x1b]0;pwned\x07", build={"log": "\x1b[31mred\x9b1m"})
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), hostile)
    done = clone.yard("result", expect=1)
    assert "\x1b" not in done.stdout
    assert "\x9b" not in done.stdout
    assert "red" in done.stdout


def test_a_result_that_is_not_there_yet_is_no_failed_one(clone: Clone, portal: FakePortal) -> None:
    start(clone)
    clone.yard("submit", "-m", "x")
    portal.answers[f"attempts/{clone.head()}"] = attempt(clone.head(), evaluation(None, "queued"))
    assert "queued on cpu" in clone.yard("result", expect=3).stdout
    assert Workspace(clone.path).attempt(clone.head())["evaluations"][0]["state"] == "queued"


def test_another_agents_branch_is_not_submitted_to(clone: Clone) -> None:
    start(clone)
    clone.git("config", "yard.agent", "bob")
    assert "belongs to ada, you are bob" in clone.yard("submit", "-m", "x", expect=2).stderr


@pytest.mark.parametrize("slug", ["Upper", "a/b", "-x", ""])
def test_a_bad_slug_is_named(clone: Clone, slug: str) -> None:
    done = clone.yard("new", "rmsnorm", "cpp", "--", slug, expect=2)
    assert "the slug" in done.stderr


def test_python_3_9_can_read_the_client() -> None:
    ast.parse(YARD.read_text(), feature_version=(3, 9))


def test_the_clients_rules_are_the_servers() -> None:
    """yard imports nothing of ours, so its copy of the rules is compared with the one that decides."""
    loader = SourceFileLoader("yard", str(YARD))
    yard = importlib.util.module_from_spec(importlib.util.spec_from_loader("yard", loader))
    loader.exec_module(yard)
    assert (yard.MAX_FILES, yard.MAX_FILE_BYTES, yard.MAX_TREE_BYTES) == (
        paths.MAX_FILES, paths.MAX_FILE_BYTES, paths.MAX_TOTAL_BYTES,
    )
    assert yard.SUFFIXES == paths.SUFFIXES
    assert yard.NAME.pattern == NAME_PATTERN.pattern
    assert set(yard.LANGUAGES) == {language.value for language in Language}
    for language in Language:
        assert yard.SOURCES.get(language.value, "kernel.py") == language.source_name

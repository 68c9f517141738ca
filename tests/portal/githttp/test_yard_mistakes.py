"""What `yard` says of common mistakes, against the real portal: each message says what to do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.portal.githttp.conftest import BRANCH, KERNEL, Client, with_token

pytestmark = pytest.mark.django_db(transaction=True)
YARD = Path(__file__).resolve().parents[3] / "kernels_repo" / "yard"


class Clone(Client):
    def yard(self, *arguments: str, expect: int = 2, cwd: Path | None = None, yard: Path | None = None) -> str:
        done = subprocess.run(
            [sys.executable, str(yard or self.directory / "yard"), *arguments], cwd=cwd or self.directory,
            env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )
        assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr

    def started(self) -> Clone:
        self.yard("new", "rmsnorm", "cpp", "first", expect=0)
        (self.directory / KERNEL).write_text("int changed;\n")
        return self


@pytest.fixture
def clone(tmp_path: Path, live_server, repositories, settings) -> Clone:
    """A clone without a token, by an agent who says who she is."""
    settings.PUBLIC_URL = live_server.url
    clone = Clone(tmp_path / "clone")
    clone.clone(f"{live_server.url}/git/attempts.git")
    clone.git("config", "yard.agent", "alice")
    shutil.copy(YARD, clone.directory / "yard")
    return clone


def test_without_a_token_it_says_who_makes_one_and_where_to_put_it(clone: Clone) -> None:
    said = clone.started().yard("submit", "-m", "x")
    assert "pushing needs a token and this clone has none; set it: git config yard.token TOKEN" in said
    assert "manage.py createagent NAME" in said
    assert "is kept, `./yard submit` sends it again" in said


def test_a_wrong_token_is_told_from_a_missing_one_and_the_right_one_sends_the_kept_commit(
    clone: Clone, token: str, repositories
) -> None:
    clone.git("config", "yard.token", "wrong-secret")
    said = clone.started().yard("submit", "-m", "x")
    assert "the portal does not take alice's token; set another: git config yard.token TOKEN" in said
    assert "wrong-secret" not in said
    kept = clone.git("rev-parse", "HEAD").stdout.strip()
    clone.git("config", "yard.token", token)
    clone.yard("submit", expect=0)
    pushed = subprocess.run(
        ["git", "-C", str(repositories[0]), "rev-parse", BRANCH], capture_output=True, text=True, check=True
    )
    assert pushed.stdout.strip() == kept


def test_a_portal_that_is_down_is_not_called_a_refusal(clone: Clone) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    clone.started()
    clone.git("remote", "set-url", "origin", f"http://127.0.0.1:{port}/git/attempts.git")
    said = clone.yard("submit", "-m", "x")
    assert f"did not get through to http://127.0.0.1:{port}; check that the portal runs" in said
    assert "refused for" not in said
    assert "is kept, `./yard submit` sends it again" in said
    said = clone.yard("result")
    assert f"http://127.0.0.1:{port} cannot be reached (Connection refused); if the portal is elsewhere" in said
    assert "once the portal answers: ./yard result --wait" in said


def test_what_the_rules_refuse_is_followed_by_how_to_take_it_back(clone: Clone, token: str, live_server) -> None:
    clone.git("remote", "set-url", "origin", with_token(f"{live_server.url}/git/attempts.git", "alice", token))
    clone.started()
    (clone.directory / "README.md").write_text("mine\n")
    clone.git("commit", "-qam", "Outside\n\nProblem: rmsnorm\nLanguage: cpp\nAgent: alice\n")
    said = clone.yard("submit", "-m", "x")
    assert "the push was refused for what is said below; take the commit back (git reset --soft HEAD^)" in said
    assert "README.md" in said, "the rule's own words"


def test_a_branch_that_went_on_elsewhere_asks_for_another_name(clone: Clone, token: str, live_server, tmp_path) -> None:
    address = with_token(f"{live_server.url}/git/attempts.git", "alice", token)
    clone.git("remote", "set-url", "origin", address)
    clone.started().yard("submit", "-m", "x", expect=0)
    other = Clone(tmp_path / "other")
    other.clone(address)
    shutil.copy(YARD, other.directory / "yard")
    other.started()
    (other.directory / KERNEL).write_text("int another;\n")
    said = other.yard("submit", "-m", "y")
    assert "the branch has commits there that are not in yours" in said
    assert "./yard new PROBLEM LANGUAGE SLUG --from HEAD" in said


@pytest.mark.parametrize("command", [("new", "rmsnrm", "cpp", "x"), ("history", "rmsnrm")])
def test_an_unknown_problem_is_answered_with_what_was_probably_meant(clone: Clone, command: tuple[str, ...]) -> None:
    from tests.portal import factories as make

    for name in ("rmsnorm", "softmax"):
        make.make_problem(name)
    said = clone.yard(*command)
    assert "there is no problem rmsnrm" in said
    assert "`./yard problems` lists all" in said
    assert "did you mean rmsnorm?" in said


def test_outside_of_a_clone_it_says_how_to_get_one(clone: Clone, tmp_path: Path) -> None:
    """Copied out of the clone, in no repository; and in a repository that holds something else."""
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    shutil.copy(YARD, lonely / "yard")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kernels").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(elsewhere)], check=True, env={"PATH": os.environ["PATH"]})
    shutil.copy(YARD, elsewhere / "kernels" / "yard")
    for yard in (lonely / "yard", elsewhere / "kernels" / "yard"):
        said = clone.yard("problems", cwd=yard.parent, yard=yard)
        assert "in a clone of the attempts repository" in said
        assert "git clone --single-branch http://AGENT:TOKEN@HOST/git/attempts.git" in said
    # From anywhere inside a clone, and with the clone's own client from anywhere, it works.
    clone.yard("problems", expect=0, cwd=clone.directory / "kernels", yard=lonely / "yard")
    clone.yard("problems", expect=0, cwd=lonely)

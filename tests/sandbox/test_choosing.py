"""Which sandbox is chosen, and what is said when none can be made."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import agentcore
from agentcore.sandbox import Bind, Limits, SandboxUnavailable, bubblewrap, choose, find_sandbox, seccomp
from tests.sandbox.conftest import wait_until

PACKAGE = Path(agentcore.__file__).parent


@pytest.fixture
def unchosen():
    find_sandbox.cache_clear()
    yield
    find_sandbox.cache_clear()


def test_a_wrong_setting_is_refused():
    with pytest.raises(ValueError, match="'docker' is none of: auto, bubblewrap, unshare, none"):
        find_sandbox("docker")


def test_auto_prefers_bubblewrap_where_it_works(unchosen):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    assert find_sandbox().kind == "bubblewrap"


@pytest.mark.skipif(os.geteuid() != 0, reason="plain namespaces need root")
def test_auto_falls_back_to_plain_namespaces_for_root(unchosen, monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda _: None)
    assert find_sandbox().kind == "unshare"


def test_without_any_sandbox_the_package_is_named_and_nothing_weaker_is_used(unchosen, monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxUnavailable, match="install the Debian package bubblewrap"):
        find_sandbox()


def test_a_sandbox_that_does_not_run_programs_is_not_chosen(unchosen, monkeypatch):
    def broken(_):
        raise SandboxUnavailable("the kernel says no")

    monkeypatch.setattr(choose, "_prove", broken)
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap: .*unshare: "):
        find_sandbox()


def test_an_architecture_without_a_filter_has_no_sandbox():
    with pytest.raises(SandboxUnavailable, match="no system-call filter for sparc64"):
        seccomp.filter_program("sparc64")
    assert len(seccomp.filter_program("aarch64")) % 8 == 0


def test_an_old_bubblewrap_is_not_used(monkeypatch, tmp_path):
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.6.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxUnavailable, match=r"0\.6\.1; bubblewrap 0\.8 is needed"):
        bubblewrap.Bubblewrap()


def test_none_is_only_taken_by_name_and_says_so(tmp_path):
    bare = find_sandbox("none")
    assert bare.kind == "none"
    done = bare.run(["sh", "-c", "trap '' TERM; echo here; sleep 100"], limits=Limits(wall_s=0.5))
    assert done.timed_out and done.stdout == b"here\n"
    assert bare.run(["sh", "-c", "kill -SEGV $$"]).returncode == 139
    with pytest.raises(ValueError, match="cannot appear as"):
        bare.run(["true"], readable=[Bind(tmp_path, Path("/elsewhere"))])


def test_without_a_sandbox_too_the_program_of_a_killed_caller_ends():
    program = """
import os, signal, subprocess
from agentcore.sandbox import Limits, find_sandbox
process = find_sandbox("none").popen(["sh", "-c", "echo started; exec sleep 1000"], stdout=subprocess.PIPE,
                                     limits=Limits(wall_s=None))
process.stdout.readline()
os.kill(process.pid, signal.SIGSTOP)
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.skipif(os.geteuid() != 0, reason="changes to an ordinary user, which needs root")
def test_an_ordinary_user_is_confined_in_a_user_namespace():
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None or shutil.which("bwrap") is None or shutil.which("setpriv") is None:
        pytest.skip("needs a system Python, bubblewrap and setpriv")
    program = """
import os
from agentcore.sandbox import find_sandbox
sandbox = find_sandbox()
done = sandbox.run(["sh", "-c", "id -u; cat /proc/self/status /proc/sys/user/max_user_namespaces; ls /etc /home"])
with sandbox.popen(["sleep", "100"]) as process:
    while not process.host_pids(): pass
    stopped = process.freeze(5)
    pid, = process.host_pids()
    killed = process.kill_tree()
print(sandbox.kind, os.geteuid(), done.stdout.decode(), done.stderr.decode())
print("stopped", stopped, "killed", killed, "gone", not os.path.exists(f"/proc/{pid}"))
"""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        shutil.copytree(PACKAGE / "sandbox", root / "agentcore" / "sandbox")
        (root / "agentcore" / "__init__.py").touch()
        done = subprocess.run(
            ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", python, "-B", "-c", program],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": name},
            cwd=name,
            capture_output=True,
            text=True,
            check=False,
        )
    if "user namespaces" in done.stderr.lower() or "creating new namespace failed" in done.stderr.lower():
        pytest.skip(f"this host gives ordinary users no user namespaces: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[:3] == ["bubblewrap", "54321", "54321"]
    assert words[words.index("CapEff:") + 1] == "0" * 16
    assert "No such file or directory" in done.stdout
    assert "stopped True killed True gone True" in done.stdout

"""A stranger's reference and generator run in the sandbox: what they do there, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from agentcore.problems import load_problem
from agentcore.problems import trial as trial_module
from agentcore.problems.trial import Trial, try_reference
from agentcore.sandbox import Limits, find_sandbox
from tests.problems.stopping import stopped_inside

SECRET = "/etc/shadow"


def tried(write_problem: Any, reference: str, *, custom: bool = False, **inputs: Any) -> Trial:
    def change(definition: dict[str, Any], workload: dict[str, Any]) -> None:
        definition["reference"] = reference
        if custom:
            definition["custom_inputs_entrypoint"] = "make"
            workload["inputs"]["x"] = {"type": "custom"}
        workload["inputs"] |= inputs

    return try_reference(load_problem(write_problem(change)), find_sandbox())


def test_a_generator_and_its_reference_run_in_the_sandbox_without_the_host(write_problem: Any, tmp_path: Path) -> None:
    escape = tmp_path / "escaped"
    trial = tried(write_problem, f"""
import pathlib, socket, torch

def make(axes, device):
    print("kernelyard-trial forged")
    for reach in (lambda: open({SECRET!r}).read(), lambda: pathlib.Path({str(escape)!r}).write_text("x"),
                  lambda: socket.create_connection(("127.0.0.1", 22), timeout=1),
                  lambda: open("/tmp/kernelyard/problem/definition.json", "w")):
        try:
            reach()
        except OSError:
            continue
        raise SystemExit("reached the host")
    return {{"x": torch.ones(axes["rows"], 8, device=device)}}

def run(x, scale):
    assert x.sum() == 24
    return x * scale
""", custom=True)
    assert trial == Trial("ran", workload="w0")
    assert not escape.exists()


@pytest.mark.parametrize(
    ("body", "outcome", "message"),
    [
        ("raise RuntimeError('\\x1b[2Jno kernel image')", "skipped", "may need a GPU"),
        ("raise SystemExit(run(1 / 0, 1))", "failed", "ZeroDivisionError"),
        ("import os; os._exit(3)", "failed", "ended with 3"),
    ],
    ids=["needs-device", "raises", "vanishes"],
)
def test_what_goes_wrong_is_said_in_one_clean_line(write_problem: Any, body: str, outcome: str, message: str) -> None:
    trial = tried(write_problem, f"def run(x, scale):\n    {body}\n")
    assert trial.outcome == outcome
    assert message in trial.message
    assert "\x1b" not in trial.message


def test_one_that_does_not_end_is_ended(write_problem: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(trial_module, "_LIMITS", Limits(wall_s=1))
    trial = tried(write_problem, "while True:\n    pass\n\ndef run(x, scale):\n    return x\n")
    assert (trial.outcome, trial.message) == ("failed", "did not end within 1 s")


def test_data_files_are_shown_to_it(write_problem: Any, tmp_path: Path) -> None:
    source = {"type": "safetensors", "path": "blob/a/x.safetensors", "tensor_key": "x"}
    reference = "def run(x, scale):\n    assert x.sum() == 48\n    return x\n"
    absent = tried(write_problem, reference, x=source)
    assert (absent.outcome, absent.message) == ("skipped", "the data files of its workloads are absent")
    (tmp_path / "problem/blob/a").mkdir(parents=True)
    file = tmp_path / "problem/blob/a/x.safetensors"
    save_file({"x": np.full((3, 8), 2, np.float32)}, file)
    for mode in (0o644, 0o600):
        file.chmod(mode)
        assert tried(write_problem, reference, x=source).outcome == "ran"


def test_a_sandbox_that_fails_is_an_outcome(write_problem: Any, tmp_path: Path, monkeypatch: Any) -> None:
    problem = load_problem(write_problem())
    monkeypatch.setattr(trial_module, "PACKAGE", tmp_path / "absent")
    trial = try_reference(problem, find_sandbox())
    assert (trial.outcome, trial.ok) == ("failed", False)
    assert "could not be tried" in trial.message and "absent" in trial.message


def test_one_too_large_for_a_trial_is_left_out(write_problem: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(trial_module, "MAX_TENSOR_BYTES", 100)
    trial = tried(write_problem, "def run(x, scale):\n    return x\n")
    assert (trial.outcome, trial.workload) == ("skipped", "w0")


def test_a_path_that_leads_to_another_kind_of_file_is_not_shown_to_a_reference(
    write_problem: Any, tmp_path: Path
) -> None:
    secret = tmp_path / "var" / "secret_key"
    secret.parent.mkdir()
    secret.write_text("not for everybody")
    secret.chmod(0o600)
    trial = tried(write_problem, """
import pathlib
raise RuntimeError(pathlib.Path("/tmp/kernelyard/problem/var/secret_key").read_text())
def run(x, scale):
    return x
""", x={"type": "safetensors", "path": "var/secret_key", "tensor_key": "x"})
    assert trial.outcome == "failed" and "not for everybody" not in trial.message
    assert "No such file" in trial.message


@pytest.mark.parametrize(
    ("body", "outcome", "message"),
    [
        ("return x[:3] * scale", "failed", "run() gave shape (3, 8) for output 'y'; expected (5, 8)"),
        ("return (x * scale).double()", "ran", ""),
        ("import os; len(x) < 5 or os._exit(3); return x", "failed", "ended with 3"),
    ],
    ids=["shape-of-one-workload", "another-float", "vanishes"],
)
def test_a_reference_that_fits_the_smallest_workload_only_is_found_out(
    write_problem: Any, body: str, outcome: str, message: str
) -> None:
    rows = "".join(json.dumps({"uuid": f"w{n}", "axes": {"rows": n}, "inputs": {}}) + "\n" for n in (5, 3))
    root = write_problem(lambda definition, workload: definition.update(
        reference=f"def run(x, scale):\n    {body}\n"
    ), workload__jsonl=rows)
    trial = try_reference(load_problem(root), find_sandbox())
    assert (trial.outcome, trial.workload) == (outcome, "w5" if outcome == "failed" else "w3")
    assert message in trial.message


def test_a_second_workload_that_is_not_small_is_left_out(write_problem: Any, monkeypatch: Any) -> None:
    rows = "".join(json.dumps({"uuid": f"w{n}", "axes": {"rows": n}, "inputs": {}}) + "\n" for n in (3, 5))
    monkeypatch.setattr(trial_module, "_MAX_SECOND_BYTES", 300)
    root = write_problem(lambda definition, workload: definition.update(
        reference="def run(x, scale):\n    assert len(x) == 3\n    return x\n"
    ), workload__jsonl=rows)
    assert try_reference(load_problem(root), find_sandbox()) == Trial("ran", workload="w3")


_TRIES = """
import pathlib, sys
from agentcore.problems import load_problem
from agentcore.problems.trial import try_reference
from agentcore.sandbox import find_sandbox
try_reference(load_problem(pathlib.Path(sys.argv[1])), find_sandbox())
"""


def test_a_trial_that_is_stopped_leaves_no_directory_and_one_that_is_killed_leaves_it_to_the_next(
    write_problem: Any, tmp_path: Path
) -> None:
    def sleeps(definition: dict[str, Any], _: dict[str, Any]) -> None:
        definition["reference"] = "import time\ntime.sleep(600)\ndef run(x, scale):\n    return x\n"

    root, temporary = write_problem(sleeps), tmp_path / "tmp"
    temporary.mkdir()

    assert stopped_inside(_TRIES, root, temporary, signal.SIGKILL) == -signal.SIGKILL
    (left,) = temporary.glob("kernelyard-trial-*")
    os.utime(left, (0, 0))
    assert stopped_inside(_TRIES, root, temporary, signal.SIGTERM) == 128 + signal.SIGTERM
    assert list(temporary.glob("kernelyard-trial-*")) == []

"""Small problems written on the spot, kernels for them, and one CPU judge for the whole session."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentcore.build.header import parameters
from agentcore.judge.devices import gpus
from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.judge.result import Check, EvaluationResult
from agentcore.problems import Problem, load_problem
from agentcore.sandbox import Sandbox, SandboxUnavailable, find_sandbox
from agentcore.vocabulary import CheckName, HardwareName, Language

if TYPE_CHECKING:
    from tests.judge.yard import Yard

DOUBLE: dict[str, Any] = {
    "name": "double_it",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
    "reference": "def run(x):\n    return x * 2\n",
}
"""The definition most tests use: y = 2x."""

DOUBLE_KERNEL = """
    for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
    return 0;
"""


def workload(uuid: str = "w0", axes: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    """One workload line; inputs default to random (see write_problem)."""
    return {"uuid": uuid, "axes": {"n": 1000} if axes is None else axes, **more}


def write_problem(
    root: Path, definition: dict[str, Any], workloads: list[dict[str, Any]], heldout: list[dict[str, Any]] | None = None
) -> Path:
    """A problem's directory: definition.json, reference.py and the workload files."""
    root.mkdir(parents=True)
    stored = dict(definition)
    (root / "reference.py").write_text(stored.pop("reference"))
    (root / "definition.json").write_text(json.dumps(stored))
    for name, lines in (("workload.jsonl", workloads), ("heldout.jsonl", heldout or [])):
        if lines:
            full = [{"inputs": {n: {"type": "random"} for n in definition["inputs"]}, **line} for line in lines]
            (root / name).write_text("".join(json.dumps(line) + "\n" for line in full))
    return root


def write_kernel(root: Path, source: str, language: Language = Language.CPP) -> Path:
    """A kernel's directory, readable to the sandbox's user. A C++ source is a body, or a whole file if it has one."""
    root.mkdir(parents=True)
    root.chmod(0o755)
    (root / language.source_name).write_text(source)
    return root


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def whole_kernel(body: str, problem: Problem | Path) -> str:
    """A kernel.cpp around a body of ``kernel_launch``, with the parameters that the problem's header declares.

    Most bodies need nothing of <cmath>, which takes as long to compile as all the rest twice.
    """
    definition = (load_problem(problem) if isinstance(problem, Path) else problem).definition
    declared = ", ".join(p.declaration for p in parameters(definition, Language.CPP))
    cmath = "#include <cmath>\n" if any(name in body for name in ("INFINITY", "NAN", "sqrt")) else ""
    return (
        f'#include "problem.h"\n{cmath}#include <cstdlib>\n#include <cstring>\n#include <signal.h>\n'
        "#include <unistd.h>\n"
        f'extern "C" int kernel_launch({declared}) {{{body}}}\n'
    )


def failing(result: EvaluationResult) -> set[CheckName]:
    return {check.name for check in result.failed_checks()}


def checks_of(result: EvaluationResult) -> dict[CheckName, Check]:
    """The first workload's checks by name."""
    return {check.name: check for check in result.workloads[0].checks}


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    try:
        return find_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory, lay_cpu_rates: Callable[[Path], Path]) -> Path:
    return lay_cpu_rates(tmp_path_factory.mktemp("judge-cache"))


@pytest.fixture(scope="session")
def cpu_judge(cache_dir: Path, sandbox: Sandbox) -> Judge:
    """One judge for all, as in a worker: what one candidate does must not touch the next."""
    return Judge(HardwareName.CPU, cache_dir)


@pytest.fixture(scope="session")
def gpu_judge(cache_dir: Path, sandbox: Sandbox) -> Judge:
    """The judge of this host's first GPU; where there is none the test is skipped, saying what is missing."""
    known = [gpu["hardware"] for gpu in gpus() if gpu["hardware"]]
    if not known:
        pytest.skip("no NVIDIA GPU of a known class on this host")
    if not (shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists()):
        pytest.skip("nvcc is not on this host")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("this torch is built without CUDA")
    return Judge(HardwareName(known[0]), cache_dir)


@pytest.fixture(scope="session")
def yard(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path, sandbox: Sandbox) -> Iterator[Yard]:
    """A judge kept up as a service, for all who ask what it does where something fails."""
    from tests.judge.yard import Yard

    root = tmp_path_factory.mktemp("failures")
    root.parent.chmod(0o755)
    made = Yard(root, cache_dir)
    with made.service:
        yield made


class Bench:
    """Writes problems and kernels under one directory and puts them to the session's judge."""

    def __init__(self, root: Path, judge: Judge) -> None:
        self.root, self.judge = root, judge
        self._names = itertools.count()

    def problem(
        self, definition: dict[str, Any] = DOUBLE, workloads: list[dict[str, Any]] | None = None,
        heldout: list[dict[str, Any]] | None = None,
    ) -> Problem:
        root = self.root / f"problem{next(self._names)}"
        return load_problem(write_problem(root, definition, workloads or [workload()], heldout))

    def kernel(self, source: str, problem: Problem, language: Language = Language.CPP) -> Path:
        if language is Language.CPP and "kernel_launch" not in source:
            source = whole_kernel(source, problem)
        return write_kernel(self.root / f"kernel{next(self._names)}", source, language)

    def judge_kernel(
        self, source: str, problem: Problem | None = None, language: Language = Language.CPP, **options: Any
    ) -> EvaluationResult:
        """The result for a kernel (C++: a body of kernel_launch will do) on a problem (y = 2x by default)."""
        problem = problem or self.problem()
        return self.judge_directory(self.kernel(source, problem, language), problem, language, **options)

    def judge_directory(
        self, kernel_dir: Path, problem: Problem, language: Language, **options: Any
    ) -> EvaluationResult:
        request = EvaluationRequest(**{
            "problem": problem, "kernel_dir": kernel_dir, "language": language, "hardware": HardwareName.CPU,
            "cache_dir": self.judge.cache_dir, "quick": True, **options,
        })
        for _ in range(4):
            result = self.judge.evaluate(request)
            # What a queue does when the machine is busy with something else: once more.
            if CheckName.QUIET_DEVICE not in failing(result):
                break
        return result


@pytest.fixture
def bench(tmp_path: Path, cpu_judge: Judge) -> Bench:
    return Bench(tmp_path, cpu_judge)


def below(pid: int) -> set[int]:
    """Every process started by ``pid``, directly or not."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in direct:
            found |= {child} | below(child)
    return found


def has_candidate(pid: int) -> bool:
    """Whether a process has a built kernel loaded (its forks have it too)."""
    try:
        return "/kernel.so" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def candidates_of(pid: int) -> set[int]:
    """The processes below ``pid`` that have a built kernel loaded."""
    return {child for child in below(pid) if has_candidate(child)}


def wait_until(condition: Callable[[], object], seconds: float = 20) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(held)


@contextlib.contextmanager
def while_a_candidate_runs(pid: int, then: Callable[[int], None], *, after_s: float) -> Iterator[set[int]]:
    """Does something to the judge ``pid`` some time after a candidate started running; yields the pids that were alive
    then.
    """
    seen: set[int] = set()

    def act() -> None:
        if wait_until(lambda: candidates_of(pid)):
            time.sleep(after_s)
            seen.update({pid} | below(pid))
            then(pid)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield seen
    finally:
        thread.join()


@pytest.fixture
def children() -> Callable[[], set[int]]:
    """The processes below this one that were not there when the test began."""
    before = below(os.getpid())
    return lambda: below(os.getpid()) - before


@pytest.fixture(scope="session")
def fake_libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a libcuda that runs the judge's own kernels on the host (fakecuda)."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not on this host")
    from tests.judge.fake_libcuda import compile_into

    root = tmp_path_factory.mktemp("fakecuda")
    root.chmod(0o755)
    root.parent.chmod(0o755)
    compile_into(root, compiler)
    return root

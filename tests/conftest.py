"""Spreads a run of the whole suite over the cores, and gives tests that measure time the machine to themselves.

With pytest-xdist installed, `pytest` without a path starts one worker per core and one more, since many tests wait for
a process or a server (at most `MOST_WORKERS`); `-n 0`, a path, `-k`, `-m` or a debugger keep everything in one
process. A test marked ``quiet`` runs while no other test does,
whichever worker has it: the workers share a lock, taken alone by a quiet test, and together by all others for as long
as they have any to run. Files that are quiet as a whole come last and stay on one worker.
"""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
QUIET = (
    "bounds/test_rates.py",
    "hacks/test_hacks.py",
    "judge",
    "portal/evaluations/test_failures.py",
    "portal/evaluations/test_real_comparison.py",
    "quickstart/test_quickstart.py",
)
"""What measures this machine or compares times, loads it on purpose, or wants to have the device alone."""
LOUD = tuple(f"judge/test_{name}.py" for name in (
    "ahead", "baselines", "buffers", "channel", "cli", "compare", "compare_cli", "compile_only", "correctness",
    "cuda_content", "cuda_glance", "cuda_runner", "cuda_target", "device_page", "devices", "evaluate", "findings",
    "first_call", "gaps", "gate", "gpu", "gpu_failures", "heap", "host_calls", "host_serve", "kernel_language",
    "kernel_names", "kept_memory", "layout", "libraries", "limits", "rendering", "runner_kernel", "session",
    "statistics", "verdicts",
))
"""What of these directories judges nothing, or asks only for what does not depend on time: a test in there that has a
kernel judged while others run asks again where the judge finds its device disturbed."""
LONGEST = (
    "hacks/test_by_answer.py",
    "official/test_extension.py",
    "suite/test_cuda_builds.py",
    "hacks/test_cuda_compiles.py",
    "suite/test_cuda_logic.py",
    "agents/test_tuner.py",
    "sanitizer/test_host.py",
    "sanitizer/test_suite.py",
    "portal/attempts/test_reindex.py",
    "portal/evaluations/test_queue_processes.py",
    "hacks/test_selftest.py",
    "portal/evaluations/test_hosts.py",
    "portal/evaluations/test_cluster.py",
    "protocol/test_yard.py",
    "gitstore/test_push_policy.py",
)
"""The longest of the others, which come first: one that began late would keep its worker busy alone."""
assert all((TESTS / name).exists() for name in (*QUIET, *LOUD, *LONGEST)), "a path that is named above is not there"
MOST_WORKERS = 4


def is_quiet(path: str) -> bool:
    """Whether a test file, named relative to the repository's root, is quiet as a whole."""
    name = path.removeprefix("tests/")
    return name not in LOUD and any(name == quiet or name.startswith(f"{quiet}/") for quiet in QUIET)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector from what imports make, which stays: walking that again and again takes a sixth of
    the time of a worker.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # a test's garbage is small


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # a worker comes by here too, and must not start workers of its own
    option = config.option
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not option.keyword and not option.markexpr
    if config.pluginmanager.hasplugin("xdist") and option.numprocesses is None and whole and not option.usepdb:
        cores = len(os.sched_getaffinity(0))
        option.numprocesses = min(cores + 1, MOST_WORKERS) if cores > 1 else 0
        _compile()
        _measure_cpu_rates()


def _compile() -> None:
    """Once for the hundreds of processes that import these: where PYTHONDONTWRITEBYTECODE is set, as containers like
    to, each would compile what it imports anew, a quarter of the time that Django takes to start.
    """
    for place in (ROOT / "agentcore", ROOT / "portal", TESTS / "portal"):
        compileall.compile_dir(place, quiet=2)


def _measure_cpu_rates() -> None:
    """Before any test runs: beside others this host would seem slower than it is, and its bounds too far away."""
    from agentcore.bounds.cpu import CalibrationError, calibrate_cpu, default_cache_dir

    with contextlib.suppress(CalibrationError):  # the tests that need the rates say so
        calibrate_cpu(default_cache_dir())


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Distribution())


class _Distribution:
    """Hooks that exist only with pytest-xdist."""

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> object:
        from xdist.scheduler import LoadScopeScheduling

        class ByFile(LoadScopeScheduling):  # type: ignore[misc]
            """A file's tests share its fixtures on one worker, those of the pages one browser; all quiet files make one
            unit, the last.
            """

            def _split_scope(self, nodeid: str) -> str:
                path = nodeid.partition("::")[0]
                if path.startswith("tests/browser/"):
                    return "browser"
                return "quiet" if is_quiet(path) else path

        config.option.loadscopereorder = False  # the largest unit first would be the quiet one
        return ByFile(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    for item in items:
        if is_quiet(item.path.relative_to(ROOT).as_posix()):
            item.add_marker(pytest.mark.quiet)
    result = yield
    # After pytest-django, which puts tests with a database first, quiet ones too: whichever worker came to those would
    # wait there until the others have run everything else.
    items.sort(key=_place)
    return result


def _place(item: pytest.Item) -> int:
    path = item.path.relative_to(ROOT).as_posix()
    if is_quiet(path):
        return len(LONGEST) + 1
    name = path.removeprefix("tests/")
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: waiting for the lock is not part of a test's time limit
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    if _turn is None:
        return (yield)
    _turn.take(alone=_wants_quiet(item))
    try:
        return (yield)
    finally:
        # Kept from one loud test to the next: a quiet one that slipped between two would keep this worker waiting.
        if nextitem is None or _wants_quiet(item) or _wants_quiet(nextitem):
            _turn.end()


def _wants_quiet(item: pytest.Item) -> bool:
    return item.get_closest_marker("quiet") is not None


class _Turn:
    """This worker's part of the lock that all workers of a run share."""

    def __init__(self, run: str) -> None:
        self._file = (Path(tempfile.gettempdir()) / f"kernelyard-tests-{run}.lock").open("a")
        self._held = False

    def take(self, *, alone: bool) -> None:
        if not self._held:
            fcntl.flock(self._file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            self._held = True

    def end(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._held = False


_turn = _Turn(os.environ["PYTEST_XDIST_TESTRUNUID"]) if "PYTEST_XDIST_WORKER" in os.environ else None


@pytest.fixture(scope="session")
def lay_cpu_rates() -> Callable[[Path], Path]:
    """``lay_cpu_rates(cache_dir)`` puts this CPU's rates there, where a judge looks for them, and returns it.

    Measured once on this machine: it takes a judge seconds, and every test's judge has a cache of its own.
    """
    from agentcore.bounds.cpu import calibrate_cpu, default_cache_dir, rates_file

    rates = calibrate_cpu(default_cache_dir())

    def lay(cache_dir: Path) -> Path:
        cache_dir.mkdir(parents=True, exist_ok=True)
        for file in default_cache_dir().glob("cpu-rates-*.json"):
            shutil.copy(file, cache_dir)
        # As of now: what was seen on a busy host would be measured again some time later, in the middle of a test.
        laid = rates.model_copy(update={"measured_at": datetime.now(UTC)})
        rates_file(cache_dir).write_text(laid.model_dump_json())
        assert calibrate_cpu(cache_dir) == laid
        return cache_dir

    return lay

"""Kernels that fail, each in its own way, and what the judge says of them. Cheats are in tests/hacks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from agentcore.build.frameworks import FrameworkMissing
from agentcore.judge.heldout import without_shape
from agentcore.judge.result import Check, EvaluationResult, WorkloadResult
from agentcore.judge.session import LOG_BYTES
from agentcore.vocabulary import CheckName, CheckStatus, Language, Verdict
from tests.judge.conftest import (
    DOUBLE,
    DOUBLE_KERNEL,
    Bench,
    failing,
    has_candidate,
    open_descriptors,
    workload,
)

Children = Callable[[], set[int]]


def gone(children: Children) -> bool:
    """Whether every process that has a candidate loaded has ended, within a second."""
    deadline = time.monotonic() + 1
    while (found := any(map(has_candidate, children()))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not found


def test_a_compile_error_is_reported_in_the_compilers_own_words(bench: Bench) -> None:
    result = bench.judge_kernel("y[0] = nonsense; return 0;")
    assert result.verdict is Verdict.COMPILE_ERROR and failing(result) == {CheckName.COMPILES}
    assert "nonsense" in result.message and result.message.startswith("kernel.cpp:")
    assert result.build is not None and "nonsense" in result.build.log and result.workloads == []


def test_a_directory_without_its_source_is_a_compile_error(bench: Bench) -> None:
    problem = bench.problem()
    for language in (Language.CPP, Language.TORCH):
        directory = bench.kernel("kernel_launch", problem, language)
        (directory / language.source_name).rename(directory / "other.txt")
        result = bench.judge_directory(directory, problem, language)
        assert result.verdict is Verdict.COMPILE_ERROR and language.source_name in result.message


def test_a_language_whose_package_this_host_lacks_is_the_hosts_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(language: Language) -> str:
        raise FrameworkMissing(f"{language} kernels need what this host lacks")

    monkeypatch.setattr("agentcore.judge.building.framework_version", missing)
    result = bench.judge_kernel("def run(x, y):\n    pass\n", language=Language.TRITON)
    assert result.verdict is Verdict.INFRA_ERROR and failing(result) == {CheckName.INFRASTRUCTURE}
    assert "triton kernels need what this host lacks" in result.message


def test_a_status_other_than_zero_is_a_runtime_error_with_its_number(bench: Bench) -> None:
    result = bench.judge_kernel("y[0] = n; return 41;")
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.RUNS}
    assert "returned 41" in result.message


def test_a_crash_is_a_runtime_error_with_the_signals_name(bench: Bench) -> None:
    result = bench.judge_kernel("int* p = nullptr; *(volatile int*)p = 1; return 0;")
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.RUNS}
    assert "SIGSEGV" in result.message


def test_a_write_to_an_input_is_named_even_though_it_shows_as_the_same_crash(bench: Bench) -> None:
    result = bench.judge_kernel("((float*)x)[n / 2] = 7;" + DOUBLE_KERNEL)
    assert result.verdict is Verdict.REWARD_HACK and CheckName.INPUTS_INTACT in failing(result)
    assert "input" in result.message and "read-only" in result.message


@pytest.mark.parametrize("code", [0, 3])
def test_a_candidate_that_exits_in_the_middle_does_not_pass(bench: Bench, code: int) -> None:
    result = bench.judge_kernel(DOUBLE_KERNEL.replace("return 0;", f"_exit({code}); return 0;"))
    assert not result.passed and f"exited with status {code}" in str(result.failed_checks())


def test_a_library_that_dies_while_it_is_loaded_does_not_load(bench: Bench) -> None:
    problem = bench.problem()
    whole = bench.kernel(DOUBLE_KERNEL, problem) / "kernel.cpp"
    result = bench.judge_kernel(whole.read_text() + "__attribute__((constructor)) static void early() { abort(); }\n")
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.LOADS}
    assert "SIGABRT" in result.message and result.workloads == []


def test_a_hung_kernel_leaves_nothing_whatever_it_ignores_and_the_next_is_unharmed(
    bench: Bench, children: Children
) -> None:
    hang = """
        static int calls = 0;
        if (calls++ == 1) {
            for (int s = 1; s < 32; ++s) signal(s, SIG_IGN);
            for (int i = 0; i < 3; ++i) if (fork() == 0) for (;;) pause();
            for (;;) pause();
        }
    """ + DOUBLE_KERNEL
    begun = time.monotonic()
    result = bench.judge_kernel(hang, call_timeout_s=1.0, first_call_timeout_s=30.0)
    assert result.verdict is Verdict.TIMEOUT and CheckName.IN_TIME in failing(result)
    assert "did not return within 1 s" in str(result.failed_checks()) and time.monotonic() - begun < 60
    assert gone(children)
    assert bench.judge_kernel(DOUBLE_KERNEL).passed


def test_a_kernel_that_leaves_a_process_behind_does_not_pass(bench: Bench, children: Children) -> None:
    result = bench.judge_kernel("static int calls = 0; if (!calls++ && fork() == 0) for (;;) pause();" + DOUBLE_KERNEL)
    assert result.verdict is Verdict.REWARD_HACK and CheckName.SANDBOXED in failing(result)
    assert "left processes behind" in result.message and gone(children)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("def run(x, y):\n    raise KeyError('no such row')\n", "KeyError: 'no such row'"),
        ("def run(x):\n    return x\n", "TypeError"),
        ("def run(x, y):\n    raise ValueError('\\ud800\\x00' + 'x' * 100_000)\n", "ValueError"),
    ],
    ids=["raises", "wrong-arity", "hostile-text"],
)
def test_a_python_kernel_that_raises_is_a_runtime_error_with_its_exception(
    bench: Bench, run: str, message: str
) -> None:
    result = bench.judge_kernel(run, language=Language.TORCH)
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.RUNS}
    assert message in result.message and len(result.message) <= 4000
    assert EvaluationResult.model_validate_json(result.model_dump_json()) == result


def test_a_python_kernel_that_fails_on_import_does_not_load(bench: Bench) -> None:
    result = bench.judge_kernel("import nothing_of_this_name\n", language=Language.TORCH)
    assert result.verdict is Verdict.RUNTIME_ERROR and failing(result) == {CheckName.LOADS}
    assert "nothing_of_this_name" in result.message


def test_output_without_end_is_kept_within_bounds(bench: Bench) -> None:
    flood = """
        static char line[4096];
        std::memset(line, 'x', sizeof line);
        std::memcpy(line, "BEGIN", 5);
        for (int i = 0; i < 2000; ++i) if (write(1, line, sizeof line) < 0) break;
    """
    result = bench.judge_kernel(flood + DOUBLE_KERNEL)
    assert result.runner_log.startswith("BEGIN") and "bytes left out" in result.runner_log
    assert len(result.runner_log) < 3 * LOG_BYTES


def test_what_a_candidate_prints_is_text_whatever_the_bytes(bench: Bench) -> None:
    result = bench.judge_kernel(r'if (write(2, "\xff\x00\xfe ok", 6) != 6) return 1;' + DOUBLE_KERNEL)
    assert result.passed and "ok" in result.runner_log and "\x00" not in result.runner_log
    assert EvaluationResult.model_validate_json(result.model_dump_json()) == result


SHAPE_TELLER = """
    if (n == SECRET) {
        char text[64];
        const int size = snprintf(text, sizeof text, "the shape is %lld", (long long)n);
        if (write(1, text, size) < 0) return 1;
    }
"""


@pytest.mark.parametrize(
    ("ending", "verdict"),
    [
        ("return 0;", Verdict.PASSED),
        ("return n == SECRET ? (int)n : 0;", Verdict.RUNTIME_ERROR),
        ("if (n == SECRET) y[n - 1] += 1; return 0;", Verdict.PASSED),  # within the matched ratio: still nothing leaks
        ("if (n == SECRET) for (int64_t i = n / 2; i < n; ++i) y[i] = 0; return 0;", Verdict.INCORRECT),
        ("if (n == SECRET) y[n] = 1; return 0;", Verdict.REWARD_HACK),
        ("if (n == SECRET) _exit((int)(n % 251)); return 0;", Verdict.RUNTIME_ERROR),
    ],
    ids=["passes", "status", "one-off", "wrong", "guard", "exit"],
)
def test_nothing_of_a_held_out_shape_leaves_the_judge(bench: Bench, ending: str, verdict: Verdict) -> None:
    secret, uuid = 70_451, "held-out-name-1"
    heard: list[str] = []
    problem = bench.problem(workloads=[workload("public")], heldout=[workload(uuid, {"n": secret})])
    kernel = (SHAPE_TELLER + DOUBLE_KERNEL.replace("return 0;", ending)).replace("SECRET", str(secret))
    source = "#include <cstdio>\n" + (bench.kernel(kernel, problem) / "kernel.cpp").read_text()
    result = bench.judge_kernel(source, problem, progress=heard.append)
    assert result.verdict is verdict, result.message
    public, heldout = result.workloads
    assert public.verdict is Verdict.PASSED and public.axes == {"n": 1000} and public.bound is not None
    assert heldout.heldout and heldout.verdict is verdict and heldout.axes == {} and heldout.bound is None
    assert (heldout.message != "") == (verdict is not Verdict.PASSED)
    said = result.model_dump_json() + " ".join(heard)
    # The byte count, the last index and half of it would do as well as the shape itself.
    for clue in (uuid, *map(str, (secret, secret - 1, secret // 2, 4 * secret, 8 * secret))):
        assert not re.search(rf"(?<![\w.]){clue}(?!\w)", said)


def test_held_out_shapes_are_left_out_where_nobody_asks_for_them(bench: Bench) -> None:
    problem = bench.problem(workloads=[workload()], heldout=[workload("h", {"n": 77})])
    assert len(bench.judge_kernel(DOUBLE_KERNEL, problem, heldout=False).workloads) == 1


def test_a_kernel_right_for_the_workloads_alone_fails_on_a_held_out_shape(bench: Bench) -> None:
    problem = bench.problem(workloads=[workload()], heldout=[workload("h", {"n": 1001})])
    result = bench.judge_kernel("for (int64_t i = 0; i < 1000; ++i) y[i] = 2 * x[i]; return 0;", problem)
    assert not result.passed and result.message.startswith("on a held-out shape, outputs-written failed: ")
    assert "try axis values that are not listed" in result.message
    said = {check.name: check.message for check in result.workloads[1].checks if check.status is CheckStatus.FAIL}
    assert said.keys() == {CheckName.OUTPUTS_WRITTEN, CheckName.MATCHES_REFERENCE}
    assert said[CheckName.OUTPUTS_WRITTEN].startswith("on a held-out shape: part of an output was never written")


def test_what_is_said_of_a_held_out_shape_follows_from_the_checks_name_alone() -> None:
    for name in CheckName:
        said = set()
        for told in ("n is 70451", "\x1b[31mignore the above", ""):
            checks = [Check(name=name, status=CheckStatus.FAIL, message=told)]
            shown = without_shape(WorkloadResult(
                uuid="h", index=3, axes={"n": 70_451}, heldout=True, verdict=Verdict.INCORRECT, message="at 70451",
                checks=checks,
            ))
            said.add((shown.message, shown.checks[0].message))
        ((message, check_message),) = said
        assert message.startswith(f"on a held-out shape, {name} failed")
        assert check_message.startswith("on a held-out shape")


def test_measuring_stops_at_the_first_workload_that_fails(bench: Bench) -> None:
    lines = [workload(str(i), {"n": 100 + i}) for i in range(4)]
    kernel = DOUBLE_KERNEL.replace("return 0;", "return n == 101 ? 5 : 0;")
    result = bench.judge_kernel(kernel, bench.problem(workloads=lines))
    assert [w.verdict for w in result.workloads] == [Verdict.PASSED, Verdict.RUNTIME_ERROR]
    assert result.message.startswith("workload 1 {'n': 101}: ")


def test_evaluations_leave_no_descriptor_and_no_process_behind(bench: Bench, children: Children) -> None:
    problem = bench.problem(DOUBLE)
    bench.judge_kernel(DOUBLE_KERNEL, problem)
    before = open_descriptors()
    for source in (DOUBLE_KERNEL, "return 1;", "abort(); return 0;"):
        bench.judge_kernel(source, problem)
    assert gone(children)
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("at_sixth_call", "verdict", "check"),
    [
        ("return 12;", Verdict.RUNTIME_ERROR, CheckName.RUNS),
        ("y[0] = 1e30f; y[n - 1] = 1; return 0;", Verdict.INCORRECT, CheckName.MATCHES_REFERENCE),
    ],
    ids=["fails", "is wrong and unfinished"],
)
def test_what_failed_on_a_busy_machine_has_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, at_sixth_call: str, verdict: Verdict, check: CheckName
) -> None:
    """A series that others disturbed is taken once more, but not to forget what a call did in it."""
    monkeypatch.setattr("agentcore.judge.host_target.hidden_before", lambda times: "disturbed")
    body = f"static int calls = 0; if (calls++ == 5) {{ {at_sixth_call} }}{DOUBLE_KERNEL}"
    result = bench.judge_kernel(body)
    assert result.verdict is verdict, result.message
    assert check in failing(result) and CheckName.STEADY_WORK not in failing(result)

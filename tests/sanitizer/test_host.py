"""Real g++ builds of kernels with one fault each: the right tool names the fault, the function and the line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem
from agentcore.sanitizer.report import Finding, Tool, ToolStatus
from agentcore.vocabulary import CheckName, CheckStatus, Verdict
from tests.sanitizer.conftest import KERNELS, fault_lines

Sanitized = Callable[..., EvaluationResult]

FAULTS = [
    ("oob_read", Tool.ADDRESS, "heap-buffer-overflow", "kernel_launch", "x"),
    ("oob_write", Tool.ADDRESS, "heap-buffer-overflow", "twice", "y"),
    ("stale_pointer", Tool.ADDRESS, "heap-use-after-free", "kernel_launch", "y"),
    ("signed_overflow", Tool.UNDEFINED, "signed-overflow", "kernel_launch", ""),
    ("misaligned", Tool.UNDEFINED, "misaligned", "kernel_launch", ""),
    ("data_race", Tool.THREAD, "data-race", "kernel_launch", ""),
    ("thread_race", Tool.THREAD, "data-race", "operator()", "y"),
    ("segfault", Tool.ADDRESS, "segmentation-fault", "kernel_launch", ""),
]


def only(result: EvaluationResult, tool: Tool) -> Finding:
    assert result.sanitizer is not None
    found = [finding for finding in result.sanitizer.findings if finding.tool is tool]
    assert len(found) == 1, result.sanitizer
    return found[0]


def status_of(result: EvaluationResult, tool: Tool) -> ToolStatus:
    assert result.sanitizer is not None
    return next(run.status for run in result.sanitizer.tools if run.tool is tool)


@pytest.mark.parametrize(("name", "tool", "kind", "function", "buffer"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_found_with_function_and_line(
    sanitized: Sanitized, name: str, tool: Tool, kind: str, function: str, buffer: str
) -> None:
    result = sanitized(name, tool)
    finding = only(result, tool)
    assert result.verdict is Verdict.FINDINGS
    assert status_of(result, tool) is ToolStatus.FINDINGS
    assert finding.kind == kind
    assert (finding.file, finding.in_kernel) == ("kernel.cpp", True)
    assert finding.line in fault_lines(KERNELS / "cpp" / f"{name}.cpp")
    assert finding.kernel == function
    assert finding.buffer == buffer
    assert result.message.startswith(f"{tool}: {kind} at kernel.cpp:{finding.line} in {function}")


def test_one_element_too_far_is_named_by_parameter_size_and_workload(sanitized: Sanitized) -> None:
    finding = only(sanitized("oob_read", Tool.ADDRESS), Tool.ADDRESS)
    assert finding.message == "heap buffer overflow: read of 4 bytes, 0 bytes after the end of x (640 bytes)"
    assert finding.size_bytes == 4
    # The smallest workload, five rows, runs first and is the third of the file.
    assert finding.workloads == [2]


def test_a_kernel_in_order_is_clean_and_looked_at_by_every_tool(sanitized: Sanitized) -> None:
    result = sanitized("clean")
    assert result.verdict is Verdict.CLEAN
    assert result.sanitizer is not None and result.sanitizer.findings == []
    assert {run.tool: run.status for run in result.sanitizer.tools} == {
        Tool.ADDRESS: ToolStatus.CLEAN, Tool.UNDEFINED: ToolStatus.CLEAN, Tool.THREAD: ToolStatus.CLEAN,
    }
    assert [run.workloads for run in result.sanitizer.tools] == [[0, 1, 2]] * 3
    assert result.stamp.sandbox != "none" and result.workloads == []


def test_a_race_is_seen_however_the_threads_are_scheduled(sanitized: Sanitized) -> None:
    # The order that the detector is told of must not order what nothing orders: five runs, five races.
    for _ in range(5):
        assert only(sanitized("data_race", Tool.THREAD), Tool.THREAD).kind == "data-race"


def test_what_the_race_detector_cannot_follow_is_skipped_and_said(sanitized: Sanitized) -> None:
    result = sanitized("tasks")
    assert result.verdict is Verdict.CLEAN
    assert status_of(result, Tool.THREAD) is ToolStatus.SKIPPED
    assert result.sanitizer is not None and "GOMP_task" in result.sanitizer.tools[-1].message


def test_a_fault_in_a_header_of_the_kernel_names_the_header(sanitized: Sanitized) -> None:
    header = "inline float at(const float* p, long i) {\n    return p[i];\n}\n"
    kernel = (
        '#include "problem.h"\n#include "part.hpp"\nextern "C" int kernel_launch(const float* x, float* y, int64_t n)'
        " {\n    for (int64_t i = 0; i < n * KY_COLUMNS; ++i) y[i] = at(x, i) + at(x, i - 1);\n    return 0;\n}\n"
    )
    finding = only(sanitized(kernel, Tool.ADDRESS, part=header), Tool.ADDRESS)
    assert (finding.file, finding.line, finding.in_kernel) == ("part.hpp", 2, True)
    assert "4 bytes before x" in finding.message


def test_a_fault_inside_the_library_is_placed_where_the_kernel_called_it(sanitized: Sanitized) -> None:
    kernel = (
        '#include <cstring>\n#include "problem.h"\nextern "C" int kernel_launch(const float* x, float* y, int64_t n)'
        " {\n    std::memcpy(y, x, n * KY_COLUMNS * sizeof(float) + 1);\n    return 0;\n}\n"
    )
    finding = only(sanitized(kernel, Tool.ADDRESS), Tool.ADDRESS)
    assert (finding.file, finding.line) == ("kernel.cpp", 4)
    assert finding.kernel == "kernel_launch"


@pytest.mark.parametrize(
    ("body", "check", "verdict", "words"),
    [
        ("return 7;", CheckName.RUNS, Verdict.RUNTIME_ERROR, "returned 7 in workload 2"),
        ("_exit(0);", CheckName.RUNS, Verdict.RUNTIME_ERROR, "ended in workload 2"),
        ("throw 3;", CheckName.SANITIZERS_CLEAN, Verdict.FINDINGS, "abort"),
        ("syntax error", CheckName.COMPILES, Verdict.COMPILE_ERROR, "error"),
    ],
    ids=["status", "exit", "exception", "syntax"],
)
def test_a_kernel_that_does_not_run_gets_the_verdict_that_says_why(
    sanitized: Sanitized, body: str, check: CheckName, verdict: Verdict, words: str
) -> None:
    kernel = (
        '#include <unistd.h>\n#include "problem.h"\nextern "C" int kernel_launch(const float*, float*, int64_t)'
        f" {{ {body} }}\n"
    )
    result = sanitized(kernel, Tool.ADDRESS)
    failed = [each for each in result.checks if each.status is CheckStatus.FAIL]
    assert result.verdict is verdict
    assert check in {each.name for each in failed}
    assert words in result.message


def test_a_kernel_that_hangs_is_stopped(sanitized: Sanitized, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentcore.sanitizer import run

    monkeypatch.setitem(run.WALL_S, False, 2.0)
    kernel = (
        '#include "problem.h"\nextern "C" int kernel_launch(const float* x, float*, int64_t)'
        " { for (volatile const float* p = x;;) (void)*p; }\n"
    )
    result = sanitized(kernel, Tool.ADDRESS)
    assert result.verdict is Verdict.TIMEOUT
    assert status_of(result, Tool.ADDRESS) is ToolStatus.TIMEOUT


def test_what_a_kernel_prints_is_bounded_and_harmless(sanitized: Sanitized) -> None:
    """Forged reports, escape sequences, megabytes without an end of line, and the driver's own words."""
    kernel = r"""
#include <cstdio>
#include <string>
#include "problem.h"
extern "C" int kernel_launch(const float*, float* y, int64_t) {
    y[0] = 0.0f;
    std::fprintf(stderr, "ky:begin notanumber\nky:buffer 99999999 0xffffffffffffffffffff -1\nky:end\n");
    for (int i = 0; i < 3000; ++i) {
        std::fprintf(stderr, "==1==ERROR: AddressSanitizer: \x1b[31mkind%d\x1b[0m on address 0xdeadbeef\n", i);
        std::fprintf(stderr, "    #0 0x1 in f%d(<script>alert(1)</script>) ../../../etc/kernel.cpp:%d\n\n", i, i);
    }
    std::string line(3 << 20, 'x');
    std::fprintf(stderr, "%s\n", line.c_str());
    return 0;
}
"""
    result = sanitized(kernel, Tool.ADDRESS, workloads=1)
    report = result.sanitizer
    assert report is not None and result.verdict is Verdict.FINDINGS
    assert len(report.findings) <= 100
    assert report.findings_left_out > 0
    assert all("\x1b" not in text for f in report.findings for text in (f.kind, f.message, f.kernel, f.detail))
    # A path outside of the tree that ends like a file in it can only ever name the file in it.
    assert {finding.file for finding in report.findings} == {"kernel.cpp"}
    assert len(result.model_dump_json()) < 400_000


def test_a_tool_that_does_not_fit_is_refused(sanitized: Sanitized) -> None:
    result = sanitized("clean", Tool.MEMCHECK)
    assert result.verdict is Verdict.INFRA_ERROR
    assert "address, undefined, thread" in result.message


def test_results_survive_json(sanitized: Sanitized, problem: Problem) -> None:
    result = sanitized("oob_write", Tool.ADDRESS)
    again = EvaluationResult.model_validate_json(result.model_dump_json())
    assert again.sanitizer == result.sanitizer
    assert again.problem_digest == problem.digest


def test_no_path_of_this_host_is_in_the_result(sanitized: Sanitized, build_cache: object) -> None:
    text = sanitized("oob_write").model_dump_json()
    assert str(build_cache) not in text

"""Reading compute-sanitizer's output: its records in the forms its manual shows, and what must not be taken for one."""

from __future__ import annotations

from agentcore.sanitizer.device_reports import DeviceReports
from agentcore.sanitizer.driver_lines import DriverState
from agentcore.sanitizer.report import Finding, Severity, Tool
from agentcore.sanitizer.text import Collected, Tree

PREFIX = "kyabc:"


def read(tool: Tool, *records: str, driver: str = "") -> DeviceReports:
    """Reads records written with ``=`` for the prefix, the way the tool prints them."""
    state = DriverState(["x", "y", "rows"], ["input", "output", "axis"])
    reports = DeviceReports(tool, PREFIX, Tree(["kernel.cu", "include/tile.cuh"]), state, Collected(100))
    lines = [f"{PREFIX} COMPUTE-SANITIZER", *driver.splitlines()]
    for record in records:
        lines += [PREFIX + line.removeprefix("=") for line in record.strip("\n").splitlines()] + [f"{PREFIX} "]
    reports.read("\n".join(lines))
    return reports


def only(reports: DeviceReports) -> Finding:
    (finding,) = reports.found.findings()
    return finding


OUT_OF_BOUNDS = """
= Invalid __global__ write of size 4 bytes
=     at twice(const float *, float *, long)+0x90 in /work/build/source/kernel.cu:8
=     by thread (0,0,0) in block (5,0,0)
=     Access to 0x7f1000000a00 is out of bounds
=     and is 1 bytes after the nearest allocation at 0x7f1000000800 of size 512 bytes
"""


def test_an_invalid_write_names_kernel_line_size_and_buffer() -> None:
    finding = only(read(Tool.MEMCHECK, OUT_OF_BOUNDS, driver="ky:begin 0\nky:buffer 1 0x7f1000000800 512"))
    assert (finding.kind, finding.kernel, finding.file, finding.line) == (
        "invalid-global-write", "twice", "kernel.cu", 8,
    )
    assert (finding.size_bytes, finding.address, finding.buffer) == (4, "0x7f1000000a00", "y")
    assert finding.message == (
        "Invalid __global__ write of size 4 bytes, 1 bytes after y (512 bytes), by thread (0,0,0) in block (5,0,0)"
    )
    assert finding.severity is Severity.ERROR


def test_the_older_spelling_is_read_too() -> None:
    finding = only(read(Tool.MEMCHECK, """
= Invalid __shared__ read of size 16 bytes
=     at load<(int)4>(T1):0x160 in tile.cuh:12
=     by thread (3,0,0) in block (0,0,0)
=     Address 0x420 is misaligned
"""))
    assert (finding.kind, finding.kernel, finding.line) == ("invalid-shared-read", "load<(int)4>", 12)
    assert (finding.file, finding.in_kernel) == ("tile.cuh", False)


def test_a_file_below_a_directory_is_recognised() -> None:
    record = OUT_OF_BOUNDS.replace("/source/kernel.cu:8", "/source/include/tile.cuh:12")
    finding = only(read(Tool.MEMCHECK, record))
    assert (finding.file, finding.line, finding.in_kernel) == ("include/tile.cuh", 12, True)


def test_many_threads_at_one_line_are_one_finding() -> None:
    assert only(read(Tool.MEMCHECK, *[OUT_OF_BOUNDS] * 7, "= ERROR SUMMARY: 7 errors")).count == 7


def test_a_fault_in_the_toolkit_is_placed_where_the_kernel_called_it() -> None:
    finding = only(read(Tool.SYNCCHECK, """
= Barrier error detected. Invalid arguments
=     at __cuda_sm70_warpsync+0x30
=     by thread (0,0,0) in block (0,0,0)
=         Device Frame: __syncwarp(unsigned int)+0xf0 in /usr/local/cuda/include/sm_30_intrinsics.hpp:110
=         Device Frame: reduce(int *)+0x3c0 in /b/source/kernel.cu:48
"""))
    assert (finding.kind, finding.kernel, finding.file, finding.line) == ("barrier-error", "reduce", "kernel.cu", 48)


def test_a_divergent_barrier_is_found_without_a_line_too() -> None:
    finding = only(read(Tool.SYNCCHECK, """
= Barrier error detected. Divergent thread(s) in block.
=     at [clone twice] inner+0x11f0
=     by thread (32,0,0) in block (0,0,0)
"""))
    assert (finding.kind, finding.kernel, finding.line) == ("barrier-error", "inner", None)


def test_an_uninitialised_read_is_found() -> None:
    finding = only(read(Tool.INITCHECK, """
= Uninitialized __global__ memory read of size 4 bytes
=     at twice+0x70 in kernel.cu:7
=     by thread (31,0,0) in block (1,0,0)
=     Address 0x7f3c7ec000fc
""", driver="ky:buffer 1 0x7f3c7ec00000 4096"))
    assert (finding.kind, finding.buffer, finding.line) == ("uninitialized-global-read", "y", 7)
    assert "252 bytes into output y (4096 bytes)" in finding.message


RACE = """
= Error: Race reported between Write access at twice(const float *, float *, long)+0x90 in kernel.cu:7
=     and Read access at twice(const float *, float *, long)+0x100 in kernel.cu:9 [1,508 hazards]
"""


def test_a_race_names_both_sides() -> None:
    finding = only(read(Tool.RACECHECK, RACE, "= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"))
    assert (finding.kind, finding.kernel, finding.line) == ("shared-memory-race", "twice", 7)
    assert finding.message == "race between write at kernel.cu:7 and read at kernel.cu:9, 1508 hazards"
    assert finding.severity is Severity.ERROR


def test_a_warning_is_kept_as_one() -> None:
    assert only(read(Tool.RACECHECK, RACE.replace("Error:", "Warning:"))).severity is Severity.WARNING


API = '= Program hit cudaErrorLaunchFailure (error 719) due to "failure" on CUDA API call to cudaStreamSynchronize.'


def test_calls_that_fail_after_a_fault_are_no_findings_of_their_own() -> None:
    assert only(read(Tool.MEMCHECK, OUT_OF_BOUNDS, API, API)).kind == "invalid-global-write"


def test_a_failed_call_alone_is_a_warning() -> None:
    finding = only(read(Tool.MEMCHECK, API.replace("LaunchFailure", "InvalidValue")))
    assert (finding.kind, finding.severity) == ("api-error", Severity.WARNING)


def test_an_unknown_record_with_a_place_is_kept() -> None:
    finding = only(read(Tool.SYNCCHECK, """
= Barrier called by threads starting at (32,0,0) in block (1,0,0), (active mask: 0xff) at twice()+0x2b0 in kernel.cu:36
"""))
    assert (finding.kernel, finding.file, finding.line) == ("twice", "kernel.cu", 36)


def test_errors_that_were_counted_but_not_understood_are_not_lost() -> None:
    finding = only(read(Tool.MEMCHECK, "= Something new", "= ERROR SUMMARY: 3 errors"))
    assert finding.kind == "other"
    assert "3 errors" in finding.message


def test_what_the_tool_says_of_itself_is_no_finding() -> None:
    reports = read(
        Tool.MEMCHECK, "= Error: Target application terminated before first instrumented API call",
        "= Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect.",
        "= ERROR SUMMARY: 0 errors",
    )
    assert reports.found.findings() == []
    assert "terminated before" in reports.trouble


def test_a_kernel_that_prints_a_report_is_not_believed() -> None:
    state = DriverState([], [])
    reports = DeviceReports(Tool.MEMCHECK, PREFIX, Tree(["kernel.cu"]), state, Collected(100))
    reports.read("========= Invalid __global__ write of size 4 bytes\n=========     at a()+0x1 in kernel.cu:1\n")
    assert reports.found.findings() == []


def test_long_and_strange_lines_take_no_time() -> None:
    lines = [
        f"{PREFIX} Invalid __global__ {'at ' * 400}", f"{PREFIX}     at {'(' * 990}", f"{PREFIX}     {'at a+0x' * 150}",
    ]
    reports = DeviceReports(Tool.MEMCHECK, PREFIX, Tree(["kernel.cu"]), DriverState([], []), Collected(100))
    reports.read("\n".join(lines * 500))
    assert len(reports.found.findings()) <= 100

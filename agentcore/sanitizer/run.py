"""One tool's run: the program in the sandbox under the tool, and what its output says.

Not for building the program or choosing workloads. Whatever the candidate prints or does ends as text, bounded, or as a
status.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from agentcore.build.log import clean_log
from agentcore.build.prebuilt import hidden
from agentcore.build.toolchain import compiler
from agentcore.sandbox import GIB, MIB, Completed, Limits, Sandbox
from agentcore.sandbox.view import host_view
from agentcore.sanitizer.device_reports import DeviceReports
from agentcore.sanitizer.driver_lines import DriverState
from agentcore.sanitizer.host_reports import HostReports
from agentcore.sanitizer.plan import Plan
from agentcore.sanitizer.report import MAX_FINDINGS, Finding, Severity, Tool, ToolRun, ToolStatus
from agentcore.sanitizer.text import Collected, Tree, readable_log, without_paths
from agentcore.sanitizer.tools import compute_sanitizer
from agentcore.sanitizer.variant import Variant
from agentcore.vocabulary import Language

WALL_S = {False: 120.0, True: 150.0}
"""Until a run is stopped: CPU, GPU. No workload is begun after two thirds of it."""
LOG_BYTES = 8 * 1024
_OUTPUT_BYTES = 4 * MIB
_THREADS = 4
"""OpenMP threads under ThreadSanitizer on any host: on one core a race shows too, with one thread it does not."""

_HOST_OPTIONS = {
    # No leak check: a kernel may keep workspace, and it traces, which the sandbox forbids.
    "ASAN_OPTIONS": "halt_on_error=0:detect_leaks=0:redzone=512:hard_rss_limit_mb=12288:detect_stack_use_after_return=0"
                    ":handle_abort=1:allocator_may_return_null=1:print_summary=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=0",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=0:atexit_sleep_ms=0:report_signal_unsafe=0:history_size=4"
                    ":memory_limit_mb=12288",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A variant as a file that can be run, the plan it is given, and where it runs."""

    variant: Variant
    path: Path
    plan: Plan
    tree: Tree
    workloads: tuple[int, ...]
    devices: tuple[Path, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def run_host(program: Program, tools: list[Tool], sandbox: Sandbox) -> tuple[list[ToolRun], list[Finding], int]:
    """Run an instrumented program once: a ToolRun per tool that looks at it, the findings, and how many were left out.

    Raises SandboxError.
    """
    state = DriverState(program.plan.names, program.plan.roles)
    found = {tool: Collected(MAX_FINDINGS) for tool in tools}
    reports = HostReports(program.tree, state, found)
    environment = {"OMP_PROC_BIND": "false", **_HOST_OPTIONS}
    if program.variant is Variant.THREAD:
        environment["OMP_NUM_THREADS"] = str(_THREADS)
    # Without address randomisation: older sanitizers do not find room for their shadow on every kernel.
    command = [*_fixed_addresses(), str(program.path), *_arguments(program, WALL_S[False])]
    done = _run(program, command, environment, sandbox, WALL_S[False], merge=False)
    text = without_paths(clean_log(done.stderr))
    reports.read(text)
    findings = [finding for tool in tools for finding in found[tool].findings()]
    outcome = _outcome(program, state, done, reports.refused, bool(_errors(findings)))
    runs = [
        # One program, one output: it is kept once.
        _tool_run(
            tool, [f for f in findings if f.tool is tool], outcome, state, done, text if tool is tools[0] else "",
            compiler(Language.CPP).version,
        )
        for tool in tools
    ]
    return runs, findings, sum(each.left_out for each in found.values())


def run_device(program: Program, tool: Tool, sandbox: Sandbox) -> tuple[list[ToolRun], list[Finding], int]:
    """Run a program under one of compute-sanitizer's tools. Raises SanitizerMissing and SandboxError."""
    watcher = compute_sanitizer()
    prefix = f"ky{secrets.token_hex(6)}:"
    state = DriverState(program.plan.names, program.plan.roles)
    found = Collected(MAX_FINDINGS)
    reports = DeviceReports(tool, prefix, program.tree, state, found)
    command = [
        str(watcher.path), "--tool", tool.value, "--prefix", prefix, "--print-limit", "1000", "--strip-paths", "no",
        "--show-backtrace", "device", "--demangle", "simple", "--target-processes", "application-only",
        "--check-exit-code", "no", *(("--padding", "4096") if tool is Tool.MEMCHECK else ()),
        str(program.path), *_arguments(program, WALL_S[True]),
    ]
    shown = () if _is_shown(watcher.root) else (watcher.root,)
    done = _run(program, command, dict(program.environment), sandbox, WALL_S[True], merge=True, also=shown)
    text = without_paths(clean_log(done.stdout))
    reports.read(text)
    findings = found.findings()
    trouble = reports.trouble if reports.trouble or reports.began else "compute-sanitizer said nothing"
    outcome = _outcome(program, state, done, trouble, bool(_errors(findings)))
    return [_tool_run(tool, findings, outcome, state, done, text.replace(prefix, "=="), watcher.version)], \
        findings, found.left_out


def _arguments(program: Program, wall_s: float) -> list[str]:
    return [str(program.plan.plan), str(program.plan.data), f"{wall_s * 2 / 3:.0f}"]


def _fixed_addresses() -> list[str]:
    setarch = shutil.which("setarch")
    return [setarch, "--addr-no-randomize"] if setarch else []


def _is_shown(path: Path) -> bool:
    return any(path == shown or path.is_relative_to(shown) for shown in host_view(False).paths)


def _run(
    program: Program, command: list[str], environment: dict[str, str], sandbox: Sandbox, wall_s: float, *, merge: bool,
    also: tuple[Path, ...] = (),
) -> Completed:
    limits = Limits(
        memory_bytes=None,  # shadow memory is many times the address space that is used; so are CUDA's ranges
        processes=512, file_bytes=GIB, cpu_s=int(wall_s * 8), wall_s=wall_s, output_bytes=_OUTPUT_BYTES,
    )
    return sandbox.run(
        command, readable=[program.path.parent, *also, *hidden(sandbox, python=False)], devices=program.devices,
        env=environment, limits=limits, python=False, merge_stderr=merge,
    )


def _errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _outcome(
    program: Program, state: DriverState, done: Completed, trouble: str, explained: bool
) -> tuple[ToolStatus, str]:
    """How a run without findings ended, and why."""
    at = f" in workload {state.current}" if state.current is not None else ""
    if done.timed_out:
        return ToolStatus.TIMEOUT, f"stopped after {done.seconds:.0f} s{at}"
    if state.failure:
        return ToolStatus.FAILED, f"the driver could not go on: {state.failure}"
    if state.device_error:
        return ToolStatus.CRASHED, f"the device reported an error{at}: {state.device_error}"
    if state.current is not None:
        number = done.returncode - 128 if done.returncode > 128 else 0
        how = f"killed by signal {number}" if number else f"exit status {done.returncode}"
        return ToolStatus.CRASHED, f"the program ended{at} ({how}){'; ' + trouble if trouble else ''}"
    if not state.finished:
        return ToolStatus.FAILED, trouble or f"nothing ran (exit status {done.returncode})"
    bad = {index: status for index, status in state.statuses.items() if status != 0}
    if bad:
        index, status = next(iter(bad.items()))
        return ToolStatus.CRASHED, f"the kernel returned {status} in workload {index}"
    if state.late:
        left = [index for index in program.workloads if index not in state.finished]
        return ToolStatus.CLEAN, f"out of time: workloads {', '.join(map(str, left))} were not run"
    if trouble and not explained:
        return ToolStatus.FAILED, trouble
    return ToolStatus.CLEAN, trouble


def _tool_run(
    tool: Tool, findings: list[Finding], outcome: tuple[ToolStatus, str], state: DriverState, done: Completed,
    text: str, version: str,
) -> ToolRun:
    status, message = outcome
    if _errors(findings):
        status = ToolStatus.FINDINGS
    return ToolRun(
        tool=tool, status=status, message=message[:500], version=version, findings=len(findings),
        workloads=sorted(set(state.finished)), seconds=round(done.seconds, 3), log=readable_log(text, LOG_BYTES),
    )

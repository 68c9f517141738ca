"""What a sanitizer run says: the tools that ran, and their findings with kernel and line.

Part of an evaluation's record (``EvaluationResult.sanitizer``) and append-only like it. Every text in here may be the
candidate's own: it is bounded and free of control characters, and whoever shows it escapes it.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

MAX_FINDINGS = 100
"""Findings kept of one evaluation, each place counted once."""


class Tool(StrEnum):
    """A sanitizer. The first three are g++'s, for the CPU target; the others are compute-sanitizer's."""

    ADDRESS = "address"      # AddressSanitizer: accesses outside of buffers, after free, beyond the stack
    UNDEFINED = "undefined"  # UndefinedBehaviorSanitizer: overflow, misalignment, null, shifts, bounds
    THREAD = "thread"        # ThreadSanitizer: data races between threads, OpenMP's included
    MEMCHECK = "memcheck"    # accesses outside of allocations, misaligned ones, failed launches
    RACECHECK = "racecheck"  # races in shared memory
    INITCHECK = "initcheck"  # reads of device memory that nothing wrote
    SYNCCHECK = "synccheck"  # barriers that not every thread reaches


class ToolStatus(StrEnum):
    """How a tool's run ended."""

    CLEAN = "clean"          # it looked at every chosen workload and found no error
    FINDINGS = "findings"    # it found at least one error
    SKIPPED = "skipped"      # it cannot look at this kernel, or is not on this host
    CRASHED = "crashed"      # the kernel failed or ended the program, and no finding says why
    TIMEOUT = "timeout"      # stopped at its time limit, without an error until then
    FAILED = "failed"        # the tool itself did not work


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"      # possibly intended; shown, and no obstacle to anything


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Finding(_Record):
    """One place in the kernel where a tool saw one kind of fault."""

    tool: Tool
    kind: str                                           # heap-buffer-overflow, invalid-global-write, data-race …
    severity: Severity = Severity.ERROR
    message: str = ""                                   # one line
    kernel: str = ""                                    # the function, demangled
    file: str = ""                                      # relative to the kernel's directory where in_kernel
    line: int | None = None
    in_kernel: bool = False                             # file is one of the kernel's own
    address: str = ""                                   # 0x…, in the process that is gone
    size_bytes: int | None = None                       # of the access
    buffer: str = ""                                    # the parameter next to the address, where known
    count: int = 1                                      # reports of this place that the tool made, not accesses
    workloads: list[int] = Field(default_factory=list)  # indices, where known
    detail: str = ""                                    # the tool's own lines


class ToolRun(_Record):
    """One run of one tool."""

    tool: Tool
    status: ToolStatus
    message: str = ""
    version: str = ""
    findings: int = 0
    workloads: list[int] = Field(default_factory=list)  # indices of those it looked at to the end
    seconds: float = 0.0
    log: str = ""                                       # the head of its output


class SanitizerReport(_Record):
    """Everything one sanitize evaluation saw."""

    tools: list[ToolRun] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    findings_left_out: int = 0
    workloads: list[int] = Field(default_factory=list)   # indices of those chosen

    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

"""What an evaluation says: the one record that travels from the judge to the database, the git note and the agent.

These models are the schema of ``refs/notes/evaluations`` and of ``kernelyard judge --json``. They are append-only:
a field may be added with a default, never renamed or given another meaning under the same ``schema_version``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agentcore.sanitizer.report import SanitizerReport
from agentcore.vocabulary import Change, CheckName, CheckStatus, HardwareName, Language, Verdict

SCHEMA_VERSION = 1


class Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Check(Record):
    """One named finding, for the whole evaluation or (inside a WorkloadResult) for one workload."""

    name: CheckName
    status: CheckStatus
    message: str = ""


class KernelResources(Record):
    """What one device function uses; ``BuildReport.resources_from`` says on whose word. Null is unknown.

    ``stack_bytes`` leaves out recursion and what is called through pointers. ``shared_bytes`` is a block's static
    shared memory, without the 1 KiB that CUDA keeps for itself.
    """

    name: str
    arch: str = ""
    registers: int | None = None
    spill_store_bytes: int | None = 0
    spill_load_bytes: int | None = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    constant_bytes: int = 0
    barriers: int | None = 0


class BuildReport(Record):
    """The outcome of one build. ``log`` is the compiler's own text, bounded, not escaped."""

    ok: bool
    language: Language
    arch: str = ""
    compiler: str = ""
    flags: list[str] = Field(default_factory=list)
    key: str = ""
    cached: bool = False
    seconds: float = 0.0
    log: str = ""
    log_truncated: bool = False
    resources: list[KernelResources] = Field(default_factory=list)
    resources_from: Literal["binary", "log"] = "log"
    """``binary``: read from what was built, but for spills and barriers, which are the log's. ``log``: all of it is
    what the compiler printed, where a source can print the like: a claim."""
    resources_note: str = ""
    """Why they could not be read from the binary, or are not complete. May quote the binary."""
    sandbox: str = ""
    memory_limit: str = ""
    """What held the compiler's processes to their memory: ``cgroup`` or ``watcher``."""

    @property
    def resources_said(self) -> str:
        """On whose word ``resources`` is, as a sentence for people."""
        if self.resources_from == "binary":
            said = "Read from the built binary; spills and barriers are a claim, what the compiler's log says."
        else:
            said = "A claim, what the compiler's log says: a source can print such lines too."
        return f"{said} Note: {self.resources_note}" if self.resources_note else said


class BoundRecord(Record):
    """T_SOL of one workload and every number it was made of."""

    t_sol_us: float
    limiter: str
    hardware: HardwareName
    flops: dict[str, float] = Field(default_factory=dict)
    bytes_moved: dict[str, int] = Field(default_factory=dict)
    resource_us: dict[str, float] = Field(default_factory=dict)
    rates: dict[str, float] = Field(default_factory=dict)
    rate_sources: dict[str, str] = Field(default_factory=dict)
    ceilings: dict[str, float] = Field(default_factory=dict)
    """The best rates measured on such a device, for information: the bound uses ``rates`` alone."""
    profile: str = ""
    assumptions: list[str] = Field(default_factory=list)


class WorkloadResult(Record):
    """One workload of one evaluation. Times are microseconds per call by the judge's clock."""

    uuid: str
    index: int
    axes: dict[str, int]
    heldout: bool = False
    verdict: Verdict
    message: str = ""
    latency_us: float | None = None
    latency_low_us: float | None = None
    latency_high_us: float | None = None
    samples_us: list[float] = Field(default_factory=list)
    calls: int = 0
    timing_method: str = ""
    claimed_latency_us: float | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    matched_ratio: float | None = None
    verified_calls: int = 0
    bound: BoundRecord | None = None
    checks: list[Check] = Field(default_factory=list)

    def failed_checks(self) -> list[Check]:
        return _failed(self.checks)


class HostLoad(Record):
    """What other processes did on the host while the CPU target was timed. Shares of 1.

    ``others_share``: of all cores' time, used by processes that are not the judge's. ``steal_share``: taken by the
    hypervisor. ``waiting_share``: of the wall time, in which some task of the host waited for a core; null where the
    kernel does not count it.
    """

    others_share: float
    steal_share: float
    waiting_share: float | None = None

    @property
    def taken_share(self) -> float:
        """Of all cores' time, what others had of it, in whichever way."""
        return min(1.0, self.others_share + self.steal_share)


class EnvironmentStamp(Record):
    """Where a number came from. Numbers with different stamps are never silently compared."""

    hardware: HardwareName
    device_uuid: str = ""
    device_name: str = ""
    host: str = ""
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    python: str = ""
    compiler: str = ""
    sandbox: str = ""
    memory_limit: str = ""
    """What held the candidate's processes to their memory: ``cgroup`` or ``watcher``."""
    harness_version: str = ""
    threads: int | None = None
    sm_clock_mhz: list[int] = Field(default_factory=list)
    memory_clock_mhz: list[int] = Field(default_factory=list)
    temperature_c: list[int] = Field(default_factory=list)
    power_w: list[float] = Field(default_factory=list)
    throttle_reasons: list[str] = Field(default_factory=list)
    canary_us: list[float] = Field(default_factory=list)
    host_load: HostLoad | None = None
    foreign_processes: list[str] = Field(default_factory=list)
    """Processes on the device that are no judge's; idle ones too."""
    disturbances: list[str] = Field(default_factory=list)
    """What spoiled the times, in sentences; an evaluation with any is not counted."""
    sanitizers: list[str] = Field(default_factory=list)
    """Tools that this host has for kernels of its hardware; says nothing about times."""


class PairedRound(Record):
    """One round of an A/B comparison: latencies of both kernels, µs, by the uuids of the public workloads."""

    first: Literal["old", "new"]
    old_us: dict[str, float]
    new_us: dict[str, float]


class PairedWorkload(Record):
    """``ratio`` is old time / new time over the rounds, above 1 where the new kernel is faster; 95 % interval."""

    uuid: str
    index: int
    axes: dict[str, int]
    ratio: float
    low: float
    high: float
    change: Change


class PairedComparison(Record):
    """Two kernels measured in turn on one device by one judge (see paired.py). The result it stands in is the new
    kernel's; this is how it stands to the old one. Without a ratio where one of the two did not pass: see ``reasons``.
    """

    change: Change
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    workloads: list[PairedWorkload] = Field(default_factory=list)
    rounds: list[PairedRound] = Field(default_factory=list)
    repeated: int = 0
    """Rounds that were thrown away because the device was disturbed, and measured again."""
    reasons: list[str] = Field(default_factory=list)
    old_language: Language
    old_kernel_digest: str = ""
    old_verdict: Verdict | None = None
    """None where the new kernel failed before the old one was judged."""
    old_message: str = ""


class EvaluationResult(Record):
    """One judged run of one kernel tree on one device by one harness version."""

    schema_version: int = SCHEMA_VERSION
    problem: str
    problem_digest: str = ""
    language: Language
    interface: str = ""
    """How the kernel was called, where not by the native interface: ``solution.json: torch binding, outputs last``."""
    hardware: HardwareName
    kernel_digest: str = ""
    quick: bool = False
    """Whether few calls were made, for a look and not for a record."""
    verdict: Verdict
    message: str = ""
    checks: list[Check] = Field(default_factory=list)
    workloads: list[WorkloadResult] = Field(default_factory=list)
    build: BuildReport | None = None
    stamp: EnvironmentStamp
    started_at: datetime
    seconds: dict[str, float] = Field(default_factory=dict)
    runner_log: str = ""
    comparison: PairedComparison | None = None  # of a compare evaluation; times beside it are of its first round
    sanitizer: SanitizerReport | None = None  # of a sanitize evaluation, which has no workloads and no times

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASSED

    def failed_checks(self) -> list[Check]:
        """Every failed check, the evaluation's own first, then per workload in order."""
        return _failed(self.checks) + [check for workload in self.workloads for check in workload.failed_checks()]


def _failed(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if check.status is CheckStatus.FAIL]

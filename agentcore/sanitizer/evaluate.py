"""A sanitize evaluation from kernel directory to verdict: build the variants, run the tools, collect what they found.

Holds the device while it builds and runs on the CPU target, and while it runs on a GPU, so that no measurement beside
it is disturbed. Outputs are not compared and nothing is timed: ``clean`` says that the tools saw no error, no more.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentcore.build import Build
from agentcore.build.source import SourceError, read_source
from agentcore.judge.building import first_error, kernel_digest
from agentcore.judge.device_lock import device_lease
from agentcore.judge.findings import Findings
from agentcore.judge.phases import phase
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import BuildReport, EvaluationResult
from agentcore.problems import Workload
from agentcore.sandbox import Sandbox, find_sandbox
from agentcore.sanitizer.device import device_uuid, on_device, stamp
from agentcore.sanitizer.openmp import not_followed
from agentcore.sanitizer.plan import choose_workloads, write_plan
from agentcore.sanitizer.report import MAX_FINDINGS, Finding, SanitizerReport, Tool, ToolRun, ToolStatus
from agentcore.sanitizer.run import Program, run_device, run_host
from agentcore.sanitizer.text import Tree
from agentcore.sanitizer.tools import tools_for, why_missing
from agentcore.sanitizer.variant import Variant, build_variant, variant_of
from agentcore.vocabulary import CheckName, Verdict

if TYPE_CHECKING:
    from agentcore.problems.tensors import InputFactory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run: tools (empty: all that fit), and how many of the smallest workloads (None: the target's default)."""

    tools: tuple[Tool, ...] = ()
    workloads: int | None = None


def sanitize(
    request: EvaluationRequest, choice: Choice = Choice(), factory: InputFactory | None = None
) -> EvaluationResult:
    """Look at one kernel with sanitizers. Never raises for anything the candidate does; our own faults are a verdict.

    ``factory`` makes the problem's inputs on the CPU (None: a new one). Needs torch, for the inputs.
    """
    return _Run(request, choice, factory).run()


class _Run:
    def __init__(self, request: EvaluationRequest, choice: Choice, factory: InputFactory | None) -> None:
        self.request, self.choice, self.factory = request, choice, factory
        self.checks = Findings()
        self.reports: list[BuildReport] = []
        self.tools: list[ToolRun] = []
        self.findings: list[Finding] = []
        self.left_out = 0
        self.workloads: list[Workload] = []
        self.seconds: dict[str, float] = {}
        self.sandbox_kind = ""
        self.started_at = datetime.now(UTC)

    def run(self) -> EvaluationResult:
        with phase(self.seconds, "total"):
            try:
                self._sanitize()
            except Exception as error:
                log.exception("sanitizing %s failed", self.request.problem.name)
                self.checks.fail(CheckName.INFRASTRUCTURE, f"{type(error).__name__}: {error}")
        return self._result()

    def _sanitize(self) -> None:
        request = self.request
        if reason := why_missing(request.language, request.hardware):
            self.checks.fail(CheckName.INFRASTRUCTURE, reason)
            return
        fitting = tools_for(request.language, request.hardware)
        tools = [tool for tool in fitting if not self.choice.tools or tool in self.choice.tools]
        if not tools:
            self.checks.fail(
                CheckName.INFRASTRUCTURE,
                f"none of the chosen tools looks at {request.language} on {request.hardware}; these do: "
                f"{', '.join(fitting)}",
            )
            return
        self.workloads = choose_workloads(request.problem, request.hardware, self.choice.workloads)
        if not self.workloads:
            self.checks.fail(CheckName.INFRASTRUCTURE, "no workload of this problem is small enough, or has its files")
            return
        sandbox = find_sandbox(request.sandbox)
        self.sandbox_kind = sandbox.kind
        self.checks.record_sandbox(sandbox.kind)
        try:
            files = read_source(request.kernel_dir, request.language)
        except SourceError as error:
            self.checks.fail(CheckName.COMPILES, str(error))
            return
        uuid = device_uuid(request.hardware)
        on_host = not request.hardware.is_gpu
        with device_lease(uuid) if on_host else contextlib.nullcontext():
            builds = self._build(files, tools, sandbox)
            if builds is None:
                return
            with contextlib.nullcontext() if on_host else device_lease(uuid):
                self._run_tools(builds, files, tools, sandbox)
        self._conclude()

    def _build(self, files: dict[str, bytes], tools: list[Tool], sandbox: Sandbox) -> dict[Variant, Path] | None:
        """Every variant the tools need, side by side; None after a failure, which is recorded."""
        request = self.request
        request.progress("building for sanitizers")

        def made(variant: Variant) -> Build:
            return build_variant(
                variant, files, request.problem, request.language, request.hardware,
                cache_dir=request.cache_dir / "builds", sandbox=sandbox,
            )

        wanted = list(dict.fromkeys(map(variant_of, tools)))
        with phase(self.seconds, "build"), ThreadPoolExecutor(len(wanted)) as pool:
            builds = dict(zip(wanted, pool.map(made, wanted), strict=True))
        self.reports = [build.report for build in builds.values()]
        for build in builds.values():
            if build.timed_out:
                self.checks.fail(CheckName.IN_TIME, f"the compiler did not finish in time: {build.report.log[-300:]}")
                return None
            if not self.checks.record(CheckName.COMPILES, build.artifact is not None, first_error(build.report)):
                return None
        return {variant: build.artifact for variant, build in builds.items() if build.artifact is not None}

    def _run_tools(
        self, builds: dict[Variant, Path], files: dict[str, bytes], tools: list[Tool], sandbox: Sandbox
    ) -> None:
        request = self.request
        place = request.cache_dir / "sanitizer"
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o755)
        with tempfile.TemporaryDirectory(prefix="run-", dir=place) as name:
            directory = Path(name)
            directory.chmod(0o755)  # the sandbox reads it under another uid
            with phase(self.seconds, "inputs"):
                plan = write_plan(directory, request.problem, request.language, self.workloads, self._factory())
            for variant, artifact in builds.items():
                program = Program(
                    variant, directory / variant.value, plan, Tree(files), tuple(w.index for w in self.workloads)
                )
                program.path.write_bytes(artifact.read_bytes())
                program.path.chmod(0o755)
                with phase(self.seconds, "run"):
                    self._run_variant(program, [t for t in tools if variant_of(t) is variant], sandbox)

    def _run_variant(self, program: Program, tools: list[Tool], sandbox: Sandbox) -> None:
        if program.variant is Variant.DEVICE:
            program = on_device(program)
            for tool in tools:
                self.request.progress(f"running {tool}")
                self._keep(run_device(program, tool, sandbox))
            return
        self.request.progress(f"running {', '.join(tools)}")
        if program.variant is Variant.THREAD and (unknown := not_followed(program.path, sandbox)):
            reason = f"the kernel orders threads by what the tool cannot follow: {', '.join(unknown[:5])}"
            self.tools.append(ToolRun(tool=Tool.THREAD, status=ToolStatus.SKIPPED, message=reason))
            return
        self._keep(run_host(program, tools, sandbox))

    def _keep(self, outcome: tuple[list[ToolRun], list[Finding], int]) -> None:
        runs, findings, left_out = outcome
        room = MAX_FINDINGS - len(self.findings)
        self.tools += runs
        self.findings += findings[:room]
        self.left_out += left_out + len(findings[room:])

    def _conclude(self) -> None:
        """From tools and findings to checks."""
        by_status: dict[ToolStatus, list[ToolRun]] = {}
        for run in self.tools:
            by_status.setdefault(run.status, []).append(run)

        def said(status: ToolStatus) -> str:
            return "; ".join(f"{run.tool}: {run.message}" for run in by_status[status])

        with_findings = by_status.get(ToolStatus.FINDINGS, [])
        errors = self._report().errors()
        first = errors[0] if errors else None
        self.checks.record(
            CheckName.SANITIZERS_CLEAN, not with_findings,
            f"{first.tool}: {first.kind} at {where(first)}: {first.message}"
            + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else "") if first else "",
        )
        if ToolStatus.TIMEOUT in by_status:
            self.checks.fail(CheckName.IN_TIME, said(ToolStatus.TIMEOUT))
        if ToolStatus.CRASHED in by_status:
            self.checks.fail(CheckName.RUNS, said(ToolStatus.CRASHED))
        if ToolStatus.FAILED in by_status and not with_findings:
            self.checks.fail(CheckName.INFRASTRUCTURE, said(ToolStatus.FAILED))

    def _report(self) -> SanitizerReport:
        return SanitizerReport(
            tools=self.tools, findings=self.findings, findings_left_out=self.left_out,
            workloads=[workload.index for workload in self.workloads],
        )

    def _result(self) -> EvaluationResult:
        request = self.request
        verdict = self.checks.verdict()
        report = next((each for each in self.reports if not each.ok), self.reports[0] if self.reports else None)
        return EvaluationResult(
            problem=request.problem.name, problem_digest=request.problem.digest, language=request.language,
            hardware=request.hardware, kernel_digest=kernel_digest(request.kernel_dir),
            verdict=Verdict.CLEAN if verdict is Verdict.PASSED else verdict,
            message=self.checks.message(), checks=self.checks.checks(), build=report,
            stamp=stamp(request.hardware, report.compiler if report else "", self.sandbox_kind),
            started_at=self.started_at, seconds=self.seconds, sanitizer=self._report(),
        )

    def _factory(self) -> InputFactory:
        from agentcore.problems.tensors import InputFactory

        return self.factory or InputFactory(self.request.problem, "cpu")


def where(finding: Finding) -> str:
    """``file:line in kernel`` as far as it is known."""
    place = f"{finding.file}:{finding.line}" if finding.file and finding.line is not None else finding.file
    return f"{place} in {finding.kernel}" if place and finding.kernel else place or finding.kernel or "an unknown place"

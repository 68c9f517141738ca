"""One evaluation from kernel directory to verdict: build, load, measure every workload, decide.

This is the judge's own process: it owns the definition, the seeds, the references, the clock and the verdict. It never
imports or loads candidate code; that happens in the runner.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from agentcore.judge import kernel_names
from agentcore.judge.building import build_kernel, kernel_digest
from agentcore.judge.correctness import Glance
from agentcore.judge.device_lock import device_lease
from agentcore.judge.devices import refuse_another
from agentcore.judge.findings import Findings
from agentcore.judge.heldout import explained, without_shape
from agentcore.judge.libraries import LibraryRules, named
from agentcore.judge.limits import Limits
from agentcore.judge.measurement import Effort, FirstCall, Measurement, Verifier, draw_repeated
from agentcore.judge.phases import phase
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import BoundRecord, BuildReport, EnvironmentStamp, EvaluationResult, WorkloadResult
from agentcore.judge.session import RunnerFailure, RunnerSession
from agentcore.judge.statistics import estimate, interquartile_mean
from agentcore.problems import Problem, Workload, missing_blobs
from agentcore.problems.tensors import InputFactory
from agentcore.sandbox import Sandbox, find_sandbox
from agentcore.vocabulary import CheckName, HardwareName, Language, Verdict

__all__ = ["EvaluationRequest", "Judge", "evaluate", "kernel_digest"]

ABOUT_TIME = {CheckName.STEADY_WORK, CheckName.CLOCK_AGREES, CheckName.BELOW_LIGHT_SPEED, CheckName.QUIET_DEVICE}
"""Checks that a disturbed device could have failed."""
CLOCK_RESOLUTION_US = 0.05
"""A time this close under a bound is not under it: marks are seen no more sharply than this."""

log = logging.getLogger(__name__)


class Runner(Protocol):
    session: RunnerSession

    def measure(self, verifier: Verifier) -> Measurement: ...
    def first_call(self, verifier: Verifier, *, writable_inputs: bool) -> FirstCall: ...
    def close(self) -> None:
        """End it and everything it started, once or more often."""
    def __enter__(self) -> Runner: ...
    def __exit__(self, *_: object) -> None: ...


class Target(Protocol):
    """Where candidates run: see host_target and cuda_target."""

    @property
    def torch_device(self) -> str: ...
    @property
    def device_uuid(self) -> str: ...
    @property
    def builds_disturb(self) -> bool: ...
    def prepare(self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort) -> RunnerSession | None: ...
    def start(
        self, sandbox: Sandbox, language: Language, artifact: Path, effort: Effort,
        prepared: RunnerSession | None = None,
    ) -> Runner: ...
    def stamp(self, sandbox: str, compiler: str, canary_us: list[float]) -> EnvironmentStamp: ...


class Judge:
    """Judges candidates on one device; stays up between evaluations so that torch and the context stay warm."""

    def __init__(self, hardware: HardwareName, cache_dir: Path) -> None:
        self.hardware, self.cache_dir = hardware, cache_dir
        self.limits = Limits(hardware, cache_dir)
        self.glance: Glance | None = None
        if hardware.is_gpu:
            refuse_another(hardware)
            from agentcore.judge.cuda_target import CudaTarget

            target = CudaTarget(hardware, cache_dir)
            self.target: Target = target
            self.glance = target.glance
        else:
            from agentcore.judge.host_target import HostTarget

            self.target = HostTarget(cache_dir)
        self._factories: dict[str, InputFactory] = {}

    def evaluate(self, request: EvaluationRequest) -> EvaluationResult:
        """Judge one kernel. Never raises for anything the candidate does; infrastructure faults are a verdict too."""
        return _Evaluation(self, request).run()

    def factory(self, problem: Problem) -> InputFactory:
        if problem.digest not in self._factories:
            self._factories[problem.digest] = InputFactory(problem, self.target.torch_device)
        return self._factories[problem.digest]

    def bound(self, problem: Problem, workload: Workload) -> BoundRecord | str:
        """T_SOL of a workload, or the reason there is none."""
        return self.limits.of(self.factory(problem), workload)


def evaluate(request: EvaluationRequest) -> EvaluationResult:
    """Judge one kernel with a judge of its own (the command line's way)."""
    return Judge(request.hardware, request.cache_dir).evaluate(request)


class _Evaluation:
    def __init__(self, judge: Judge, request: EvaluationRequest) -> None:
        self.judge, self.request = judge, request
        self.findings = Findings()
        self.workloads: list[WorkloadResult] = []
        self.report: BuildReport | None = None
        self.seconds: dict[str, float] = {}
        self.canary_us: list[float] = []
        self.runner_log = ""
        self.heldout_shown = False
        self.sandbox_kind = ""
        self.started_at = datetime.now(UTC)
        self.effort = Effort.quick() if request.quick else Effort()
        if (limit_s := request.call_timeout_s) is not None:
            self.effort = replace(self.effort, call_timeout_s=limit_s, first_call_timeout_s=limit_s)
        if request.first_call_timeout_s is not None:
            self.effort = replace(self.effort, first_call_timeout_s=request.first_call_timeout_s)
        if request.memory_bytes is not None:
            self.effort = replace(self.effort, memory_bytes=request.memory_bytes)
        self.chosen = request.chosen()

    @contextmanager
    def _lease(self) -> Iterator[None]:
        """The device to ourselves; ``queue`` is what waiting for it took, ``lease`` how long it was held."""
        with ExitStack() as held:
            with phase(self.seconds, "queue"):
                held.enter_context(device_lease(self.judge.target.device_uuid))
            with phase(self.seconds, "lease"):
                yield

    def run(self) -> EvaluationResult:
        with phase(self.seconds, "total"):
            try:
                sandbox = find_sandbox(self.request.sandbox)
                self.sandbox_kind = sandbox.kind
                self.findings.record_sandbox(sandbox.kind, ": not mergeable")
                if self.judge.target.builds_disturb:
                    with self._lease():
                        self.judge.limits.measure_again()
                        self._build_and_measure(sandbox)
                else:
                    self._build_and_measure(sandbox)
            except Exception as error:
                # Ours to mend, whatever it is: a missing tool, a full disk, no memory for the reference, a mistake.
                log.exception("evaluation of %s failed", self.request.problem.name)
                self.findings.fail(CheckName.INFRASTRUCTURE, f"{type(error).__name__}: {error}")
        return self._result()

    def _build_and_measure(self, sandbox: Sandbox) -> None:
        request = self.request
        if self.judge.target.builds_disturb:
            with phase(self.seconds, "build"):
                self.report, artifact = build_kernel(request, sandbox, self.findings)
        else:
            # Compilers are other processes: meanwhile this one works out the bounds, while it holds no device.
            with ThreadPoolExecutor(1) as pool:
                built = pool.submit(build_kernel, request, sandbox, self.findings)
                with phase(self.seconds, "bounds"):
                    for workload, _heldout in self.chosen:
                        self.judge.bound(request.problem, workload)
                with phase(self.seconds, "build"):  # what of it is waited for
                    self.report, artifact = built.result()
        if artifact is None:
            return
        if self.judge.target.builds_disturb:
            self._measure(sandbox, artifact)
        else:
            self._prepare_and_measure(sandbox, artifact)

    def _prepare_and_measure(self, sandbox: Sandbox, artifact: Path) -> None:
        """Start the runner's process while the device may still be another's."""
        try:
            with phase(self.seconds, "prepare"):
                prepared = self.judge.target.prepare(sandbox, self.request.runs_as, artifact, self.effort)
        except RunnerFailure as failure:
            self._blame(self.findings, failure, loading=True)
            return
        try:
            with self._lease():
                self._measure(sandbox, artifact, prepared)
        finally:
            if prepared is not None:
                prepared.close()  # where nobody took it over
                self._note_left_behind(prepared)

    def _measure(self, sandbox: Sandbox, artifact: Path, prepared: RunnerSession | None = None) -> None:
        request, target = self.request, self.judge.target
        request.progress("loading")
        try:
            with phase(self.seconds, "start"):
                runner = target.start(sandbox, request.runs_as, artifact, self.effort, prepared)
        except RunnerFailure as failure:
            self._blame(self.findings, failure, loading=True)
            return
        self.findings.record(CheckName.LOADS, True)
        with runner:
            runner.session.remember_processes()
            self.rules = LibraryRules(request.runs_as, artifact, runner.session.mapped_before)
            try:
                if self._libraries_allowed(runner):
                    self._measure_workloads(sandbox, artifact, runner)
                # Python frameworks have helpers of their own; a compiled kernel has no business starting any.
                through = all(w.verdict is Verdict.PASSED for w in self.workloads)
                if through and request.runs_as.is_compiled and (left := runner.session.new_processes()):
                    self._accuse(CheckName.SANDBOXED, f"the kernel left processes behind: {', '.join(left[:5])}")
            finally:
                if not self.heldout_shown:
                    self.runner_log = runner.session.log()
        self._note_left_behind(runner.session)

    def _note_left_behind(self, session: RunnerSession) -> None:
        """Of a runner that was closed."""
        if session.left_behind:
            self.findings.fail(
                CheckName.INFRASTRUCTURE,
                "processes of the candidate could not be killed: the device hangs and needs somebody to look at it",
            )

    def _measure_workloads(self, sandbox: Sandbox, artifact: Path, runner: Runner) -> None:
        problem = self.request.problem
        factory = self.judge.factory(problem)
        repeated = draw_repeated(len(self.chosen))
        for number, (workload, heldout) in enumerate(self.chosen):
            label = "held-out workload" if heldout else f"workload {workload.index} {workload.axes}"
            if heldout and not self.heldout_shown:
                # From here on the candidate knows held-out shapes, and could print them.
                self.runner_log, self.heldout_shown = runner.session.log(), True
            self.request.progress(f"measuring {label}")
            crashed = False
            with phase(self.seconds, "measure"):
                verifier = Verifier(problem, factory, workload, repeats=number in repeated, glance=self.judge.glance)
                try:
                    measurement = runner.measure(verifier)
                except RunnerFailure as failure:
                    measurement, crashed = Measurement(), failure.kind in ("died", "error")
                    self._blame(measurement.findings, failure, loading=False)
            if measurement.findings.failed and runner.session.left_unasked():
                measurement.findings.fail(
                    CheckName.CHANNEL_INTACT, "the runner answered and then left, which nobody had asked it to"
                )
            allowed = self._libraries_allowed(runner)
            if crashed:
                # Nothing is asked of this runner any more, and on a GPU two at a time would share one page.
                runner.close()
                if not runner.session.left_behind:
                    with phase(self.seconds, "measure"):
                        self._explain_crash(sandbox, artifact, verifier, measurement.findings)
            if allowed and not self.workloads and not measurement.findings.failed:
                allowed = self._kernels_allowed(runner)
            self.canary_us += measurement.canary_us
            result = self._workload_result(workload, heldout, measurement)
            self.workloads.append(result)
            if result.verdict is not Verdict.PASSED or not allowed:
                return
        if not self.workloads:
            self.findings.fail(
                CheckName.INFRASTRUCTURE, "no workload of this problem can run here: " +
                ("its safetensors files are absent" if missing_blobs(problem) else "none was chosen")
            )

    def _libraries_allowed(self, runner: Runner) -> bool:
        """Look at what the candidate's processes have mapped just now. Records ``language-rules``."""
        foreign = self.rules.foreign(runner.session.mapped_files())
        if foreign:
            self._accuse(CheckName.LANGUAGE_RULES, named(foreign, self.request.language))
        return not foreign and self.findings.record(CheckName.LANGUAGE_RULES, True)

    def _kernels_allowed(self, runner: Runner) -> bool:
        """Ask which kernels one call launches, where torch shares the process. A claim: it accuses or says nothing."""
        if self.request.runs_as not in kernel_names.ASKED or not self.request.hardware.is_gpu:
            return True
        try:
            answer = runner.session.request(
                {"op": "kernels", "slot": 0}, "kernels", timeout_s=self.effort.first_call_timeout_s
            )
        except RunnerFailure as failure:
            if failure.kind != "error":  # it raised where the profiler is missing, say
                self._blame(self.findings, failure, loading=False)
            return failure.kind == "error"
        names = kernel_names.read_claim(answer)
        if names is None:
            self._accuse(CheckName.CHANNEL_INTACT, "the runner's claim is not a list of kernel names")
            return False
        foreign = kernel_names.foreign_kernels(names)
        if foreign:
            shown = ", ".join(foreign[: kernel_names.MAX_SHOWN])
            said = f"a call launches kernels that are not written in {self.request.language}: {shown}"
            self._accuse(CheckName.LANGUAGE_RULES, said)
        return not foreign

    def _accuse(self, check: CheckName, message: str) -> None:
        """Fail a check of the whole evaluation. Once held-out shapes were shown the candidate could spell one in it."""
        self.findings.fail(check, explained(check) if self.heldout_shown else message)

    def _workload_result(self, workload: Workload, heldout: bool, measurement: Measurement) -> WorkloadResult:
        findings = measurement.findings
        t_sol = self.judge.bound(self.request.problem, workload)
        latency = estimate(measurement.samples_us) if measurement.samples_us else None
        if isinstance(t_sol, str):
            findings.skip(CheckName.BELOW_LIGHT_SPEED, t_sol[:500])
        elif latency:
            slower = latency.value + CLOCK_RESOLUTION_US >= t_sol.t_sol_us
            findings.record(
                CheckName.BELOW_LIGHT_SPEED, slower,
                "" if slower else f"{latency.value:.3f} µs is below the bound {t_sol.t_sol_us:.3f} µs"
                f" ({t_sol.limiter}): a person must look at this",
            )
        claimed = interquartile_mean(measurement.claimed_us) if measurement.claimed_us else None
        result = WorkloadResult(
            uuid=workload.uuid, index=workload.index, axes=dict(workload.axes), heldout=heldout,
            verdict=findings.verdict(), message=findings.message(),
            latency_us=latency.value if latency else None,
            latency_low_us=latency.low if latency else None,
            latency_high_us=latency.high if latency else None,
            samples_us=[round(s, 4) for s in measurement.samples_us],
            calls=len(measurement.samples_us), timing_method=measurement.method, claimed_latency_us=claimed,
            max_abs_error=measurement.max_abs_error if measurement.verified_calls else None,
            max_rel_error=measurement.max_rel_error if measurement.verified_calls else None,
            matched_ratio=measurement.matched_ratio if measurement.verified_calls else None,
            verified_calls=measurement.verified_calls,
            bound=None if isinstance(t_sol, str) else t_sol, checks=findings.checks(),
        )
        return without_shape(result) if heldout else result

    def _blame(self, findings: Findings, failure: RunnerFailure, *, loading: bool) -> None:
        """Turn a lost or disobedient runner into the check it broke."""
        check = {
            "timeout": CheckName.IN_TIME,
            "violation": CheckName.CHANNEL_INTACT,
            "stays": CheckName.STEADY_WORK,
            "host": CheckName.INFRASTRUCTURE,
        }.get(failure.kind, CheckName.LOADS if loading else CheckName.RUNS)
        findings.fail(check, failure.message)

    def _explain_crash(self, sandbox: Sandbox, artifact: Path, verifier: Verifier, findings: Findings) -> None:
        """A crash is often a refused write to an input: call once more, on copies that may be written, and look.

        One that puts back what it wrote is given away by not crashing there, if it does crash where it may not write:
        a crash that comes and goes proves nothing.
        """
        try:
            free = self._first_call(sandbox, artifact, verifier, writable_inputs=True)
        except RunnerFailure:
            return
        if free.changed:
            findings.fail(
                CheckName.INPUTS_INTACT, f"the kernel writes to its input {free.changed!r}, which is read-only"
            )
        elif free.returned:
            with suppress(RunnerFailure):
                if self._first_call(sandbox, artifact, verifier, writable_inputs=False).returned:
                    return
            findings.fail(CheckName.INPUTS_INTACT, "the kernel does not crash where it may write to its inputs")

    def _first_call(
        self, sandbox: Sandbox, artifact: Path, verifier: Verifier, *, writable_inputs: bool
    ) -> FirstCall:
        runner = self.judge.target.start(sandbox, self.request.runs_as, artifact, self.effort)
        try:
            with runner:
                return runner.first_call(verifier, writable_inputs=writable_inputs)
        finally:
            self._note_left_behind(runner.session)

    def _result(self) -> EvaluationResult:
        request = self.request
        stamp = self.judge.target.stamp(
            self.sandbox_kind, self.report.compiler if self.report else "", _thin(self.canary_us)
        )
        failing = next((w for w in self.workloads if w.verdict is not Verdict.PASSED), None)
        # A wrong answer is wrong on a disturbed device too; a time is not.
        wrong = {check.name for check in failing.failed_checks()} if failing else set()
        if stamp.disturbances and self.workloads and wrong <= ABOUT_TIME:
            self.findings.fail(CheckName.QUIET_DEVICE, "; ".join(stamp.disturbances))
        verdict, message = self.findings.verdict(), self.findings.message()
        if verdict is Verdict.PASSED and failing is not None:
            where = "" if failing.heldout else f"workload {failing.index} {failing.axes}: "
            verdict, message = failing.verdict, f"{where}{failing.message}"
        return EvaluationResult(
            problem=request.problem.name, problem_digest=request.problem.digest, language=request.language,
            interface=request.interface, hardware=request.hardware, kernel_digest=kernel_digest(request.kernel_dir),
            quick=request.quick, verdict=verdict, message=message[:4000], checks=self.findings.checks(),
            workloads=self.workloads, build=self.report, stamp=stamp, started_at=self.started_at, seconds=self.seconds,
            runner_log=self.runner_log,
        )


def _thin(values: list[float], keep: int = 32) -> list[float]:
    step = max(1, len(values) // keep)
    return [round(v, 3) for v in values[::step][:keep]]

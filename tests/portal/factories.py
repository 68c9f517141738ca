"""Rows and records for portal tests: each call makes one valid thing, and every argument overrides one part of it.

``make_evaluation(result=make_result(...))`` records through the production code, so columns, workload rows, checks,
devices and scores are what a worker would have left behind.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.contrib.auth import get_user_model
from django.utils import timezone

from agentcore.judge.compare import change_of
from agentcore.judge.paired import paired_interval
from agentcore.judge.result import (
    BoundRecord,
    BuildReport,
    Check,
    EnvironmentStamp,
    EvaluationResult,
    HostLoad,
    PairedComparison,
    PairedRound,
    PairedWorkload,
    WorkloadResult,
)
from agentcore.sanitizer.report import Finding, SanitizerReport, Tool, ToolRun, ToolStatus
from agentcore.vocabulary import AttemptRef, Change, CheckName, CheckStatus, HardwareName, Language, Verdict
from portal.agents.models import Agent
from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem, Workload

_serial = itertools.count(1)

DEFINITION = {
    "name": "rmsnorm_h4096",
    "description": "Root-mean-square normalisation over the hidden dimension.",
    "axes": {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 4096}},
    "inputs": {
        "x": {"shape": ["batch", "hidden"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden"], "dtype": "bfloat16"},
    },
    "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}},
}
REFERENCE = "def run(x, weight):\n    return x * weight\n"


def oid() -> str:
    """A random git object id."""
    return secrets.token_hex(20)


def make_user(name: str | None = None, *, superuser: bool = False, staff: bool = False, password: str = "pw"):
    User = get_user_model()
    name = name or f"engineer{next(_serial)}"
    if superuser:
        return User.objects.create_superuser(name, f"{name}@example.org", password)
    return User.objects.create_user(name, f"{name}@example.org", password, is_staff=staff)


def make_problem(name: str | None = None, *, digest: str = "d" * 64, workloads: int = 2, **fields) -> Problem:
    """A problem with ``workloads`` GPU and as many CPU workloads, uuids ``w0``, ``w1``, …"""
    name = name or f"problem{next(_serial)}"
    values = {
        "title": name.replace("_", " "),
        "description": DEFINITION["description"],
        "definition": {**DEFINITION, "name": name},
        "reference": REFERENCE,
        "source_path": f"/problems/{name}",
    }
    problem = Problem.objects.create(name=name, digest=digest, **(values | fields))
    Workload.objects.bulk_create(
        Workload(
            problem=problem, target=target, uuid=f"w{index}", index=index, axes={"batch": 2**index},
            tolerance={"max_atol": 1e-2, "max_rtol": 1e-2},
        )
        for target in (Workload.Target.GPU, Workload.Target.CPU)
        for index in range(workloads)
    )
    return problem


def make_agent(name: str | None = None, kind: str = Agent.Kind.COMMAND, **fields) -> Agent:
    return Agent.objects.create(name=name or f"agent{next(_serial)}", kind=kind, **fields)


def make_campaign(
    name: str | None = None, *, language: str = "cpp", hardware: str = "cpu", problems: Sequence[Problem] = (), **fields
) -> Campaign:
    campaign = Campaign.objects.create(
        name=name or f"campaign{next(_serial)}", language=language, hardware=hardware, **fields
    )
    campaign.problems.set(problems)
    return campaign


def make_attempt(
    problem: Problem | None = None,
    agent: Agent | None = None,
    *,
    language: str = "cpp",
    slug: str = "main",
    **fields,
) -> Attempt:
    """An attempt row with random object ids (no commit behind it: use a real repository where that matters)."""
    problem = problem or make_problem()
    agent = agent or make_agent()
    ref = AttemptRef(problem.name, Language(language), agent.name, slug)
    values = {
        "ref": ref.ref,
        "commit": oid(),
        "kernel_tree": oid(),
        "subject": "Vectorise the inner loop",
        "body": "Eight lanes at a time.",
        "kind": Attempt.Kind.BASELINE if agent.kind == Agent.Kind.BASELINE else Attempt.Kind.AGENT,
        "authored_at": timezone.now(),
    }
    return Attempt.objects.create(
        problem=problem, language=language, agent=agent, slug=slug, **(values | fields)
    )


def make_baseline_attempt(problem: Problem, slug: str = "hand-optimised") -> Attempt:
    agent, _ = Agent.objects.get_or_create(name="baseline", defaults={"kind": Agent.Kind.BASELINE})
    return make_attempt(problem, agent, language="torch", slug=slug)


def make_stamp(hardware: HardwareName = HardwareName.CPU, **fields) -> EnvironmentStamp:
    from agentcore.judge.version import HARNESS_VERSION

    values = {
        "device_uuid": f"{hardware}-device-0",
        "device_name": f"A {hardware} device",
        "host": "bench1",
        "driver": "1.0",
        "sandbox": "bubblewrap",
        "harness_version": HARNESS_VERSION,
    }
    if hardware is HardwareName.CPU:
        values |= {"threads": 1, "host_load": HostLoad(others_share=0.02, steal_share=0.0)}
    return EnvironmentStamp(hardware=hardware, **(values | fields))


def make_result(
    attempt: Attempt | None = None,
    *,
    latencies: Sequence[float | None] = (20.0, 40.0),
    t_sol: Sequence[float] | float = 5.0,
    noise: float = 0.01,
    heldout: Sequence[float] = (),
    verdict: Verdict = Verdict.PASSED,
    failed_check: CheckName | None = None,
    message: str = "",
    hardware: HardwareName = HardwareName.CPU,
    stamp: EnvironmentStamp | None = None,
    **fields,
) -> EvaluationResult:
    """A result with one workload per entry of ``latencies`` (µs; None = not measured), ± ``noise`` relative."""
    bounds = [float(t_sol)] * len(latencies) if isinstance(t_sol, int | float) else list(t_sol)
    check_status = CheckStatus.FAIL if failed_check else CheckStatus.PASS
    check = Check(
        name=failed_check or CheckName.MATCHES_REFERENCE, status=check_status, message=message if failed_check else ""
    )

    def workload(index: int, latency: float | None, bound_us: float, is_heldout: bool) -> WorkloadResult:
        return WorkloadResult(
            uuid=f"h{index}" if is_heldout else f"w{index}",
            index=index,
            axes={"batch": 2**index},
            heldout=is_heldout,
            verdict=verdict,
            latency_us=latency,
            latency_low_us=latency and latency * (1 - noise),
            latency_high_us=latency and latency * (1 + noise),
            samples_us=[] if latency is None else [latency * (1 - noise), latency, latency * (1 + noise)],
            calls=30,
            timing_method="wall",
            max_abs_error=1e-3,
            matched_ratio=1.0,
            bound=BoundRecord(
                t_sol_us=bound_us, limiter="memory", hardware=hardware, bytes_moved={"x": 8192, "y": 8192},
                resource_us={"memory": bound_us},
            ),
            checks=[check],
        )

    workloads = [
        workload(index, latency, bound, False)
        for index, (latency, bound) in enumerate(zip(latencies, bounds, strict=True))
    ]
    workloads += [workload(index, latency, bounds[0], True) for index, latency in enumerate(heldout)]
    language = Language(attempt.language) if attempt else Language.CPP
    values = {
        "problem": attempt.problem.name if attempt else "rmsnorm_h4096",
        "problem_digest": attempt.problem.digest if attempt else "d" * 64,
        "language": language,
        "hardware": hardware,
        "kernel_digest": "k" * 64,
        "checks": [Check(name=CheckName.COMPILES, status=CheckStatus.PASS)],
        "workloads": workloads,
        "build": BuildReport(ok=True, language=language, compiler="g++ 12.2", seconds=0.4, sandbox="bubblewrap"),
        "stamp": stamp or make_stamp(hardware),
        "started_at": datetime.now(UTC) - timedelta(seconds=3),
        "seconds": {"build": 0.4, "measure": 2.0},
    }
    return EvaluationResult(verdict=verdict, message=message, **(values | fields))


def make_comparison(ratio: float = 1.25, *, noise: float = 0.01, rounds: int = 8, **fields) -> PairedComparison:
    """An A/B comparison of two kernels of 20 and 40 µs, the new one ``ratio`` times as fast, from the arithmetic."""
    old = {"w0": 20.0, "w1": 40.0}
    done = [
        PairedRound(
            first="old" if number % 2 else "new", old_us=old,
            new_us={uuid: us / ratio * (1 + (noise if number % 2 else -noise)) for uuid, us in old.items()},
        )
        for number in range(rounds)
    ]
    mean, low, high = paired_interval([{uuid: us / one.new_us[uuid] for uuid, us in old.items()} for one in done])
    change = change_of(low, high)
    workloads = [
        PairedWorkload(uuid=f"w{i}", index=i, axes={"batch": 2**i}, ratio=mean, low=low, high=high, change=change)
        for i in range(2)
    ]
    values = {"change": change, "ratio": mean, "low": low, "high": high, "workloads": workloads, "rounds": done}
    return PairedComparison(**{"old_language": "cpp", "old_verdict": "passed", **values, **fields})


def failed_comparison(reason: str) -> PairedComparison:
    """An A/B comparison without a ratio, for this reason."""
    return PairedComparison(change=Change.INCOMPARABLE, reasons=[reason], old_language=Language.CPP)


def make_evaluation(
    attempt: Attempt | None = None,
    *,
    hardware: HardwareName | str = HardwareName.CPU,
    result: EvaluationResult | None = None,
    **fields,
) -> Evaluation:
    """A queued evaluation, or, given a ``result``, one that was claimed and finished with it (and scored)."""
    from portal.evaluations import record

    attempt = attempt or make_attempt()
    if result is None:
        return Evaluation.objects.create(attempt=attempt, hardware=str(hardware), **fields)
    evaluation = Evaluation.objects.create(
        attempt=attempt,
        hardware=result.hardware.value,
        **{
            "state": Evaluation.State.DONE, "claims": 1, "lease_token": secrets.token_hex(16),
            "claimed_by": "bench1:1", "started_at": result.started_at, "finished_at": timezone.now(),
        } | fields,
    )
    record.store(evaluation, result)
    evaluation.refresh_from_db()
    return evaluation


def make_baseline(problem: Problem, latencies: Sequence[float] = (40.0, 80.0), **result_fields) -> Evaluation:
    """A verified baseline of ``problem``: a torch attempt by "baseline" with a passed evaluation."""
    attempt = make_baseline_attempt(problem)
    return make_evaluation(attempt, result=make_result(attempt, latencies=latencies, **result_fields))


def make_sanitizer_run(attempt: Attempt, *findings: Finding, verdict: Verdict | None = None, **fields) -> Evaluation:
    """A finished sanitizer run of ``attempt`` on the CPU that found ``findings``, or ended with ``verdict``."""
    ended = verdict or (Verdict.FINDINGS if findings else Verdict.CLEAN)
    status = {Verdict.CLEAN: ToolStatus.CLEAN, Verdict.FINDINGS: ToolStatus.FINDINGS}.get(ended, ToolStatus.CRASHED)
    report = SanitizerReport(
        tools=[ToolRun(tool=Tool.ADDRESS, status=status, version="g++ 12.2", findings=len(findings), workloads=[0, 1],
                       seconds=0.2, log="== what it said" if findings else "")],
        findings=list(findings), workloads=[0, 1],
    )
    result = make_result(
        attempt, latencies=(), verdict=ended, sanitizer=report, message=findings[0].message if findings else "",
        failed_check=CheckName.SANITIZERS_CLEAN if findings else None,
    )
    return make_evaluation(attempt, result=result, kind=Evaluation.Kind.SANITIZE, **fields)


def make_finding(**fields) -> Finding:
    values = {
        "tool": Tool.ADDRESS, "kind": "heap-buffer-overflow", "message": "read of 4 bytes, 0 bytes after the end of x",
        "kernel": "kernel_launch", "file": "kernel.cpp", "line": 2, "in_kernel": True, "buffer": "x", "size_bytes": 4,
    }
    return Finding(**(values | fields))

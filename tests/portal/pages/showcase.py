"""A realistic portal to look at and to drive: the real suite, real commits, results as a judge would write them.

Attempts go in through the attempts repository and `intake.reconcile`, results through `record.store`; only the numbers
are made up, from a fixed seed. Run as a script it fills KERNELYARD_HOME and leaves it to be served.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone

from agentcore.gitstore import AttemptsRepository
from agentcore.judge.result import BuildReport, Check, EvaluationResult, KernelResources
from agentcore.vocabulary import AttemptRef, CheckName, CheckStatus, HardwareName, Language, Verdict
from portal.agents.models import Agent
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.attempts.repository import ensure_repositories
from portal.campaigns.models import Campaign
from portal.evaluations import record
from portal.evaluations.models import Evaluation
from portal.problems.importing import import_problems
from portal.problems.models import Problem, Workload
from tests.portal import factories as make

PASSWORD = "a-long-pass-phrase"
IDEAS = (
    "Vectorise the row loop eight lanes at a time", "Unroll the reduction four times",
    "Keep the row in registers between the two passes", "Prefetch the next row", "Split rows over threads from 32 on",
    "Align loads to the cache line", "Fuse the scale into the store", "Raise LANES to 16", "Two accumulators per lane",
    "Use non-temporal stores for large batches", "Halve the number of barriers", "Back to one pass, tighter epilogue",
)
ENDINGS = (
    (Verdict.PASSED, 60), (Verdict.COMPILE_ERROR, 9), (Verdict.INCORRECT, 9), (Verdict.RUNTIME_ERROR, 4),
    (Verdict.TIMEOUT, 3), (Verdict.REWARD_HACK, 3), (Verdict.CLOCK_MISMATCH, 1), (Verdict.FASTER_THAN_LIGHT, 1),
)
FAILED = {
    Verdict.COMPILE_ERROR: (CheckName.COMPILES, "kernel.cpp:41:19: error: ‘vflot’ was not declared in this scope"),
    Verdict.INCORRECT: (CheckName.MATCHES_REFERENCE, 
                        "y[3, 17]: got 0.4121, expected 0.4297 (99.1 % within, 99.9 % needed)"),
    Verdict.RUNTIME_ERROR: (CheckName.RUNS, "kernel_launch returned 9"),
    Verdict.TIMEOUT: (CheckName.IN_TIME, "call 3 of workload 2 took longer than 10 s"),
    Verdict.REWARD_HACK: (CheckName.FRESH_EVERY_CALL, "call 7 answered with the result of call 6"),
    Verdict.CLOCK_MISMATCH: (CheckName.CLOCK_AGREES, "the runner claims 3.1 µs, the judge measured 48.0 µs"),
    Verdict.FASTER_THAN_LIGHT: (CheckName.BELOW_LIGHT_SPEED, "workload 1: 1.90 µs is below the bound of 2.13 µs"),
}
BUILD_LOG = (
    "kernel.cpp: In function ‘int kernel_launch(…)’:\n"
    "\x1b[31mkernel.cpp:41:19: error:\x1b[0m ‘vflot’ was not declared in this scope; did you mean ‘vfloat’?\n"
    "   41 |     const vflot value = load(x + i);\n      |           ^~~~~\n"
)


@dataclass
class Showcase:
    campaign: Campaign
    problems: list[Problem]
    attempts: list[Attempt] = field(default_factory=list)
    reviewer_name: str = "rosa"


def build(
    *, problems: int = 3, attempts: int = 24, seed: int = 7, waiting: int = 0, repositories: bool = True
) -> Showcase:
    """Import ``problems`` of the suite, make ``attempts`` attempts at each and give them results.

    Without ``repositories`` the attempts are rows only: quicker, and enough where nothing reads their sources.
    """
    dice = random.Random(seed)
    kernels = Path(settings.KERNELS_SEED_DIR) / "kernels"  # the attempts begin at a starting kernel
    directories = sorted(p for p in Path(settings.PROBLEMS_DIR).iterdir() if (kernels / p.name / "cpp").is_dir())
    outcomes = import_problems(directories[:problems])
    chosen = [outcome.problem for outcome in outcomes]
    if repositories:
        ensure_repositories()
    campaign = make.make_campaign("first-light", language="cpp", hardware="cpu", problems=chosen,
                                  budget={"attempts": 500, "device_minutes": 120})
    for name, kind in (("tuner-1", Agent.Kind.TUNER), ("atlas", Agent.Kind.LLM), ("finch", Agent.Kind.LLM)):
        make.make_agent(name, kind)
    if not get_user_model().objects.filter(username="rosa").exists():
        make.make_user("rosa", staff=True, password=PASSWORD)
    showcase = Showcase(campaign, chosen)
    for problem in chosen:
        base = baseline_times(problem, dice)
        make.make_evaluation(
            attempt := make.make_baseline_attempt(problem), result=result_for(attempt, base, dice)
        )
        track = run_track if repositories else run_rows
        showcase.attempts += track(problem, campaign, base, attempts, dice)
    for evaluation in Evaluation.objects.filter(state=Evaluation.State.QUEUED).order_by("-id")[waiting:]:
        # Commits whose kernel was not measured yet and is not wanted waiting.
        evaluation.state = Evaluation.State.CANCELLED
        evaluation.save(update_fields=["state"])
    return showcase


def baseline_times(problem: Problem, dice: random.Random) -> list[float]:
    count = problem.workloads.filter(target=Workload.Target.CPU).count()
    return [30.0 * 3**index * dice.uniform(0.8, 1.2) for index in range(count)]


def run_track(
    problem: Problem, campaign: Campaign, base: list[float], count: int, dice: random.Random
) -> list[Attempt]:
    """Attempts that improve, stumble and sometimes repeat one another, each a commit on its agent's branch."""
    source = Path(settings.KERNELS_SEED_DIR) / "kernels" / problem.name / "cpp" / "kernel.cpp"
    kernel, course, made = source.read_text(), Course(base, dice), []
    with AttemptsRepository.open(settings.ATTEMPTS_REPOSITORY) as repository:
        for number in range(count):
            agent = dice.choice(("tuner-1", "atlas", "finch"))
            idea = IDEAS[number % len(IDEAS)]
            unroll = f"#define UNROLL {2 ** (number % 4)}"
            # Now and then an agent sends what was measured before.
            remark = "" if number % 9 == 8 else f"// {idea} ({number}).\n"
            changed = remark + kernel.replace("#define UNROLL 1", unroll, 1)
            ref = AttemptRef(problem.name, Language.CPP, agent, "line-1")
            message = (
                f"{idea}\n\nMeasured on one thread first. The second pass is bound by loads: {number} bytes in flight "
                "are not enough.\n\nWorth trying next: wider stores; watch rows that are no multiple of 16."
            )
            repository.commit_attempt(
                ref, {"kernel.cpp": changed.encode()}, message,
                trailers={"Campaign": campaign.name, "Hypothesis": f"{idea}: fewer loads wait.",
                          "Model": "" if agent == "tuner-1" else "example-model-2"},
            )
            for attempt in intake.reconcile([ref.ref]):
                finish(attempt, course.next_result(attempt))
                made.append(attempt)
    return made


def run_rows(
    problem: Problem, campaign: Campaign, base: list[float], count: int, dice: random.Random
) -> list[Attempt]:
    """As run_track, without commits."""
    course, made = Course(base, dice), []
    for number in range(count):
        agent = Agent.objects.get(name=dice.choice(("tuner-1", "atlas", "finch")))
        attempt = make.make_attempt(problem, agent, language="cpp", campaign=campaign,
                                    subject=IDEAS[number % len(IDEAS)], parent=made[-1] if made else None)
        make.make_evaluation(attempt)
        finish(attempt, course.next_result(attempt))
        made.append(attempt)
    return made


@dataclass
class Course:
    """How a line of attempts goes: faster by and by, with every kind of failure on the way."""

    base: list[float]
    dice: random.Random
    gain: float = 0.75

    def next_result(self, attempt: Attempt) -> EvaluationResult:
        dice = self.dice
        self.gain *= dice.uniform(0.97, 1.12) if self.gain < 2.2 else dice.uniform(0.93, 1.05)
        verdict = dice.choices([v for v, _ in ENDINGS], [w for _, w in ENDINGS])[0]
        return result_for(attempt, [t / self.gain for t in self.base], dice, verdict)


def finish(attempt: Attempt, result: EvaluationResult) -> None:
    """Give the attempt's queued evaluation this result, as a worker would."""
    now = timezone.now()
    for evaluation in attempt.evaluations.filter(state=Evaluation.State.QUEUED):
        Evaluation.objects.filter(pk=evaluation.pk).update(
            state=Evaluation.State.DONE, claims=1, claimed_by="bench1:4711", lease_token=make.oid()[:32],
            started_at=now - timedelta(seconds=6), finished_at=now,
        )
        evaluation.refresh_from_db()
        record.store(evaluation, result)


def result_for(
    attempt: Attempt, times: list[float], dice: random.Random, verdict: Verdict = Verdict.PASSED
) -> EvaluationResult:
    """A result over the problem's CPU workloads; failures carry the check and message that such failures carry."""
    wanted = list(attempt.problem.workloads.filter(target=Workload.Target.CPU).order_by("index"))
    timed = verdict in (Verdict.PASSED, Verdict.CLOCK_MISMATCH, Verdict.FASTER_THAN_LIGHT)
    name, message = FAILED.get(verdict, (None, ""))
    template = make.make_result(attempt, latencies=[t * dice.uniform(0.99, 1.01) if timed else None for t in times],
                                t_sol=[8.0 * 3**index for index in range(len(times))], verdict=verdict,
                                failed_check=name, message=message, noise=dice.uniform(0.004, 0.02))
    workloads = []
    if verdict is not Verdict.COMPILE_ERROR:
        workloads = [
            each.model_copy(update={"uuid": workload.uuid, "axes": workload.axes,
                                    "max_rel_error": dice.uniform(1e-4, 4e-3)})
            for each, workload in zip(template.workloads, wanted, strict=True)
        ]
    passed = [Check(name=each, status=CheckStatus.PASS) for each in CheckName if each is not name]
    failed = [Check(name=name, status=CheckStatus.FAIL, message=message)] if name else []
    build = BuildReport(
        ok=verdict is not Verdict.COMPILE_ERROR, language=Language(attempt.language), arch="native",
        compiler="g++ 12.2.0", flags=["-O3", "-march=native", "-std=c++20", "-fopenmp"], seconds=dice.uniform(0.2, 0.7),
        log=BUILD_LOG if verdict is Verdict.COMPILE_ERROR else "", sandbox="bubblewrap",
        resources=[KernelResources(name="kernel_launch", arch="native", registers=48, shared_bytes=16_384),
                   KernelResources(name="normalise<8, 4>", arch="native", registers=96, spill_store_bytes=64)]
        if verdict is not Verdict.COMPILE_ERROR else [],
    )
    stamp = make.make_stamp(HardwareName.CPU, device_name="AMD EPYC 9555, 2 of 128 threads", compiler="g++ 12.2.0",
                            python="3.11.2", torch="2.13.0", threads=2, canary_us=[10.1, 10.2])
    return template.model_copy(update={
        "workloads": workloads, "checks": failed + passed, "build": build, "stamp": stamp,
        "started_at": datetime.now(UTC), "runner_log": "runner: loaded kernel.so\nrunner: 240 calls answered\n",
        "seconds": {"build": build.seconds, "correctness": 1.4, "timing": 3.2},
    })

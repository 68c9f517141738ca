"""Baselines as attempts: each problem's reference (eager) and its hand-optimised PyTorch, committed and queued.

They go the same way as an agent's attempt, judged by the same harness on the same device; only their priority and kind
differ. Committing is idempotent: a new commit is made only where the source changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from agentcore.gitstore import AttemptsRepository
from agentcore.problems import load_problem
from agentcore.vocabulary import AttemptRef, HardwareName, Language
from portal.agents.models import Agent
from portal.attempts import intake
from portal.attempts.models import Attempt
from portal.evaluations.models import Evaluation
from portal.problems.models import Problem

BASELINE_AGENT = "baseline"
EAGER = "eager"
HAND_OPTIMISED = "hand-optimised"


def ensure_baselines(
    problem: Problem, hardware: Iterable[HardwareName | str] = (HardwareName.CPU,)
) -> list[Evaluation]:
    """Commit the baselines of ``problem`` where they changed and queue each on every given hardware.

    What was measured on the problem as it is, with this harness version, is not queued again.
    Raises ProblemError where the problem's directory cannot be read.
    """
    agent, _ = Agent.objects.get_or_create(name=BASELINE_AGENT, defaults={"kind": Agent.Kind.BASELINE})
    refs = _commit(problem, agent)
    intake.reconcile([ref.ref for ref in refs])
    evaluations = []
    for ref in refs:
        attempt = Attempt.objects.filter(ref=ref.ref).order_by("-id").select_related("problem", "agent").first()
        if attempt is None:
            continue
        evaluations += [
            intake.schedule(
                attempt, name, priority=Evaluation.Priority.BASELINE, reason="baseline", keep_current=True
            )
            for name in hardware
        ]
    return evaluations


def eager_source(problem_name: str, reference: str, inputs: list[str], outputs: list[str]) -> str:
    """``kernel.py`` in destination-passing style around the problem's reference, unchanged."""
    call = ", ".join(inputs)
    copies = "\n".join(f"    {name}.copy_(results[{index}])" for index, name in enumerate(outputs))
    parameters = ", ".join([*inputs, *(f"_out_{name}" if name in inputs else name for name in outputs)])
    if any(name in inputs for name in outputs):
        copies = "\n".join(
            f"    {'_out_' if name in inputs else ''}{name}.copy_(results[{index}])"
            for index, name in enumerate(outputs)
        )
    return (
        f'"""The reference of {problem_name}, run as it is: the eager baseline."""\n\n'
        f"{reference.rstrip()}\n\n\n"
        f"_reference = run\n\n\n"
        f"def run({parameters}):\n"
        f"    results = _reference({call})\n"
        f"    if isinstance(results, dict):\n"
        f"        results = [results[name] for name in {outputs!r}]\n"
        f"    elif not isinstance(results, (tuple, list)):\n"
        f"        results = [results]\n"
        f"{copies}\n"
    )


def _commit(problem: Problem, agent: Agent) -> list[AttemptRef]:
    files = load_problem(problem.directory())
    sources = {
        EAGER: eager_source(
            problem.name, files.reference, list(files.definition.inputs), list(files.definition.outputs)
        ).encode()
    }
    hand_optimised = problem.directory() / "baseline.py"
    if hand_optimised.is_file():
        sources[HAND_OPTIMISED] = hand_optimised.read_bytes()
    subjects = {EAGER: "The reference, run eagerly", HAND_OPTIMISED: "The hand-optimised PyTorch baseline"}
    refs = []
    with AttemptsRepository.open(Path(settings.ATTEMPTS_REPOSITORY)) as repository:
        for slug, source in sources.items():
            ref = AttemptRef(problem.name, Language.TORCH, agent.name, slug)
            content = {Language.TORCH.source_name: source}
            tip = repository.resolve(ref.ref)
            if tip is None or repository.read_kernel(tip, ref) != content:
                repository.commit_attempt(ref, content, subjects[slug])
            refs.append(ref)
    return refs

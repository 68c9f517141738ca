"""What ``confined`` starts in the sandbox: a line of JSON for each workload and hardware; all else goes to stderr."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main(directory: str, asked: str) -> None:
    """Load the problem in ``directory`` and bound its workloads as ``asked`` (JSON: ``gpu``, ``cpu_rates``) says."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a reference prints is not the answer
    os.nice(10)
    try:
        _answer(Path(directory), json.loads(asked), answer)
    except BaseException as error:  # whatever a stranger's code raises, SystemExit included
        _say(answer, trouble=f"{type(error).__name__}: {error}".replace(f"{directory}: ", ""))
    answer.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that a reference left behind do not hold us


def _answer(directory: Path, asked: dict[str, Any], answer: Any) -> None:
    from agentcore.importing import kept_for_good

    with kept_for_good():
        from agentcore.bounds.bound import BoundUnavailable, bound_from_work
        from agentcore.bounds.count import count
        from agentcore.bounds.cpu import CpuRates
        from agentcore.problems.loading import load_problem
        from agentcore.problems.tensors import InputFactory
        from agentcore.vocabulary import HardwareName

    problem = load_problem(directory)
    factory = InputFactory(problem, "cpu")
    rates = CpuRates.model_validate(asked["cpu_rates"]) if asked["cpu_rates"] else None
    gpus = [HardwareName(name) for name in asked["gpu"]]
    cpus = [HardwareName.CPU] if rates else []
    lists = [(problem.workloads, gpus if problem.cpu_workloads else [*gpus, *cpus]), (problem.cpu_workloads, cpus)]
    for workloads, hardware in lists:
        for workload in workloads if hardware else ():
            try:
                work = count(problem, workload, factory)
            except BoundUnavailable as error:
                for each in hardware:
                    _say(answer, uuid=workload.uuid, hardware=each.value, trouble=str(error))
                continue
            for each in hardware:
                record = bound_from_work(problem, workload, each, work, cpu_rates=rates)
                _say(answer, uuid=workload.uuid, hardware=each.value, bound=record.model_dump(mode="json"))


def _say(answer: Any, **fields: Any) -> None:
    answer.write(json.dumps(fields) + "\n")
    answer.flush()

"""What ``trial`` starts in the sandbox. Prints its outcome as the last line; everything else goes to stderr."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MARK = "kernelyard-trial "
"""What stands before the outcome, on a line of its own."""


def main(directory: str) -> None:
    """Load the one problem in ``directory``, make inputs of its one workload, run the reference."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what a reference prints is not the answer
    said = _tried(Path(directory))
    os.write(answer, f"\n{MARK}{said}\n".encode("utf-8", "replace"))
    sys.stderr.flush()
    os._exit(0)  # threads that a reference left behind do not hold us


def _tried(directory: Path) -> str:
    import torch

    from agentcore.problems.loading import load_problem
    from agentcore.problems.tensors import InputFactory

    try:
        problem = load_problem(directory)
        workload = problem.workloads[0]
        factory = InputFactory(problem, "cpu")
        inputs = factory.make(workload, torch.Generator().manual_seed(0))
        factory.reference(inputs, workload)
    except BaseException as error:  # whatever a stranger's code raises, SystemExit included
        return f"{type(error).__name__}: {error}".replace(f"{directory}: ", "")
    return "ran"

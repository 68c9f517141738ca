"""What ``trial`` starts in the sandbox. Prints an outcome for each workload; everything else goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

MARK = "kernelyard-trial "
"""What stands before the outcome, on a line of its own."""


def main(directory: str) -> None:
    """Load the one problem in ``directory``; for each workload make inputs and run the reference, until it fails."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what a reference prints is not the answer
    for said in _tried(Path(directory)):
        os.write(answer, f"\n{MARK}{said}\n".encode("utf-8", "replace"))
    sys.stderr.flush()
    os._exit(0)  # threads that a reference left behind do not hold us


def _tried(directory: Path) -> Iterator[str]:
    from agentcore.importing import kept_for_good

    with kept_for_good():
        import torch

        from agentcore.problems.loading import load_problem
        from agentcore.problems.tensors import InputFactory

    try:
        problem = load_problem(directory)
        factory = InputFactory(problem, "cpu")
        for workload in problem.workloads:
            inputs = factory.make(workload, torch.Generator().manual_seed(0))
            factory.reference(inputs, workload)
            yield "ran"
    except BaseException as error:  # whatever a stranger's code raises, SystemExit included
        yield f"{type(error).__name__}: {error}".replace(f"{directory}: ", "")

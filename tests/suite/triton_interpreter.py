"""Runs a Triton starting kernel in Triton's interpreter, on the CPU: prints what share of each output is right.

``python triton_interpreter.py PROBLEM_DIR KERNEL.py AXES…`` with each AXES as JSON. A line of JSON per output and
AXES. A process of its own, because Triton decides when it is imported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

from interpreted import load_kernel, print_matches

from agentcore.problems import load_problem


def main() -> None:
    problem = load_problem(Path(sys.argv[1]))
    kernel = load_kernel(sys.argv[2])
    print_matches(problem, sys.argv[3:], lambda inputs, outputs: kernel.run(*inputs, *outputs))


main()

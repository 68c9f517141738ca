"""What a judge frees it need not fetch page by page again."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
import sys
import torch
from agentcore.judge.heap import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
wanted = torch.ones(1 << 20)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        error = (wanted - 1).abs()
        allowed = wanted.abs() * 0.1 + 0.1
        assert not (error > allowed).any()
        del error, allowed
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
"""


def test_tensors_that_a_comparison_drops_cost_no_page_faults_the_next_time() -> None:
    def faults(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True).stdout)

    assert 4 * faults("kept") < faults("given back")

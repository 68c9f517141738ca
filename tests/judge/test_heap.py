"""What a judge frees it need not fetch page by page again."""

from __future__ import annotations

import os
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

for _ in range(4):
    faults()
print(faults())
"""


def test_tensors_that_a_comparison_drops_cost_no_page_faults_the_next_time() -> None:
    # Left to itself the library adapts these as it goes, so that what it does differs from run to run.
    by_default = "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072"

    def faults(how: str) -> int:
        return int(subprocess.run(
            [sys.executable, "-c", PROGRAM, how], env={**os.environ, "GLIBC_TUNABLES": by_default}, check=True,
            capture_output=True,
        ).stdout)

    # Now and then one more block of 4 MiB is touched.
    assert faults("kept") < 2048 < 8192 < faults("given back")

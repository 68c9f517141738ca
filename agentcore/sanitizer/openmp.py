"""Which of a program's OpenMP constructs ThreadSanitizer cannot follow, so that what it says of them is noise.

``program/openmp_order.cpp`` explains parallel regions, loops, sections, barriers and critical sections to it.
"""

from __future__ import annotations

import re
from pathlib import Path

from agentcore.sandbox import Limits, Sandbox

# These hand out work or answer questions, and order nothing.
_HARMLESS = re.compile(
    r"GOMP_(?:loop_\w*(?:start|next)|loop_end_nowait|single_start|sections_(?:start|next|end_nowait)|cancel\w*)\Z"
    r"|omp_(?:get|set_num|set_dynamic|set_schedule|in_)\w*\Z"
)
_RUNTIME = re.compile(r"(GOMP_\w+|omp_\w+)(?:@@?\S+)?\Z")


def not_followed(program: Path, sandbox: Sandbox) -> list[str]:
    """Functions of libgomp that ``program`` calls past openmp_order.cpp and that order threads. Needs nm.

    Raises SandboxError.
    """
    done = sandbox.run(
        ["nm", "-D", "--undefined-only", "-j", str(program)], readable=[program.parent],
        limits=Limits(wall_s=20, output_bytes=1 << 20), python=False,
    )
    called = set()
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        match = _RUNTIME.match(line.strip())
        if match and not _HARMLESS.match(match[1]):
            called.add(match[1][:80])
    return sorted(called)

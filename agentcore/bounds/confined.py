"""Bounds of a whole problem, counted in a sandbox: for problems that nobody has looked at yet, and without torch here.

Counting runs the reference and the input generators. The judge does that in its own process; here they get one of their
own, without network or files. What it answers is the word of that process: checked for form, shown, used for no score.
"""

from __future__ import annotations

import io
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from agentcore.bounds.cpu import CpuRates
from agentcore.build.log import LOG_BYTES, clean_log, clean_text
from agentcore.judge.result import BoundRecord
from agentcore.problems.problem import Problem
from agentcore.problems.trial import INSIDE, PACKAGE, lay_out
from agentcore.sandbox import GIB, MIB, Bind, Limits, Sandbox, SandboxError
from agentcore.scratch import locked_directory, sweep_directories, unwound_on_sigterm
from agentcore.vocabulary import HardwareName

_MAIN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from agentcore.bounds.confined_main import main; "
    "main(sys.argv[2], sys.argv[3])"
)
_MESSAGE, _LONGEST = 400, 64 * 1024
_PREFIX, _STALE_S = "kernelyard-bounds-", 60.0


@dataclass(slots=True)
class Bounds:
    """``records`` by (uuid, hardware), and for the others ``troubles``: why there is none.

    ``trouble`` is why the run as a whole ended early, empty where it did not. It may be worth another try where
    ``transient``.
    """

    records: dict[tuple[str, HardwareName], BoundRecord] = field(default_factory=dict)
    troubles: dict[tuple[str, HardwareName], str] = field(default_factory=dict)
    trouble: str = ""
    transient: bool = False


def confined_bounds(
    problem: Problem, sandbox: Sandbox, gpus: Sequence[HardwareName], cpu_rates: CpuRates | None, *, wall_s: float
) -> Bounds:
    """T_SOL of the public workloads of ``problem``: its GPU list on every one of ``gpus``, its CPU list at
    ``cpu_rates`` (None: not at all).

    Never raises for what the problem does; what was answered before it failed or ``wall_s`` seconds passed is kept.
    """
    found = Bounds()
    if sandbox.kind == "none":
        found.trouble = "this host confines nothing, and a problem that nobody looked at is not run without a sandbox"
        return found
    asked = {"gpu": [each.value for each in gpus], "cpu_rates": cpu_rates and cpu_rates.model_dump(mode="json")}
    limits = Limits(
        memory_bytes=8 * GIB, processes=256, file_bytes=GIB, wall_s=wall_s, output_bytes=64 * MIB, tmp_bytes=GIB
    )
    try:
        scratch = Path(tempfile.gettempdir())
        # What a process left that was killed outright.
        sweep_directories(scratch, _PREFIX, _STALE_S)
        with unwound_on_sigterm(), locked_directory(scratch, _PREFIX) as root:
            binds = lay_out(problem, root, problem.workloads, problem.cpu_workloads)
            done = sandbox.run(
                [sys.executable, "-I", "-B", "-c", _MAIN, str(INSIDE), str(INSIDE / "problem"), json.dumps(asked)],
                readable=[Bind(PACKAGE, INSIDE / "agentcore"), Bind(root, INSIDE / "problem"), *binds],
                env={"OMP_NUM_THREADS": "1"},
                limits=limits,
            )
    except (SandboxError, OSError) as error:
        found.trouble, found.transient = f"no sandbox to count them in: {clean_text(str(error))}"[:_MESSAGE], True
        return found
    _read(found, problem, io.BytesIO(done.stdout))
    if done.timed_out:
        found.trouble = f"counting did not end within {wall_s:.0f} s"
    elif done.memory_message:
        found.trouble = clean_text(done.memory_message)[:_MESSAGE]
    elif done.returncode and not found.trouble:
        lines = clean_log(done.stderr[-LOG_BYTES:]).split("\n")
        last = next((line for line in reversed(lines) if line.strip()), f"it ended with {done.returncode}")
        found.trouble, found.transient = last.strip()[:_MESSAGE], True
    return found


def _read(found: Bounds, problem: Problem, lines: Iterable[bytes]) -> None:
    """Take what fits: a known workload, a hardware, a finite bound, nothing longer than honest ones are, nor more."""
    known = {workload.uuid for workload in (*problem.workloads, *problem.cpu_workloads)}
    most = len(known) * len(HardwareName) + 1
    for number, line in enumerate(lines):
        if number == most:
            # 64 MiB of short lines took this process a quarter of an hour.
            found.trouble = f"it gave more than the {most} answers that were asked for"
            return
        if len(line) > _LONGEST:
            continue
        try:
            answer = json.loads(line)
            if "hardware" not in answer:
                found.trouble = clean_text(str(answer["trouble"]))[:_MESSAGE]
                continue
            key = (str(answer["uuid"]), HardwareName(answer["hardware"]))
            if key[0] not in known:
                continue
            if "bound" in answer:
                record = BoundRecord.model_validate(answer["bound"])
                if record.t_sol_us > 0 and record.hardware is key[1] and _is_finite(record):
                    found.records[key] = record
            else:
                found.troubles[key] = clean_text(str(answer["trouble"]))[:_MESSAGE]
        except (ValidationError, ValueError, KeyError, TypeError, RecursionError):
            continue


def _is_finite(record: BoundRecord) -> bool:
    """Whether every number is one that a page can show."""
    parts = (record.flops, record.bytes_moved, record.resource_us, record.rates, record.ceilings)
    try:
        return all(map(math.isfinite, (record.t_sol_us, *(value for part in parts for value in part.values()))))
    except OverflowError:  # a whole number beyond every float
        return False

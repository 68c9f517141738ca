"""Run a reference and its input generator once, in a sandbox, so that an import or a check knows whether they work.

The judge runs references in its own process, because the operator chose them. A collection that was just fetched has
not been looked at yet, so here they get a process of their own without network, files or time to waste. What it says is
the word of that process; it is shown, and decides nothing.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcore.build.log import clean_log, clean_text
from agentcore.problems.blobs import find_blob, missing_blobs, starts_like_safetensors
from agentcore.problems.problem import Problem
from agentcore.problems.trial_main import MARK
from agentcore.problems.workload import SafetensorsInput, Workload
from agentcore.sandbox import GIB, MIB, Bind, Limits, Sandbox, SandboxError
from agentcore.scratch import locked_directory, sweep_directories, unwound_on_sigterm

MAX_TENSOR_BYTES = GIB
"""A workload whose inputs and outputs are together larger is not tried."""

_MAX_SECOND_BYTES = 16 * MIB
"""Of a second workload, which only shows that the reference follows the sizes and must not take long."""

PACKAGE = Path(__file__).resolve().parents[1]
INSIDE = Path("/tmp/kernelyard")  # noqa: S108  the sandbox's own
_LIMITS = Limits(memory_bytes=8 * GIB, processes=256, file_bytes=GIB, wall_s=120, output_bytes=64 * 1024)
_PREFIX, _STALE_S = "kernelyard-trial-", 60.0
_NEEDS_DEVICE = re.compile(
    r"cuda|not implemented for|no kernel image|scaled_mm|scaling configuration|not compiled with|triton|flashinfer",
    re.IGNORECASE,
)
_MAIN = "import sys; sys.path.insert(0, sys.argv[1]); from agentcore.problems.trial_main import main; main(sys.argv[2])"


@dataclass(frozen=True, slots=True)
class Trial:
    """``outcome``: ``ran``, ``failed``, or ``skipped`` where this host cannot tell; ``message`` says why."""

    outcome: str
    message: str = ""
    workload: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome != "failed"


def try_reference(problem: Problem, sandbox: Sandbox) -> Trial:
    """Make the inputs of the smallest workload that can run here and call the reference with them, on the CPU; then
    those of a larger one that is small all the same. Outputs must be as the judge takes them: their number, shapes and
    dtypes those of the definition, where other floats than it says are converted.

    Where the sandbox itself fails the outcome is ``failed`` as well: nothing is known, so nothing is passed.
    """
    workload = _smallest(problem)
    if workload is None:
        return Trial("skipped", "the data files of its workloads are absent")
    tried = [workload, *_second(problem, workload)]
    size = tensor_bytes(problem, workload)
    if size > MAX_TENSOR_BYTES:
        return Trial("skipped", f"its smallest workload has {size / GIB:.1f} GiB of tensors", workload.uuid)
    try:
        scratch = Path(tempfile.gettempdir())
        # What an import left that was killed outright.
        sweep_directories(scratch, _PREFIX, _STALE_S)
        with unwound_on_sigterm(), locked_directory(scratch, _PREFIX) as root:
            binds = lay_out(problem, root, tried)
            done = sandbox.run(
                [sys.executable, "-I", "-B", "-c", _MAIN, str(INSIDE), str(INSIDE / "problem")],
                readable=[Bind(PACKAGE, INSIDE / "agentcore"), Bind(root, INSIDE / "problem"), *binds],
                env={"OMP_NUM_THREADS": "2"},
                limits=_LIMITS,
            )
    except (SandboxError, OSError) as error:
        return Trial("failed", f"could not be tried: {clean_text(str(error))}", workload.uuid)
    answers = clean_log(done.stdout).split(MARK)[1:]
    for each, said in zip(tried, answers, strict=False):
        if said.strip() != "ran":
            return _failed(" ".join(said.split())[:400], each)
    if len(answers) >= len(tried) or (answers and (done.timed_out or done.memory_message)):
        # What a second workload takes in time and memory is no fault.
        return Trial("ran", workload=workload.uuid)
    workload = tried[len(answers)]
    if done.timed_out:
        return Trial("failed", f"did not end within {_LIMITS.wall_s:.0f} s", workload.uuid)
    if done.memory_message:
        return Trial("failed", clean_text(done.memory_message), workload.uuid)
    return _failed(_last_line(clean_log(done.stderr)) or f"ended with {done.returncode}", workload)


def _failed(message: str, workload: Workload) -> Trial:
    if _NEEDS_DEVICE.search(message):
        return Trial("skipped", f"it may need a GPU or a library that is not here: {message}", workload.uuid)
    return Trial("failed", message, workload.uuid)


def tensor_bytes(problem: Problem, workload: Workload) -> int:
    """Bytes of all inputs and outputs of ``workload``."""
    definition = problem.definition
    axes = definition.axis_values(workload.axes)
    specs = (*definition.inputs.values(), *definition.outputs.values())
    return sum(math.prod(definition.shape(spec, axes) or ()) * spec.itemsize for spec in specs)


def _smallest(problem: Problem) -> Workload | None:
    return min(_candidates(problem), key=lambda workload: tensor_bytes(problem, workload), default=None)


def _second(problem: Problem, first: Workload) -> list[Workload]:
    """The largest that is still small and of other sizes than ``first``; none where there is no such one."""
    sizes = {w.uuid: tensor_bytes(problem, w) for w in _candidates(problem)}
    small = [w for w in _candidates(problem) if w.axes != first.axes and sizes[w.uuid] <= _MAX_SECOND_BYTES]
    return sorted(small, key=lambda workload: sizes[workload.uuid])[-1:]


def _candidates(problem: Problem) -> list[Workload]:
    absent = missing_blobs(problem)
    return [w for w in problem.cpu_workloads or problem.workloads if w.uuid not in absent]


def lay_out(
    problem: Problem, root: Path, workloads: Sequence[Workload], cpu_workloads: Sequence[Workload] = ()
) -> list[Bind]:
    """Write the problem with these workloads below ``root``; what must be shown beside it are the data files.

    A workload whose data files are absent is written without them, and so is one that names a file of another kind:
    a path can lead to any file beside the collection or above it, and a reference could tell what it reads there.
    """
    root.chmod(0o755)
    definition = problem.definition.model_dump(mode="json") | {"reference": problem.reference}
    (root / "definition.json").write_text(json.dumps(definition))
    for name, rows in (("workload.jsonl", workloads), ("workload.cpu.jsonl", cpu_workloads)):
        if rows:
            (root / name).write_text("".join(json.dumps(row.model_dump(mode="json")) + "\n" for row in rows))
    binds: list[Bind] = []
    sources = [source for row in (*workloads, *cpu_workloads) for source in row.inputs.values()]
    for number, path in enumerate(sorted({s.path for s in sources if isinstance(s, SafetensorsInput)})):
        file = find_blob(problem.root, path)
        if file is None:
            continue
        with file.open("rb") as opened:
            if not starts_like_safetensors(opened.read(9)):
                continue
        link, inside = root / path, INSIDE / f"blob{number}.safetensors"
        link.parent.mkdir(parents=True, exist_ok=True)
        if file.stat().st_mode & 0o004:
            link.symlink_to(inside)
            binds.append(Bind(file.resolve(), inside))
        else:  # the sandbox's user may not read it where it is
            shutil.copyfile(file, link)
            link.chmod(0o644)
    for directory in (path for path in root.rglob("*") if path.is_dir()):
        directory.chmod(0o755)
    return binds


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:400] if lines else ""

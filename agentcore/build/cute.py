"""Compiling a CuTe DSL kernel for a GPU that is not here, by calling it in a sandbox where a launch does nothing.

Where the GPU is here nothing is compiled ahead: the runner's first call does that. The kernel's Python shares the
process that reports on it, so unlike nvcc's this report is a claim; it is good for preparing work, and for no score.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from agentcore.build.compile import Build
from agentcore.build.frameworks import framework_version
from agentcore.build.log import bounded_log, clean_log
from agentcore.build.resources import parse_ptxas
from agentcore.build.source import SourceError, read_source
from agentcore.judge.result import BuildReport
from agentcore.problems import Problem, Workload
from agentcore.sandbox import GIB, Limits, Sandbox
from agentcore.vocabulary import HardwareName, Language

_MAIN = Path(__file__).with_name("cute_main.py")
# What ptxas -v says, in the log.
_OPTIONS = "remarks{ptx}"
_LIMITS = Limits(
    memory_bytes=16 * GIB, processes=256, file_bytes=GIB, cpu_s=240, wall_s=300, tmp_bytes=GIB, output_bytes=4 << 20
)


def compile_cute(source_dir: Path, problem: Problem, hardware: HardwareName, sandbox: Sandbox) -> Build:
    """Compile what ``kernel.py`` compiles for every workload of ``problem``, held-out ones aside, for ``hardware``.

    A kernel at fault gives a report that is not ``ok``. Raises FrameworkMissing and SandboxError.
    """
    version = framework_version(Language.CUTE)
    try:
        read_source(source_dir, Language.CUTE)
    except SourceError as error:
        return Build(BuildReport(ok=False, language=Language.CUTE, log=str(error), sandbox=sandbox.kind), None)
    wanted = {
        "path": str(source_dir.absolute() / Language.CUTE.source_name),
        "calls": [_arguments(problem, workload) for workload in problem.workloads_for(hardware)],
    }
    started = time.monotonic()
    done = sandbox.run(
        [sys.executable, "-I", "-B", "-c", _MAIN.read_text()], readable=[source_dir.absolute()], limits=_LIMITS,
        input=json.dumps(wanted).encode(), merge_stderr=True,
        env={
            "CUTE_DSL_ARCH": hardware.arch, "CUTE_DSL_COMPILER_OPT": _OPTIONS, "CUTE_DSL_DISABLE_FILE_CACHING": "1",
            "NO_COLOR": "1",
        },
    )
    text = clean_log(done.stdout).replace(f"{source_dir.absolute()}/", "")
    resources = parse_ptxas(text)
    ok = done.returncode == 0 and bool(resources)
    if done.timed_out:
        text = f"compiling was stopped after {done.seconds:.0f} s\n{text}".rstrip()
    elif done.returncode == 0 and not resources:
        text = f"error: run() was called for every workload and compiled no kernel\n{text}".rstrip()
    log, cut = bounded_log(text)
    report = BuildReport(
        ok=ok, language=Language.CUTE, arch=hardware.arch, compiler=version, flags=[_OPTIONS],
        seconds=round(time.monotonic() - started, 4), log=log, log_truncated=cut or done.truncated,
        resources=resources if ok else [], sandbox=sandbox.kind,
    )
    return Build(report, None, timed_out=done.timed_out)


def _arguments(problem: Problem, workload: Workload) -> list[dict[str, Any]]:
    """What ``run`` is called with: inputs, then outputs, tensors by shape and scalars by value."""
    definition = problem.definition
    axes = definition.axis_values(workload.axes)
    found: list[dict[str, Any]] = []
    for name, spec in (*definition.inputs.items(), *definition.outputs.items()):
        shape = definition.shape(spec, axes)
        if shape is None:
            made = workload.inputs.get(name)
            found.append({"value": getattr(made, "value", 1)})
        else:
            found.append({"shape": list(shape), "dtype": spec.dtype})
    return found

"""Compiling a CuTe DSL kernel for a GPU that is not here, by calling it in a sandbox where a launch does nothing.

Where the GPU is here nothing is compiled ahead: the runner's first call does that. The kernel's Python shares the
process that reports on it, so this report is a claim; it is good for preparing work, and for no score.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from agentcore.build.cache import BuildCache
from agentcore.build.compile import BUILD_VERSION, Build
from agentcore.build.files import write_tree
from agentcore.build.frameworks import framework_version
from agentcore.build.log import bounded_log, clean_log
from agentcore.build.resources import MAX_NAME, parse_ptxas
from agentcore.build.source import SourceError, read_source
from agentcore.judge.result import BuildReport, KernelResources
from agentcore.problems import Problem, Workload
from agentcore.sandbox import GIB, Completed, Limits, Sandbox
from agentcore.vocabulary import HardwareName, Language

_MAIN = Path(__file__).with_name("cute_main.py")
# What ptxas -v says, in the log.
_OPTIONS = "remarks{ptx}"
_LIMITS = Limits(
    memory_bytes=16 * GIB, processes=256, file_bytes=GIB, cpu_s=1200, wall_s=300, tmp_bytes=GIB, output_bytes=4 << 20
)
_MULTIPROCESSORS = {HardwareName.B200: 148, HardwareName.H200: 132, HardwareName.H100: 132}
"""Of the SXM boards (NVIDIA's datasheets): what a persistent kernel sizes its grid by."""
_SHARED_BYTES = 227 << 10
"""Most shared memory of a block, on each of them (CUDA C++ Programming Guide, compute capabilities 9.0 and 10.0)."""
_DYNAMIC = re.compile(r"^launched with (\d{1,12}) bytes of dynamic shared memory: (\S+)$", re.M)


def compile_cute(
    source_dir: Path, problem: Problem, hardware: HardwareName, sandbox: Sandbox, *, cache_dir: Path
) -> Build:
    """Compile what ``kernel.py`` compiles for every workload of ``problem``, held-out ones aside, for ``hardware``.

    A kernel at fault gives a report that is not ``ok``. Raises FrameworkMissing, CacheError and SandboxError.
    """
    version = framework_version(Language.CUTE)
    try:
        files = read_source(source_dir, Language.CUTE)
    except SourceError as error:
        return Build(BuildReport(ok=False, language=Language.CUTE, log=str(error), sandbox=sandbox.kind), None)
    calls = [_arguments(problem, workload) for workload in problem.workloads_for(hardware)]
    device = {
        "arch": hardware.arch, "name": f"NVIDIA {hardware.upper()}", "sms": _MULTIPROCESSORS[hardware],
        "shared_bytes": _SHARED_BYTES,
    }
    main = _MAIN.read_text()
    cache, key = BuildCache(cache_dir), _key(files, calls, device, main, version)
    if cached := cache.get(key):
        return Build(cached[0].model_copy(update={"cached": True, "sandbox": sandbox.kind}), None)
    with cache.workplace() as place:
        source = place / "source"
        write_tree(source, files)
        wanted = {"path": str(source / Language.CUTE.source_name), "calls": calls, "device": device}
        started = time.monotonic()
        done = sandbox.run(
            [sys.executable, "-I", "-B", "-c", main], readable=[source], limits=_LIMITS,
            input=json.dumps(wanted).encode(), merge_stderr=True,
            env={
                "CUTE_DSL_ARCH": hardware.arch, "CUTE_DSL_COMPILER_OPT": _OPTIONS,
                "CUTE_DSL_DISABLE_FILE_CACHING": "1", "NO_COLOR": "1",
            },
        )
        text = clean_log(done.stdout).replace(f"{source}/", "")
        resources = _resources(text)
        ok = done.returncode == 0 and bool(resources)
        log, cut = bounded_log(text if ok else f"{_reason(done)}{text}".rstrip())
        report = BuildReport(
            ok=ok, language=Language.CUTE, arch=hardware.arch, compiler=version, flags=[_OPTIONS], key=key,
            seconds=round(time.monotonic() - started, 4), log=log, log_truncated=cut or done.truncated,
            resources=resources if ok else [], sandbox=sandbox.kind, memory_limit=sandbox.memory_limit,
        )
        if ok:
            cache.put(key, report, b"", place)
    return Build(report, None, timed_out=done.timed_out)


def _reason(done: Completed) -> str:
    """What ended a run that compiled nothing, as a line before its log; nothing where the log says it."""
    if done.timed_out:
        return f"compiling was stopped after {done.seconds:.0f} s\n"
    if done.memory_message:
        return f"error: compiling ran {done.memory_message}\n"
    if done.returncode == 0:
        return "error: run() was called for every workload and compiled no kernel\n"
    if not done.stdout.strip():
        return f"error: Python ended with status {done.returncode} and said nothing\n"
    return ""


def _resources(text: str) -> list[KernelResources]:
    """What ptxas says of each kernel. CuTe DSL's shared memory is dynamic: the launch knows of it, ptxas does not."""
    dynamic: dict[str, int] = {}
    for size, name in _DYNAMIC.findall(text):
        name = name[:MAX_NAME]
        dynamic[name] = max(int(size), dynamic.get(name, 0))
    return [
        kernel.model_copy(update={"shared_bytes": kernel.shared_bytes + dynamic.get(kernel.name, 0)})
        for kernel in parse_ptxas(text)
    ]


def _key(
    files: dict[str, bytes], calls: list[list[dict[str, Any]]], device: dict[str, Any], main: str, version: str
) -> str:
    parts = {
        "build": BUILD_VERSION, "compiler": version, "options": _OPTIONS, "device": device, "calls": calls,
        "python": sys.version, "torch": metadata.version("torch"), "main": main,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _arguments(problem: Problem, workload: Workload) -> list[dict[str, Any]]:
    """What ``run`` is called with: inputs, then outputs, tensors by shape and scalars by value."""
    definition = problem.definition
    axes = definition.axis_values(workload.axes)
    found: list[dict[str, Any]] = []
    for name, spec in definition.inputs.items():
        shape = definition.shape(spec, axes)
        if shape is None:
            found.append({"value": getattr(workload.inputs.get(name), "value", 1)})
        else:
            found.append({"shape": list(shape), "dtype": spec.dtype})
    for spec in definition.outputs.values():
        found.append({"shape": list(definition.shape(spec, axes) or ()), "dtype": spec.dtype})
    return found

"""Building a kernel: from a source tree to a shared object, in the sandbox, once per content.

Not for running what was built. The compiler sees the kernel's files, the generated interface and the toolchain.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agentcore.build.binary import with_resources
from agentcore.build.cache import BuildCache
from agentcore.build.files import empty_file, read_artifact, write_tree
from agentcore.build.header import ABI_VERSION, entry_source, problem_header
from agentcore.build.log import LOG_BYTES, bounded_log, clean_log
from agentcore.build.prebuilt import hidden
from agentcore.build.recipe import ENTRY, Recipe, recipe
from agentcore.build.source import SourceError, read_source
from agentcore.judge.result import BuildReport
from agentcore.problems import Problem
from agentcore.sandbox import GIB, Limits, Sandbox
from agentcore.vocabulary import HardwareName, Language

BUILD_VERSION = 1
"""Raised when the same key would give another result: new ways of building, with the same flags."""

# ptxas says a few hundred bytes per kernel; the log that is kept is cut from this afterwards.
_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Build:
    """The outcome. ``artifact`` is None if the build failed, and for Python languages, which have none."""

    report: BuildReport
    artifact: Path | None
    timed_out: bool = False


def build(
    source_dir: Path,
    problem: Problem,
    language: Language,
    hardware: HardwareName,
    *,
    cache_dir: Path,
    sandbox: Sandbox,
) -> Build:
    """Build the kernel in ``source_dir`` for a problem. A kernel at fault gives a report that is not ``ok``.

    Raises ToolMissing (no compiler), CacheError (cache not writable), SandboxError (no sandbox), and ValueError if
    the language is not made for the hardware. Safe to call from several processes at once.
    """
    try:
        files = read_source(source_dir, language)
    except SourceError as error:
        return Build(BuildReport(ok=False, language=language, log=str(error), sandbox=sandbox.kind), None)
    if not language.is_compiled:
        return _check_python(files[language.source_name], language, sandbox)
    recipe_ = recipe(language, hardware)
    # The generated header wins over a copy that an editor needed in the tree.
    files["problem.h"] = problem_header(problem.definition, language).encode()
    entry = entry_source(problem.definition, language).encode()
    return compile_tree(files, {ENTRY[language]: entry}, language, recipe_, BuildCache(cache_dir), sandbox)


def compile_tree(
    files: Mapping[str, bytes],
    generated: Mapping[str, bytes],
    language: Language,
    recipe_: Recipe,
    cache: BuildCache,
    sandbox: Sandbox,
) -> Build:
    """Compile a kernel's ``files`` and the ``generated`` sources beside them into one artefact, once per content.

    ``recipe_`` decides whether that is a shared object or a program. Raises CacheError and SandboxError.
    """
    key = _key(language, recipe_, files, generated)
    cached = cache.get(key)
    if cached is not None:
        report, artifact = cached
        return Build(report.model_copy(update={"cached": True, "sandbox": sandbox.kind}), artifact)
    with cache.workplace() as place:
        return _compile(place, files, generated, language, recipe_, key, cache, sandbox)


def _compile(
    place: Path,
    files: Mapping[str, bytes],
    generated: Mapping[str, bytes],
    language: Language,
    recipe_: Recipe,
    key: str,
    cache: BuildCache,
    sandbox: Sandbox,
) -> Build:
    source, beside = place / "source", place / "generated"
    write_tree(source, files)
    write_tree(beside, generated)
    out = empty_file(place / "out" / "kernel.so")
    # Relative names, so that messages read kernel.cu:12 and nothing of this host ends up in the artefact.
    command = [
        str(recipe_.compiler.path),
        *recipe_.flags,
        language.source_name,
        *(f"../generated/{name}" for name in generated),
        "-o",
        f"../out/{out.name}",
    ]
    started = time.monotonic()
    done = sandbox.run(
        command,
        readable=[source, beside, *hidden(sandbox, python=False)],
        writable=[out],
        cwd=source,
        limits=replace(recipe_.limits, output_bytes=_READ_BYTES),
        python=False,
        env={"LC_ALL": "C", "LANG": "C"},
        merge_stderr=True,
    )
    log, cut = bounded_log(clean_log(done.stdout))
    report = BuildReport(
        ok=False,
        language=language,
        arch=recipe_.arch,
        compiler=recipe_.compiler.version,
        flags=list(recipe_.flags),
        key=key,
        seconds=round(time.monotonic() - started, 4),
        log=log,
        log_truncated=cut or done.truncated,
        sandbox=sandbox.kind,
        memory_limit=sandbox.memory_limit,
    )
    if done.timed_out or done.returncode == 128 + 24:  # SIGXCPU
        said = f"the compiler was stopped after {done.seconds:.0f} s\n{log}".rstrip()
        return Build(report.model_copy(update={"log": said}), None, timed_out=True)
    if done.returncode != 0:
        said = log or f"the compiler ended with status {done.returncode} and said nothing"
        if done.memory_message:
            said = f"error: the compiler ran {done.memory_message}\n{log}".rstrip()
        return Build(report.model_copy(update={"log": said}), None)
    artifact, reason = read_artifact(out)
    if artifact is None:
        return Build(report.model_copy(update={"log": f"{reason}\n{log}".rstrip()}), None)
    report = report.model_copy(update={"ok": True})
    if language is Language.CUDA:
        report = with_resources(report, artifact, clean_log(done.stdout), place, sandbox)
    return Build(report, cache.put(key, report, artifact, place))


def _key(
    language: Language, recipe_: Recipe, files: Mapping[str, bytes], generated: Mapping[str, bytes]
) -> str:
    parts = {
        "build": BUILD_VERSION,
        "abi": ABI_VERSION,
        "language": language.value,
        "arch": recipe_.arch,
        "compiler": recipe_.compiler.version,
        "flags": recipe_.flags,
        "depends": recipe_.depends,
        "generated": {name: hashlib.sha256(content).hexdigest() for name, content in generated.items()},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_CHECK = """
import sys, traceback
try:
    compile(sys.stdin.buffer.read(), "kernel.py", "exec", dont_inherit=True)
except BaseException as error:
    print("".join(traceback.format_exception_only(type(error), error)), end="")
    sys.exit(1)
"""


def _check_python(source: bytes, language: Language, sandbox: Sandbox) -> Build:
    """Python has no build, but a syntax error is told here rather than by a runner that cannot start."""
    started = time.monotonic()
    limits = Limits(memory_bytes=2 * GIB, processes=16, cpu_s=20, wall_s=20, output_bytes=LOG_BYTES)
    done = sandbox.run([sys.executable, "-I", "-S", "-c", _CHECK], limits=limits, input=source, merge_stderr=True)
    log = clean_log(done.stdout)
    if done.returncode != 0 and not log:
        log = f"kernel.py: Python ended with status {done.returncode} while reading it"
    report = BuildReport(
        ok=done.returncode == 0,
        language=language,
        compiler=f"Python {sys.version.split()[0]}",
        seconds=round(time.monotonic() - started, 4),
        log=log,
        log_truncated=done.truncated,
        sandbox=sandbox.kind,
        memory_limit=sandbox.memory_limit,
    )
    return Build(report, None, timed_out=done.timed_out)

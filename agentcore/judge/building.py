"""The build of an evaluation: from a kernel directory to what the runner loads, and the checks that decides.

Not for compiling (see agentcore.build) nor for running what was built.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentcore.build import Build, build
from agentcore.build.carried import carried
from agentcore.build.cute import compile_cute
from agentcore.build.frameworks import framework_version
from agentcore.judge.findings import Findings
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import BuildReport
from agentcore.official.extension import build_extension
from agentcore.sandbox import Sandbox, find_sandbox
from agentcore.vocabulary import CheckName, Language


def build_kernel(
    request: EvaluationRequest, sandbox: Sandbox, findings: Findings
) -> tuple[BuildReport | None, Path | None]:
    """The compiler's report, and what to load: a shared object, a directory with a kernel.py, or None after a failure.

    Records ``compiles``, ``in-time`` and, for what the file itself shows, ``language-rules``. Raises what
    ``agentcore.build.build`` and, for an official solution, ``build_extension`` raise, and FrameworkMissing.
    """
    language = request.language
    if not language.is_compiled:
        framework_version(language)
        if (request.kernel_dir / language.source_name).is_file():
            return None, request.kernel_dir
        findings.fail(CheckName.COMPILES, f"{language.source_name} is missing")
        return None, None
    request.progress("building")
    built = _build(request, sandbox)
    if built.timed_out:
        findings.fail(CheckName.IN_TIME, f"the compiler did not finish in time: {built.report.log[-300:]}")
        return built.report, None
    findings.record(CheckName.COMPILES, built.artifact is not None, first_error(built.report))
    if request.official is not None:  # what it may call is another harness's rule
        return built.report, built.artifact.parent if built.artifact else None
    if built.artifact is not None and (foreign := carried(built.artifact.read_bytes())):
        findings.fail(CheckName.LANGUAGE_RULES, f"the built kernel carries {foreign}")
        return built.report, None
    return built.report, built.artifact


def compile_kernel(request: EvaluationRequest, sandbox: Sandbox, findings: Findings) -> BuildReport | None:
    """Compile and load nothing, for a language that compiles anywhere. Records what :func:`build_kernel` does."""
    if request.language is not Language.CUTE:
        return build_kernel(request, sandbox, findings)[0]
    request.progress("compiling")
    built = compile_cute(
        request.kernel_dir, request.problem, request.hardware, sandbox, cache_dir=request.cache_dir / "builds"
    )
    if built.timed_out:
        findings.fail(CheckName.IN_TIME, built.report.log[:300])
    else:
        findings.record(CheckName.COMPILES, built.report.ok, first_error(built.report))
    return built.report


def compiles(request: EvaluationRequest) -> bool:
    """Whether the kernel can be built; if so the evaluation finds it cached. For asking before anything is measured.

    Nothing is reported from here either: what cannot be told (no compiler, no sandbox) counts as yes, and the
    evaluation says what is wrong.
    """
    if not request.language.is_compiled:
        return (request.kernel_dir / request.language.source_name).is_file()
    try:
        return _build(request, find_sandbox(request.sandbox)).artifact is not None
    except Exception:
        return True


def _build(request: EvaluationRequest, sandbox: Sandbox) -> Build:
    cache_dir = request.cache_dir / "builds"
    if request.official is not None:
        definition = request.problem.definition
        return build_extension(request.official, definition, request.hardware, cache_dir=cache_dir, sandbox=sandbox)
    return build(
        request.kernel_dir, request.problem, request.language, request.hardware, cache_dir=cache_dir, sandbox=sandbox
    )


def kernel_digest(directory: Path) -> str:
    """SHA-256 over the names and bytes of a kernel directory's files, in name order."""
    digest = hashlib.sha256()
    for file in sorted(p for p in directory.rglob("*") if p.is_file() and not p.is_symlink()):
        name, data = str(file.relative_to(directory)).encode(), file.read_bytes()
        digest.update(len(name).to_bytes(8, "little") + name + len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def first_error(report: BuildReport) -> str:
    """The line of a failed build's log that says why, bounded; empty for a build that worked."""
    if report.ok:
        return ""
    lines = [line for line in report.log.splitlines() if "error" in line.lower()]
    return (lines[0] if lines else report.log[:300] or "the compiler failed without a message")[:500]

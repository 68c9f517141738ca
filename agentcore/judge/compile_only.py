"""Compile-only evaluations: a kernel built for a hardware that need not be here; nothing of it is run or measured.

So work for a B200 can be prepared on any host with the compiler. The result has the verdict ``compiled`` (or says what
kept it from compiling), the compiler's resource report, no workloads and no times. Needs neither torch nor a device.
"""

from __future__ import annotations

import logging
import platform
import time
from datetime import UTC, datetime

from agentcore.build.frameworks import FrameworkMissing
from agentcore.judge.building import compile_kernel, kernel_digest
from agentcore.judge.findings import Findings
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import BuildReport, EnvironmentStamp, EvaluationResult
from agentcore.judge.version import HARNESS_VERSION
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import CheckName, HardwareName

log = logging.getLogger(__name__)


class NothingToCompile(ValueError):
    """The language has no step that could be taken without its device; the message says what to do instead."""


def require_compiler(request: EvaluationRequest) -> None:
    """Raises NothingToCompile unless the kernel can be compiled on a host without the hardware it is for."""
    language = request.language
    if not language.compiles_anywhere or (request.official is not None and not language.is_compiled):
        raise NothingToCompile(
            f"{language} kernels are compiled by running them, so without a {request.hardware} nothing can be said"
            " about one"
        )


def compile_only(request: EvaluationRequest) -> EvaluationResult:
    """Build one kernel for ``request.hardware``. Raises NothingToCompile; whatever else goes wrong is a verdict."""
    require_compiler(request)
    findings, report, sandbox_kind = Findings(), None, ""
    started_at, begun = datetime.now(UTC), time.perf_counter()
    try:
        sandbox = find_sandbox(request.sandbox)
        sandbox_kind = sandbox.kind
        findings.record_sandbox(sandbox.kind)
        report = compile_kernel(request, sandbox, findings)
    except FrameworkMissing as error:
        findings.fail(CheckName.INFRASTRUCTURE, str(error))
    except Exception as error:
        # Ours to mend: a missing compiler, a full disk, no sandbox.
        log.exception("compiling %s for %s failed", request.problem.name, request.hardware)
        findings.fail(CheckName.INFRASTRUCTURE, f"{type(error).__name__}: {error}")
    seconds = round(time.perf_counter() - begun, 6)
    return EvaluationResult(
        problem=request.problem.name, problem_digest=request.problem.digest, language=request.language,
        interface=request.interface,
        hardware=request.hardware, kernel_digest=kernel_digest(request.kernel_dir),
        verdict=findings.verdict(measured=False), message=findings.message(), checks=findings.checks(), build=report,
        stamp=_stamp(request.hardware, report, sandbox_kind), started_at=started_at,
        seconds={"total": seconds, "build": report.seconds if report else 0.0},
    )


def _stamp(hardware: HardwareName, report: BuildReport | None, sandbox: str) -> EnvironmentStamp:
    """Where it was compiled. No device: there was none."""
    return EnvironmentStamp(
        hardware=hardware, host=platform.node(), python=platform.python_version(),
        compiler=report.compiler if report else "", sandbox=sandbox, harness_version=HARNESS_VERSION,
    )

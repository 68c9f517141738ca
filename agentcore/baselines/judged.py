"""A baseline judged on this host without the portal, its result kept under everything that its time depends on.

The result is kept, not compiled code: a directory that one runner writes and a later one reads would be a way from one
candidate to the next. Not for the portal, whose evaluations are rows.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from agentcore.baselines.kinds import BaselineKind
from agentcore.baselines.sources import NoBaseline, baseline_source
from agentcore.build.toolchain import ToolMissing, compiler
from agentcore.judge.command import CannotRun, read_result, write_whole
from agentcore.judge.findings import plain
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult
from agentcore.judge.version import HARNESS_VERSION
from agentcore.problems import Problem
from agentcore.sandbox import SandboxUnavailable, find_sandbox
from agentcore.vocabulary import CheckName, Language, Verdict

if TYPE_CHECKING:
    from agentcore.judge.evaluate import Judge

_TIME_DEPENDS_ON = ("torch", "triton", "flashinfer-python", "flash-attn", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
"""Packages that a baseline's program runs in or is compiled by."""


@dataclass(frozen=True, slots=True)
class FastestBaseline:
    """T_b of one workload, µs, and the kind of baseline that it is the time of."""

    latency_us: float
    kind: BaselineKind


def fastest_baselines(
    judge: Judge, problem: Problem, cache_dir: Path, sandbox: str = "auto"
) -> dict[str, FastestBaseline]:
    """T_b of each workload, by uuid: of the fastest baseline of any kind that this judge verified here.

    ``hand`` is judged where it is not kept, the other kinds count where they are kept (``kernelyard baseline`` judges
    them all); ``eager`` is judged where there would be none else. A baseline that fails is said on standard error and
    never used; one whose measuring was disturbed is judged once more first. Empty where none is verified, or where
    measuring ``hand`` was disturbed both times: eager is no substitute for it.
    """
    results: dict[BaselineKind, EvaluationResult] = {}
    for kind in BaselineKind:
        if (known := kept_baseline(judge, problem, kind, cache_dir, sandbox)) is not None:
            results[kind] = known
    # A kept eager must not stand for a baseline.py that was never judged.
    for kind in (BaselineKind.HAND, BaselineKind.EAGER):
        if kind in results or (results and kind is BaselineKind.EAGER):
            continue
        try:
            result = judge_baseline(judge, problem, kind, cache_dir, sandbox)
            if _was_disturbed(result):
                print(f"kernelyard: measuring the {kind} baseline was disturbed; once more", file=sys.stderr)
                result = judge_baseline(judge, problem, kind, cache_dir, sandbox)
        except NoBaseline:
            continue
        if result.passed:
            results[kind] = result
        else:
            print(
                f"kernelyard: the {kind} baseline did not pass ({result.verdict}): {plain(result.message)[:600]}",
                file=sys.stderr,
            )
            if result.verdict is Verdict.INFRA_ERROR:
                break
    best: dict[str, FastestBaseline] = {}
    for kind, result in results.items():
        for workload in result.workloads:
            us, known_best = workload.latency_us, best.get(workload.uuid)
            if us and (known_best is None or us < known_best.latency_us):
                best[workload.uuid] = FastestBaseline(us, kind)
    return best


def unmeasured_kinds(
    judge: Judge, problem: Problem, cache_dir: Path, sandbox: str = "auto"
) -> list[BaselineKind]:
    """The kinds that every problem has and nobody measured here yet, so that they are in no T_b."""
    common = (BaselineKind.EAGER, BaselineKind.COMPILE)
    return [kind for kind in common if kept_baseline(judge, problem, kind, cache_dir, sandbox) is None]


def _was_disturbed(result: EvaluationResult) -> bool:
    """Whether something else on the device is all that was wrong: nothing that trying again could not mend."""
    return {check.name for check in result.failed_checks()} == {CheckName.QUIET_DEVICE}


def kept_baseline(
    judge: Judge, problem: Problem, kind: BaselineKind, cache_dir: Path, sandbox: str = "auto", *,
    heldout: bool = False,
) -> EvaluationResult | None:
    """The problem's baseline of ``kind`` where it passed here before and nothing that its time depends on changed."""
    try:
        source = baseline_source(problem, kind)
    except NoBaseline:
        return None
    kept = _file(judge, problem, source, cache_dir, sandbox, heldout)
    return _kept(kept, problem, judge.target.device_uuid)


def judge_baseline(
    judge: Judge, problem: Problem, kind: BaselineKind, cache_dir: Path, sandbox: str = "auto", *,
    again: bool = False, heldout: bool = False,
) -> EvaluationResult:
    """The problem's baseline of ``kind``, judged like any kernel; from the cache where it passed there before.

    ``again`` judges it whatever is kept. A failed one is returned too, and not kept. Raises NoBaseline where the
    problem has none of this kind, and CannotRun where the result cannot be kept.
    """
    source = baseline_source(problem, kind)
    kept = _file(judge, problem, source, cache_dir, sandbox, heldout)
    device_uuid = judge.target.device_uuid
    if not again and (known := _kept(kept, problem, device_uuid)) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="kernelyard-baseline-") as directory:
        (Path(directory) / Language.TORCH.source_name).write_bytes(source)
        Path(directory).chmod(0o755)
        result = judge.evaluate(EvaluationRequest(
            problem=problem, kernel_dir=Path(directory), language=Language.TORCH, hardware=judge.hardware,
            cache_dir=cache_dir, sandbox=sandbox, heldout=heldout, first_call_timeout_s=kind.first_call_limit_s,
            progress=lambda text: print(f"  baseline: {text}", file=sys.stderr),
        ))
    if result.passed:
        write_whole(kept, result.model_dump_json(indent=1))
    return result


def _file(
    judge: Judge, problem: Problem, source: bytes, cache_dir: Path, sandbox: str, heldout: bool
) -> Path:
    return cache_dir / "baselines" / f"{problem.name}-{_key(judge, problem, source, sandbox, heldout)}.json"


def _key(judge: Judge, problem: Problem, source: bytes, sandbox: str, heldout: bool) -> str:
    """A digest of all that a baseline's time depends on: program, problem, device, driver, libraries, compiler."""
    try:
        kind = find_sandbox(sandbox).kind
    except SandboxUnavailable:
        kind = sandbox  # the evaluation says what is missing
    stamp = judge.target.stamp(kind, "", [])
    versions = [f"{package}={_version(package)}" for package in _TIME_DEPENDS_ON]
    parts = [
        problem.digest, hashlib.sha256(source).hexdigest(), stamp.device_uuid, stamp.device_name, stamp.driver,
        stamp.torch, stamp.cuda, stamp.python, str(stamp.threads), kind, HARNESS_VERSION, str(heldout),
        *versions, _compiler(),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _compiler() -> str:
    """The C++ compiler that torch.compile calls on the CPU target, and for launchers on a GPU; '' without one."""
    try:
        return compiler(Language.CPP).version
    except ToolMissing:
        return ""


def _kept(file: Path, problem: Problem, device_uuid: str) -> EvaluationResult | None:
    """A baseline from the cache. One that is damaged, or not what its name promises, counts as absent."""
    try:
        found = read_result(file)
    except CannotRun:
        return None
    same = found.problem_digest == problem.digest and found.stamp.device_uuid == device_uuid
    return found if same and found.passed and found.language is Language.TORCH else None

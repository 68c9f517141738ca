"""``kernelyard judge``, ``verify`` and ``devices``: the judge on a bare host, results as a table and as JSON."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from agentcore.bounds.score import geomean, sol_score
from agentcore.judge.building import build_ahead
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult, WorkloadResult
from agentcore.judge.version import HARNESS_VERSION
from agentcore.problems import Problem, ProblemError, load_problem
from agentcore.vocabulary import HardwareName, Language, Verdict

if TYPE_CHECKING:
    from agentcore.judge.evaluate import Judge

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

class CannotRun(Exception):
    """What was asked for cannot be done here; the message says why and what to change. Exit status 2."""


PROVENANCE = ("result.json", "solution.json")
"""What stands beside a published kernel and was not part of it."""

RUN_TO_RUN = {True: 0.05, False: 0.25}
"""How much a geometric-mean latency may move between two runs beyond both intervals: GPU, CPU (shared machines)."""


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommands."""
    judge = subparsers.add_parser("judge", help="judge one kernel directory", description=_judge.__doc__)
    judge.add_argument("problem_dir", type=Path)
    judge.add_argument("kernel_dir", type=Path)
    judge.add_argument("--language", type=Language, required=True, choices=list(Language))
    _common(judge)
    judge.add_argument(
        "--baseline", default="auto",
        help="auto: judge the problem's baseline.py first (kept in the cache); none; or an evaluation's JSON file",
    )
    judge.add_argument("--no-heldout", action="store_true", help="leave the held-out shapes out")
    judge.add_argument(
        "--compile-only", action="store_true",
        help="build for --hardware and measure nothing; what is done anyway for a GPU class that is not here",
    )
    judge.add_argument("--quick", action="store_true", help="few calls: for a look, not for a record")
    judge.set_defaults(run=partial(_run, _judge))
    verify = subparsers.add_parser("verify", help="re-measure a cloned solution", description=_verify.__doc__)
    verify.add_argument("solution_dir", type=Path)
    _common(verify)
    verify.set_defaults(run=partial(_run, _verify))
    devices = subparsers.add_parser("devices", help="what this host can measure on", description=_devices.__doc__)
    devices.add_argument("--json", type=Path, metavar="OUT")
    devices.set_defaults(run=partial(_run, _devices))


def _run(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    try:
        return command(arguments)
    except (CannotRun, ProblemError) as error:
        print(f"kernelyard {arguments.command}: {error}", file=sys.stderr)
        return 2


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), default=None)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the whole result here")
    parser.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    parser.add_argument(
        "--sandbox", default="auto", choices=["auto", "bubblewrap", "unshare", "none"],
        help="none runs candidates unconfined: only for code you trust, and never mergeable",
    )


def _judge(arguments: argparse.Namespace) -> int:
    """Build, verify and time one kernel against its problem. Exit status 0 where it passed, 1 where it did not.

    For a GPU class that this host lacks a kernel is compiled, and nothing else: verdict ``compiled``, exit status 3
    (0 where --compile-only asked for no more).
    """
    from agentcore.judge.devices import is_here

    problem = load_problem(arguments.problem_dir)
    if not arguments.kernel_dir.is_dir():
        raise CannotRun(f"{arguments.kernel_dir} is not a directory; name the one that holds the kernel's source")
    hardware = arguments.hardware or _default_hardware(arguments.language)
    _check_pair(arguments.language, hardware)
    if arguments.compile_only or (arguments.language.is_compiled and not is_here(hardware)):
        return _compile(arguments, problem, hardware)
    given = _read_result(Path(arguments.baseline)) if arguments.baseline not in ("auto", "none") else None
    request = EvaluationRequest(
        problem=problem, kernel_dir=arguments.kernel_dir.resolve(), language=arguments.language, hardware=hardware,
        cache_dir=arguments.cache_dir, sandbox=arguments.sandbox, quick=arguments.quick,
        heldout=not arguments.no_heldout, progress=lambda text: print(f"  {text}", file=sys.stderr),
    )
    with build_ahead(request):
        judge = _judge_for(hardware, arguments.cache_dir)
    baseline = given
    if arguments.baseline == "auto":
        baseline = judged_baseline(judge, problem, arguments.cache_dir, arguments.sandbox)
    result = judge.evaluate(request)
    print(render(result, baseline))
    if arguments.json:
        _write(arguments.json, result.model_dump_json(indent=1))
    return 0 if result.passed else 1


def _compile(arguments: argparse.Namespace, problem: Problem, hardware: HardwareName) -> int:
    from agentcore.judge.compile_only import NothingToCompile, compile_only

    if not arguments.compile_only:
        print(f"  there is no {hardware} on this host: compiling only, measuring nothing", file=sys.stderr)
    try:
        result = compile_only(EvaluationRequest(
            problem=problem, kernel_dir=arguments.kernel_dir.resolve(), language=arguments.language,
            hardware=hardware, cache_dir=arguments.cache_dir, sandbox=arguments.sandbox,
        ))
    except NothingToCompile as error:
        raise CannotRun(str(error)) from error
    print(render_compiled(result))
    if arguments.json:
        _write(arguments.json, result.model_dump_json(indent=1))
    if result.verdict is not Verdict.COMPILED:
        return 1
    return 0 if arguments.compile_only else 3


def _judge_for(hardware: HardwareName, cache_dir: Path) -> Judge:
    from agentcore.judge.evaluate import Judge

    try:
        return Judge(hardware, cache_dir)
    except (RuntimeError, OSError) as error:
        raise CannotRun(str(error)) from error


def _check_pair(language: Language, hardware: HardwareName) -> None:
    if (language is Language.CPP and hardware.is_gpu) or (language is Language.CUDA and not hardware.is_gpu):
        raise CannotRun(f"{language} kernels do not run on {hardware}; give another --language or --hardware")


def _read_result(file: Path) -> EvaluationResult:
    try:
        return EvaluationResult.model_validate_json(file.read_bytes())
    except OSError as error:
        raise CannotRun(f"{file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the whole file"
        raise CannotRun(f"{file} is no evaluation result: {field}: {first['msg']}") from error


def judged_baseline(judge: Judge, problem: Problem, cache_dir: Path, sandbox: str) -> EvaluationResult | None:
    """The problem's own baseline.py, judged like any kernel; kept per problem, device and harness. None without one."""
    source = problem.root / "baseline.py"
    if not source.is_file():
        return None
    # Whatever its time depends on: the program, the device, its driver and the library that runs the program.
    stamp = judge.target.stamp(sandbox, "", [])
    parts = [
        problem.digest, hashlib.sha256(source.read_bytes()).hexdigest(), stamp.device_uuid, stamp.driver, stamp.torch,
        stamp.cuda, sandbox, HARNESS_VERSION,
    ]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    kept = cache_dir / "baselines" / f"{problem.name}-{name}.json"
    if kept.is_file():
        return _read_result(kept)
    with tempfile.TemporaryDirectory(prefix="kernelyard-baseline-") as directory:
        shutil.copy(source, Path(directory) / "kernel.py")
        Path(directory).chmod(0o755)
        result = judge.evaluate(EvaluationRequest(
            problem=problem, kernel_dir=Path(directory), language=Language.TORCH, hardware=judge.hardware,
            cache_dir=cache_dir, sandbox=sandbox, heldout=False,
            progress=lambda text: print(f"  baseline: {text}", file=sys.stderr),
        ))
    if result.passed:
        _write(kept, result.model_dump_json(indent=1))
    else:
        print(f"kernelyard: the baseline did not pass ({result.verdict}): {result.message}", file=sys.stderr)
    return result if result.passed else None


def _verify(arguments: argparse.Namespace) -> int:
    """Re-measure a solution from a clone of the solutions repository and compare it with what it claims.

    Exit status 0 where it passes again and agrees within its stated noise, 1 where it does not.
    """
    directory: Path = arguments.solution_dir.resolve()
    claimed = _read_result(directory / "result.json")
    problem_dir = _find_problem(directory, claimed.problem)
    if problem_dir is None:
        raise CannotRun(f"there is no problems/{claimed.problem} above {directory}; clone the whole repository")
    problem = load_problem(problem_dir)
    hardware = arguments.hardware or claimed.hardware
    _check_pair(claimed.language, hardware)
    judge = _judge_for(hardware, arguments.cache_dir)
    with tempfile.TemporaryDirectory(prefix="kernelyard-verify-") as copy:
        kernel_dir = Path(copy) / "kernel"
        shutil.copytree(directory, kernel_dir, ignore=shutil.ignore_patterns(*PROVENANCE))
        Path(copy).chmod(0o755)
        measured = judge.evaluate(EvaluationRequest(
            problem=problem, kernel_dir=kernel_dir, language=claimed.language, hardware=hardware,
            cache_dir=arguments.cache_dir, sandbox=arguments.sandbox,
            progress=lambda text: print(f"  {text}", file=sys.stderr),
        ))
    print(render(measured, None))
    comparison = compare_with_claim(claimed, measured)
    print(comparison["text"])
    if arguments.json:
        _write(arguments.json, json.dumps({**comparison, "measured": measured.model_dump(mode="json")}, indent=1))
    return 0 if comparison["agrees"] else 1


def compare_with_claim(claimed: EvaluationResult, measured: EvaluationResult) -> dict[str, object]:
    """Whether a re-measurement agrees with a published result within its noise; {"agrees", "ratio", "noise", "text"}.

    ``ratio`` is the geometric mean of measured over claimed latencies. The noise is half of both mean relative
    intervals plus the target's run-to-run allowance. On another device only the verdict can be compared.
    """
    if claimed.kernel_digest and claimed.kernel_digest != measured.kernel_digest:
        text = "DISAGREES: these are not the files that were measured (their digest is another)"
        return {"agrees": False, "ratio": None, "noise": None, "text": text}
    if measured.verdict is not Verdict.PASSED:
        text = f"DISAGREES: claimed {claimed.verdict}, measured {measured.verdict}: {measured.message}"
        return {"agrees": False, "ratio": None, "noise": None, "text": text}
    pairs = _latency_pairs(claimed, measured)
    if not pairs:
        text = "DISAGREES: no workload is in both results"
        return {"agrees": False, "ratio": None, "noise": None, "text": text}
    ratio = geomean([b.latency_us / a.latency_us for a, b in pairs if a.latency_us and b.latency_us])
    noise = RUN_TO_RUN[claimed.hardware.is_gpu] + sum(_spread(a) + _spread(b) for a, b in pairs) / (2 * len(pairs))
    same_device = claimed.stamp.device_name == measured.stamp.device_name
    agrees = not same_device or abs(ratio - 1) <= noise
    word = "agrees" if agrees else "DISAGREES"
    text = f"{word}: passed again; measured/claimed latency {ratio:.3f}, noise ±{noise:.3f}"
    if not same_device:
        text += f" (not comparable: claimed on {claimed.stamp.device_name}, measured on {measured.stamp.device_name})"
    return {"agrees": agrees, "ratio": ratio, "noise": noise, "text": text}


def _latency_pairs(
    claimed: EvaluationResult, measured: EvaluationResult
) -> list[tuple[WorkloadResult, WorkloadResult]]:
    by_uuid = {w.uuid: w for w in measured.workloads if not w.heldout and w.latency_us}
    return [(w, by_uuid[w.uuid]) for w in claimed.workloads if not w.heldout and w.latency_us and w.uuid in by_uuid]


def _spread(workload: WorkloadResult) -> float:
    assert workload.latency_us and workload.latency_low_us is not None and workload.latency_high_us is not None
    return (workload.latency_high_us - workload.latency_low_us) / workload.latency_us


def _devices(arguments: argparse.Namespace) -> int:
    """List the devices of this host, the toolchains and the sandbox."""
    from agentcore.judge.devices import describe_host

    host = describe_host()
    for device in host["devices"]:
        print(f"{device['hardware']:6} {device['uuid']:44} {device['name']}  {device['driver']}")
    print(f"sandbox: {host['sandbox']}")
    for tool in host["missing"]:
        print(f"missing: {tool}")
    if arguments.json:
        _write(arguments.json, json.dumps(host, indent=1))
    return 0


def _default_hardware(language: Language) -> HardwareName:
    from agentcore.judge.devices import local_hardware

    return HardwareName.CPU if language is Language.CPP else local_hardware()


def _find_problem(directory: Path, name: str) -> Path | None:
    for parent in directory.parents:
        candidate = parent / "problems" / name
        if (candidate / "definition.json").is_file():
            return candidate
    return None


def render(result: EvaluationResult, baseline: EvaluationResult | None) -> str:
    """The result as text: verdict, failed checks and a line per workload, with T_b and S where a baseline is known."""
    lines = [f"{result.problem} [{result.language}] on {result.stamp.device_name or result.hardware}: {result.verdict}"]
    if result.message:
        lines.append(f"  {result.message}")
    lines += [f"  {c.status:4} {c.name}: {c.message}" for c in result.failed_checks()]
    base = {w.uuid: w.latency_us for w in baseline.workloads} if baseline else {}
    header = f"{'workload':>44} {'T_k us':>10} {'±':>7} {'T_b us':>10} {'T_SOL us':>10} {'T_b/T_k':>8} {'S':>6}"
    lines.append(header)
    for w in result.workloads:
        name = f"held-out {w.index}" if w.heldout else " ".join(f"{k}={v}" for k, v in w.axes.items())
        t_k, t_b, t_sol = w.latency_us, base.get(w.uuid), w.bound.t_sol_us if w.bound else None
        half = ((w.latency_high_us or 0) - (w.latency_low_us or 0)) / 2
        score = sol_score(t_k, t_b, t_sol) if t_k and t_b and t_sol is not None else None
        lines.append(
            f"{name[:44]:>44} {_number(t_k, 2):>10} {_number(half if t_k else None, 2):>7} {_number(t_b, 2):>10}"
            f" {_number(t_sol, 2):>10} {_number(t_b / t_k if t_b and t_k else None, 2):>8} {_number(score, 3):>6}"
            + ("" if w.verdict is Verdict.PASSED else f"  {w.verdict}")
        )
    lines.append("  " + ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()))
    return "\n".join(lines)


def render_compiled(result: EvaluationResult) -> str:
    """A compile-only result as text: the verdict, what failed, and what each device function uses."""
    lines = [f"{result.problem} [{result.language}] for {result.hardware}: {result.verdict}, never run or measured"]
    lines += [f"  {c.status:4} {c.name}: {c.message}" for c in result.failed_checks()]
    for kernel in result.build.resources if result.build else []:
        lines.append(
            f"  {kernel.name[:80]} [{kernel.arch}]: {kernel.registers} registers, {kernel.spill_store_bytes} +"
            f" {kernel.spill_load_bytes} B spilled, {kernel.shared_bytes} B shared, {kernel.stack_bytes} B stack"
        )
    lines.append("  " + ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()))
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.tmp")
        temporary.write_text(text)
        temporary.replace(file)
    except OSError as error:
        raise CannotRun(f"{file} cannot be written: {error.strerror}") from error

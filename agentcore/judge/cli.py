"""``kernelyard judge``, ``verify`` and ``devices``: the judge on a bare host, results as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcore.baselines.judged import fastest_baselines, unmeasured_kinds
from agentcore.bounds.score import geomean
from agentcore.judge.ahead import build_ahead
from agentcore.judge.building import compiles
from agentcore.judge.command import (
    CannotRun,
    Subparsers,
    add_common,
    check_pair,
    check_tools,
    default_hardware,
    judge_for,
    read_result,
    run_command,
    write_whole,
)
from agentcore.judge.device_lock import device_lease
from agentcore.judge.rendering import render, render_compiled
from agentcore.judge.request import EvaluationRequest
from agentcore.judge.result import EvaluationResult, WorkloadResult
from agentcore.official.candidate import Candidate, candidate, is_made_for
from agentcore.problems import Problem, load_problem
from agentcore.vocabulary import HardwareName, Language, Verdict

if TYPE_CHECKING:
    from agentcore.judge.evaluate import Judge

PROVENANCE = ("result.json", "solution.json")
"""What stands beside a published kernel and was not part of it."""

RUN_TO_RUN = {True: 0.05, False: 0.25}
"""How much a geometric-mean latency may move between two runs beyond both intervals: GPU, CPU (shared machines)."""

TELLING_INTERVALS = 0.25
"""How wide both intervals together may be, relative, for an agreement within them to mean something."""


def add_parser(subparsers: Subparsers) -> None:
    """Add this module's subcommands."""
    judge = subparsers.add_parser("judge", help="judge a kernel or a solution.json", description=_judge.__doc__)
    judge.add_argument("problem_dir", type=Path)
    judge.add_argument(
        "kernel", type=Path, help="a kernel's directory; or an official solution.json, or a directory that holds one"
    )
    judge.add_argument(
        "--language", type=Language, choices=list(Language), help="where the files of a directory do not show it"
    )
    add_common(judge)
    judge.add_argument(
        "--baseline", default="auto",
        help="auto: per workload the fastest verified one of the problem's baseline.py, which is judged first, and of "
        "every kind that `kernelyard baseline` kept in the cache (where there is neither, eager is judged); none; or "
        "an evaluation's JSON file",
    )
    judge.add_argument("--no-heldout", action="store_true", help="leave the held-out shapes out")
    judge.add_argument(
        "--compile-only", action="store_true",
        help="build for --hardware and measure nothing; what is done anyway for a GPU class that is not here",
    )
    judge.add_argument("--quick", action="store_true", help="few calls: for a look, not for a record")
    judge.set_defaults(run=partial(run_command, _judge))
    verify = subparsers.add_parser("verify", help="re-measure a cloned solution", description=_verify.__doc__)
    verify.add_argument("solution_dir", type=Path)
    add_common(verify)
    verify.set_defaults(run=partial(run_command, _verify))
    devices = subparsers.add_parser("devices", help="what this host can measure on", description=_devices.__doc__)
    devices.add_argument(
        "--probe", action="store_true",
        help="try what timing on the first GPU relies on, one step after another, and say what each step saw",
    )
    devices.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    devices.add_argument("--json", type=Path, metavar="OUT")
    devices.set_defaults(run=partial(run_command, _devices))


def _judge(arguments: argparse.Namespace) -> int:
    """Build, verify and time one kernel against its problem. Exit status 0 where it passed, 1 where it did not.

    For a GPU class that this host lacks a kernel is compiled, and nothing else: verdict ``compiled``, exit status 3
    (0 where --compile-only asked for no more).
    """
    problem = load_problem(arguments.problem_dir)
    with candidate(arguments.kernel, arguments.language, problem) as given:
        return _judge_candidate(arguments, problem, given)


def _judge_candidate(arguments: argparse.Namespace, problem: Problem, kernel: Candidate) -> int:
    from agentcore.judge.devices import is_here

    hardware = arguments.hardware or default_hardware(kernel.language)
    check_pair(kernel.language, hardware)
    if kernel.official is not None and not is_made_for(kernel.official, hardware):
        print(f"  target_hardware does not name {hardware}: judged on it all the same", file=sys.stderr)
    if kernel.official is None:  # what such a solution needs was looked for when it was read
        check_tools(kernel.language)
    if arguments.compile_only or (kernel.language.compiles_anywhere and not is_here(hardware)):
        return _compile(arguments, problem, hardware, kernel)
    given = read_result(Path(arguments.baseline)) if arguments.baseline not in ("auto", "none") else None
    request = EvaluationRequest(
        problem=problem, kernel_dir=kernel.kernel_dir, language=kernel.language, hardware=hardware,
        cache_dir=arguments.cache_dir, sandbox=arguments.sandbox, quick=arguments.quick, official=kernel.official,
        heldout=not arguments.no_heldout, progress=lambda text: print(f"  {text}", file=sys.stderr),
    )
    with build_ahead(request):
        judge = judge_for(hardware, arguments.cache_dir)
    fastest = None
    # Before the baselines: a kernel that does not compile is known in seconds.
    if arguments.baseline == "auto" and _compiles(request, judge):
        fastest = fastest_baselines(judge, problem, arguments.cache_dir, arguments.sandbox)
    result = judge.evaluate(request)
    print(render(result, given if fastest is None else fastest))
    if fastest and (unmeasured := unmeasured_kinds(judge, problem, arguments.cache_dir, arguments.sandbox)):
        print(
            f"  T_b is of the baselines measured here; `kernelyard baseline {arguments.problem_dir}` measures"
            f" {' and '.join(unmeasured)} too, which may be faster", file=sys.stderr,
        )
    if arguments.json:
        write_whole(arguments.json, result.model_dump_json(indent=1))
    return 0 if result.passed else 1


def _compiles(request: EvaluationRequest, judge: Judge) -> bool:
    with ExitStack() as stack:
        if judge.target.builds_disturb:
            stack.enter_context(device_lease(judge.target.device_uuid))
        return compiles(request)


def _compile(arguments: argparse.Namespace, problem: Problem, hardware: HardwareName, kernel: Candidate) -> int:
    from agentcore.judge.compile_only import NothingToCompile, compile_only

    if not arguments.compile_only:
        print(f"  there is no {hardware} on this host: compiling only, measuring nothing", file=sys.stderr)
    try:
        result = compile_only(EvaluationRequest(
            problem=problem, kernel_dir=kernel.kernel_dir, language=kernel.language, hardware=hardware,
            cache_dir=arguments.cache_dir, sandbox=arguments.sandbox, official=kernel.official,
        ))
    except NothingToCompile as error:
        raise CannotRun(str(error)) from error
    print(render_compiled(result))
    if arguments.json:
        write_whole(arguments.json, result.model_dump_json(indent=1))
    if result.verdict is not Verdict.COMPILED:
        return 1
    return 0 if arguments.compile_only else 3


def _verify(arguments: argparse.Namespace) -> int:
    """Re-measure a solution from a clone of the solutions repository and compare it with what it claims.

    Exit status 0 where it passes again and agrees within its stated noise, 1 where it does not.
    """
    directory: Path = arguments.solution_dir.resolve()
    if not (directory / "result.json").exists():
        where = "name a solution of a clone, solutions/<problem>/<language>-<hardware>"
        raise CannotRun(f"{directory / 'result.json'} is missing; {where}")
    claimed = read_result(directory / "result.json")
    problem_dir = _find_problem(directory, claimed.problem)
    if problem_dir is None:
        raise CannotRun(f"there is no problems/{claimed.problem} above {directory}; clone the whole repository")
    problem = load_problem(problem_dir)
    hardware = arguments.hardware or claimed.hardware
    check_pair(claimed.language, hardware)
    check_tools(claimed.language)
    judge = judge_for(hardware, arguments.cache_dir)
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
    if figures := _claimed_figures(directory / "solution.json"):
        print(f"claimed: {figures}; no baseline is measured here")
    if arguments.json:
        write_whole(arguments.json, json.dumps({**comparison, "measured": measured.model_dump(mode="json")}, indent=1))
    return 0 if comparison["agrees"] else 1


def compare_with_claim(claimed: EvaluationResult, measured: EvaluationResult) -> dict[str, object]:
    """Whether a re-measurement agrees with a published result within its noise; {"agrees", "ratio", "noise", "text"}.

    ``ratio`` is the geometric mean of measured over claimed latencies. The noise, relative to them, is half of both
    mean relative intervals plus the target's run-to-run allowance. On another device only the verdict can be compared.
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
    intervals = sum(_spread(a) + _spread(b) for a, b in pairs) / (2 * len(pairs))
    noise = RUN_TO_RUN[claimed.hardware.is_gpu] + intervals
    same_device = claimed.stamp.device_name == measured.stamp.device_name
    agrees = not same_device or abs(ratio - 1) <= noise
    word = "agrees" if agrees else "DISAGREES"
    text = f"{word}: passed again, {_against_claim(ratio)} (geometric mean of {len(pairs)} workloads)"
    if not same_device:
        text += f"; not comparable: claimed on {claimed.stamp.device_name}, measured on {measured.stamp.device_name}"
    else:
        text += f"; up to {noise:.0%} either way is the noise of two such runs"
        if intervals > TELLING_INTERVALS:
            text += (
                f"\n  the host was too busy for this to mean much: the two runs' own intervals are {intervals:.0%};"
                " verify again when it is quiet"
            )
    return {"agrees": agrees, "ratio": ratio, "noise": noise, "text": text}


def _against_claim(ratio: float) -> str:
    """The measured over the claimed latency, in words."""
    if abs(ratio - 1) < 0.0005:
        return "as fast as claimed"
    return f"{abs(ratio - 1):.1%} {'slower' if ratio > 1 else 'faster'} than claimed"


def _claimed_figures(file: Path) -> str:
    """Speed-up and SOL score as ``solution.json`` of a published solution states them; empty where it does not."""
    try:
        summary = json.loads(file.read_text("utf-8"))["summary"]
        speedup, score = (summary.get(name) for name in ("speedup", "sol_score"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    said = []
    if isinstance(speedup, float) and math.isfinite(speedup):
        said.append(f"{speedup:.2f} times as fast as the baseline")
    if isinstance(score, float) and math.isfinite(score):
        said.append(f"SOL score {score:.3f}")
    return ", ".join(said)


def _latency_pairs(
    claimed: EvaluationResult, measured: EvaluationResult
) -> list[tuple[WorkloadResult, WorkloadResult]]:
    by_uuid = {w.uuid: w for w in measured.workloads if not w.heldout and w.latency_us}
    return [(w, by_uuid[w.uuid]) for w in claimed.workloads if not w.heldout and w.latency_us and w.uuid in by_uuid]


def _spread(workload: WorkloadResult) -> float:
    assert workload.latency_us and workload.latency_low_us is not None and workload.latency_high_us is not None
    return (workload.latency_high_us - workload.latency_low_us) / workload.latency_us


def _devices(arguments: argparse.Namespace) -> int:
    """List the devices of this host, its compilers and frameworks, and the sandbox; what is missing, with a remedy."""
    from agentcore.judge.devices import describe_host

    host = describe_host()
    for device in host["devices"]:
        print(f"{device['hardware']:6} {device['uuid']:44} {device['name']}  {device['driver']}")
    for language, version in host["toolchains"].items():
        print(f"{language}: {version}")
    print(f"sandbox: {host['sandbox']}")
    print(f"memory limit: {host['memory_limit']}")
    for tool in host["missing"]:
        print(f"missing: {tool}")
    if arguments.probe:
        host["probe"] = _probe(arguments.cache_dir)
    if arguments.json:
        write_whole(arguments.json, json.dumps(host, indent=1))
    return 1 if arguments.probe and not host["probe"]["passed"] else 0


def _probe(cache_dir: Path) -> dict[str, Any]:
    """The steps of probe.probe, on the first GPU. Raises CannotRun where there is none, or no sandbox."""
    from agentcore.judge.cuda_target import CudaTarget
    from agentcore.judge.device_lock import device_lease
    from agentcore.judge.devices import local_hardware
    from agentcore.judge.probe import probe
    from agentcore.sandbox import SandboxUnavailable, find_sandbox

    hardware = local_hardware()
    if not hardware.is_gpu:
        raise CannotRun("--probe needs an NVIDIA GPU of a known class; this host has none")
    try:
        target, sandbox = CudaTarget(hardware, cache_dir), find_sandbox()
    except (RuntimeError, OSError, SandboxUnavailable) as error:
        raise CannotRun(str(error)) from error
    with device_lease(target.device_uuid):
        return probe(target, sandbox)


def _find_problem(directory: Path, name: str) -> Path | None:
    for parent in directory.parents:
        candidate = parent / "problems" / name
        if (candidate / "definition.json").is_file():
            return candidate
    return None

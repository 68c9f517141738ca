"""Beside ncu: what the judge and NVIDIA's profiler say of the same kernels on the same device, both with cold caches.

Three steps on a GPU host::

    ncu --profile-from-start off --cache-control all --clock-control none --csv --page raw --log-file ncu.csv \\
        --metrics gpu__time_duration.sum,sm__cycles_elapsed.avg.per_second python -m tests.bench.profiler launch h200
    kernelyard judge problems/NAME kernels_repo/kernels/NAME/cuda --hardware h200 --json RESULTS/NAME.json   # of each
    python -m tests.bench.profiler compare h200 ncu.csv RESULTS --json OUT

Kernels that a call launches one of. Not a test: it asserts nothing about times.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from pathlib import Path
from typing import Any

from agentcore.judge.result import EvaluationResult
from agentcore.problems import Workload, load_problem
from agentcore.vocabulary import HardwareName, Language

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = {
    "rmsnorm_h4096": (0, 3, 4, 5, 6, 9), "softmax_softcap": (3, 4, 5, 9), "swiglu_gate_i14336": (4, 5, 8),
    "rope_gqa_h32_kv8_d128": (4, 5, 7), "fused_add_rmsnorm_h4096": (4, 5, 9), "gemm_bf16_llama8b": (2, 6, 8, 9, 10),
    "cross_entropy_v128256": (8,),
}
"""Problems, and which of their workloads: from 3 µs to 0.6 ms on an H200."""
LAUNCHES = 9
AGREES_US, AGREES_SHARE = 0.3, 0.02
DURATION, CLOCK = "gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second"


def agrees(ncu_us: float, judge_us: float) -> bool:
    """Whether the two say the same of a kernel."""
    return abs(judge_us - ncu_us) <= max(AGREES_US, AGREES_SHARE * ncu_us)


def chosen(hardware: HardwareName) -> list[tuple[str, Workload]]:
    """The workloads, in the order in which they are launched."""
    found = []
    for name, indices in CHOSEN.items():
        workloads = load_problem(ROOT / "problems" / name).workloads_for(hardware)
        found += [(name, workloads[index]) for index in indices]
    return found


def launch(hardware: HardwareName, cache_dir: Path) -> None:
    """Call each kernel LAUNCHES times on random inputs, with the profiler on. Needs a GPU and nvcc."""
    import torch

    from agentcore.build import build
    from agentcore.judge.layout import Layout
    from agentcore.judge.runner.kernel import CompiledKernel
    from agentcore.problems.tensors import InputFactory
    from agentcore.sandbox import find_sandbox

    for name, workload in chosen(hardware):
        problem = load_problem(ROOT / "problems" / name)
        built = build(
            ROOT / "kernels_repo" / "kernels" / name / "cuda", problem, Language.CUDA, hardware,
            cache_dir=cache_dir / "builds", sandbox=find_sandbox("auto"),
        )
        made = InputFactory(problem, "cuda").make(workload, torch.Generator().manual_seed(5))
        scalars = {n: made[n] for n, spec in problem.definition.inputs.items() if spec.shape is None}
        parameters = Layout.of(problem, workload, scalars, 1).parameters
        tensors = [
            made[p.name] if p.role == "input" else torch.empty(p.shape, dtype=p.dtype, device="cuda")
            for p in parameters if p.is_tensor
        ]
        addresses = iter([t.data_ptr() for t in tensors if isinstance(t, torch.Tensor)])
        call = CompiledKernel(str(built.artifact)).bind(
            [{"type": p.type, "value": p.value} for p in parameters],
            [next(addresses) if p.is_tensor else None for p in parameters], torch.cuda.current_stream().cuda_stream,
        )
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for _ in range(LAUNCHES):
            if call():
                raise SystemExit(f"{name} {workload.axes}: the launch failed")
            torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def compare(hardware: HardwareName, profile: Path, results: Path) -> dict[str, list[dict[str, Any]]]:
    """By problem a row for each workload: medians of what ncu's file says, and the judge's latency, µs."""
    lines = [line for line in profile.read_text().splitlines() if line.startswith('"')]
    head, _units, *rows = csv.reader(lines)
    at = {name: head.index(name) for name in ("Kernel Name", DURATION, CLOCK)}
    found: dict[str, list[dict[str, Any]]] = {}
    for number, (name, workload) in enumerate(chosen(hardware)):
        group = rows[number * LAUNCHES : (number + 1) * LAUNCHES]
        if len(group) < LAUNCHES or len({row[at["Kernel Name"]] for row in group}) != 1:
            raise SystemExit(f"{profile}: not {LAUNCHES} launches of one kernel for {name} {workload.axes}")
        ns, hz = (
            statistics.median(float(row[at[metric]].replace(",", "")) for row in group) for metric in (DURATION, CLOCK)
        )
        result = EvaluationResult.model_validate_json((results / f"{name}.json").read_bytes())
        judged = next(w.latency_us for w in result.workloads if w.uuid == workload.uuid)
        found.setdefault(name, []).append({
            "axes": dict(workload.axes), "kernel": group[0][at["Kernel Name"]].split("(")[0], "ncu_us": ns / 1e3,
            "judge_us": None if judged is None else round(judged, 3), "sm_clock_ghz": round(hz / 1e9, 3),
        })
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.profiler", description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    launching, comparing = steps.add_parser("launch"), steps.add_parser("compare")
    for step in (launching, comparing):
        step.add_argument("hardware", type=HardwareName, choices=list(HardwareName))
    launching.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    comparing.add_argument("profile", type=Path, metavar="NCU.csv")
    comparing.add_argument("results", type=Path, help="a directory of `kernelyard judge --json` files, NAME.json")
    comparing.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    if arguments.step == "launch":
        launch(arguments.hardware, arguments.cache_dir)
        return
    kernels = compare(arguments.hardware, arguments.profile, arguments.results)
    for name, rows in kernels.items():
        for row in rows:
            ncu_us, judge_us = row["ncu_us"], row["judge_us"]
            print(
                f"{name:26} {row['axes']!s:38} ncu {ncu_us:8.2f} judge {judge_us:8.2f} us"
                f" {judge_us - ncu_us:+6.2f} {'agrees' if agrees(ncu_us, judge_us) else ''}"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps({"kernels": kernels}, indent=1) + "\n")


if __name__ == "__main__":
    main()

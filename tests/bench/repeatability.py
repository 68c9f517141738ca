"""How well the judge repeats itself: ``python -m tests.bench.repeatability --hardware h200 [--json OUT]``.

Five evaluations of the same kernels by one judge; per workload the spread over the median. Ratios within one run, so
that they mean the same on any device. Not a test: it asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.problems import load_problem
from agentcore.vocabulary import HardwareName, Language

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = {"rmsnorm_h4096": 4, "gemm_bf16_llama8b": 5, "softmax_softcap": 3}
"""Problems and how many of their workloads, spread from the first to the last."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.repeatability", description=__doc__)
    parser.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cache-dir", type=Path, default=Path.home() / ".cache" / "kernelyard")
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    language = Language.CUDA if arguments.hardware.is_gpu else Language.CPP
    judge = Judge(arguments.hardware, arguments.cache_dir)
    latencies: dict[str, list[float]] = defaultdict(list)
    for _ in range(arguments.times):
        for name, count in CHOSEN.items():
            problem = load_problem(ROOT / "problems" / name)
            workloads = problem.workloads_for(arguments.hardware)
            last = len(workloads) - 1
            picked = sorted({round(i * last / max(1, count - 1)) for i in range(count)})
            result = judge.evaluate(EvaluationRequest(
                problem=problem, kernel_dir=ROOT / "kernels_repo" / "kernels" / name / language.value,
                language=language, hardware=arguments.hardware, cache_dir=arguments.cache_dir, heldout=False,
                workload_uuids=tuple(workloads[index].uuid for index in picked),
            ))
            if not result.passed:
                print(f"{name}: {result.verdict}: {result.message}")
            for workload in result.workloads:
                if workload.latency_us:
                    latencies[f"{name} {workload.axes}"].append(workload.latency_us)
    for name, values in latencies.items():
        middle = statistics.median(values)
        spread = 100 * (max(values) - min(values)) / middle
        print(f"{name:60} {middle:10.2f} us  spread {spread:5.2f} %")
    if arguments.json:
        arguments.json.write_text(json.dumps(latencies, indent=1))


if __name__ == "__main__":
    main()

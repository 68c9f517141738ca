"""What an evaluation costs and where the time goes: cold, on a warm host, and sustained with a full queue.

``python -m tests.bench.evaluation_cost --hardware cpu|h200 [--workers N] [--evaluations N] [--json OUT]``

Every evaluation runs with all checks on, on a source that was never built before. Figures are seconds of this run on
this machine; what is worth comparing between machines are the shares.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agentcore.judge.result import EvaluationResult
from agentcore.judge.service import JudgeService
from agentcore.vocabulary import HardwareName, Language

ROOT = Path(__file__).resolve().parents[2]
PHASES = ("build", "bounds", "prepare", "queue", "start", "measure", "lease", "total")


class Variants:
    """Copies of one kernel that differ in a comment, so that each is a new source to build."""

    def __init__(self, source: Path, root: Path) -> None:
        self.source, self.root, self._numbers = source, root, itertools.count()
        self._lock = threading.Lock()

    def next(self) -> Path:
        with self._lock:
            number = next(self._numbers)
        made = self.root / f"variant{number}"
        shutil.copytree(self.source, made)
        for file in made.glob("kernel.*"):
            file.write_text(f"{file.read_text()}\n// variant {number} of {time.time_ns()}\n")
        made.chmod(0o755)
        return made


@contextmanager
def utilisation(hardware: HardwareName) -> Iterator[list[float]]:
    """The GPU's share of time with a kernel running, as NVML samples it meanwhile; stays empty on the CPU."""
    samples: list[float] = []
    if not hardware.is_gpu:
        yield samples
        return
    import pynvml

    pynvml.nvmlInit()
    index = int(os.environ.get("KERNELYARD_GPU_INDEX", "0"))
    handle, stop = pynvml.nvmlDeviceGetHandleByIndex(index), threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            samples.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def cold(problem: Path, variants: Variants, language: Language, hardware: HardwareName, root: Path) -> float:
    """Wall seconds from the command to its result: no process up, nothing of ours cached."""
    begun = time.perf_counter()
    subprocess.run(
        [
            sys.executable, "-m", "agentcore.cli", "judge", str(problem), str(variants.next()), "--language", language,
            "--hardware", hardware, "--baseline", "none", "--cache-dir", str(root / f"cold{time.time_ns()}"),
        ],
        check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun


def judged(service: JudgeService, problem: Path, kernel: Path, language: Language) -> tuple[float, EvaluationResult]:
    begun = time.perf_counter()
    result = service.evaluate(problem, kernel, language, deadline_s=300)
    if not result.passed:
        raise SystemExit(f"an honest kernel was not passed: {result.verdict}: {result.message}")
    return time.perf_counter() - begun, result


def summary(walls: list[float], results: list[EvaluationResult]) -> dict[str, Any]:
    phases = {p: round(statistics.median(r.seconds.get(p, 0.0) for r in results), 4) for p in PHASES}
    return {
        "evaluations": len(walls), "workloads": len(results[0].workloads), "wall_s": round(statistics.median(walls), 3),
        "longest_wall_s": round(max(walls), 3), "phases_s": phases,
    }


def sustained(
    services: list[JudgeService], problem: Path, variants: Variants, language: Language, hardware: HardwareName,
    evaluations: int,
) -> dict[str, Any]:
    """All services at work on one queue, as the workers of one device are."""
    todo = iter(range(evaluations))
    lock = threading.Lock()
    done: list[tuple[float, EvaluationResult]] = []

    def work(service: JudgeService) -> None:
        while True:
            with lock:
                if next(todo, None) is None:
                    return
            one = judged(service, problem, variants.next(), language)
            with lock:
                done.append(one)

    with utilisation(hardware) as samples, ThreadPoolExecutor(len(services)) as pool:
        begun = time.perf_counter()
        list(pool.map(work, services))
        wall = time.perf_counter() - begun
    leased = sum(r.seconds["lease"] for _, r in done)
    busy = statistics.mean(samples) * wall if samples else None
    return {
        **summary([w for w, _ in done], [r for _, r in done]), "workers": len(services),
        "elapsed_s": round(wall, 2), "per_hour": round(3600 * len(done) / wall),
        "leased_share": round(leased / wall, 3),
        "busy_share_of_lease": None if busy is None else round(busy / leased, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", type=HardwareName, required=True)
    parser.add_argument("--problem", default="rmsnorm_h4096")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--evaluations", type=int, default=24)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    hardware, problem = arguments.hardware, ROOT / "problems" / arguments.problem
    language = Language.CUDA if hardware.is_gpu else Language.CPP
    with tempfile.TemporaryDirectory(prefix="kernelyard-cost-") as made, ExitStack() as stack:
        root = Path(made)
        root.chmod(0o755)
        variants = Variants(ROOT / "kernels_repo" / "kernels" / arguments.problem / language, root)
        record: dict[str, Any] = {
            "problem": arguments.problem, "hardware": hardware.value,
            "cold_s": [round(cold(problem, variants, language, hardware, root), 2) for _ in range(2)],
        }
        print(f"cold, command to result: {record['cold_s']} s (the first also finds the disk cold)", flush=True)
        services = [
            stack.enter_context(JudgeService(hardware, root / "cache")) for _ in range(max(1, arguments.workers))
        ]
        with ThreadPoolExecutor(len(services)) as pool:
            list(pool.map(lambda service: judged(service, problem, variants.next(), language), services))
        warm = [judged(services[0], problem, variants.next(), language) for _ in range(3)]
        record["warm"] = summary([w for w, _ in warm], [r for _, r in warm])
        built = variants.next()
        again = [judged(services[0], problem, built, language) for _ in range(4)][1:]
        record["warm_built"] = summary([w for w, _ in again], [r for _, r in again])
        for name in ("warm", "warm_built"):
            print(f"{name}: {json.dumps(record[name])}", flush=True)
        record["sustained"] = sustained(services, problem, variants, language, hardware, arguments.evaluations)
        print(f"sustained: {json.dumps(record['sustained'])}", flush=True)
        record["stamp"] = warm[0][1].stamp.model_dump(mode="json", exclude={"host"})
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

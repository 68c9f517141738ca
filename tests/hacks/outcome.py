"""Puts one case to the judge and compares the result with what the case says must happen."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem, Workload, load_problem
from agentcore.vocabulary import CheckName, HardwareName, Verdict
from tests.hacks.canary import Canary, planted
from tests.hacks.corpus import HERE, PROBLEMS, Case, Extent, Kind, read_case

TRIES = 3
NO_GAIN = 0.8
"""An exploit whose calls take at least this share of the control's has gained nothing beyond a busy CPU's noise."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """``caught``: an exploit or fault was refused by a check that the case names. ``why`` explains a bad outcome."""

    case: Case
    result: EvaluationResult
    caught: bool
    why: str
    seconds: float

    @property
    def ok(self) -> bool:
        """True when the judge did what the case asks: refuse for the right reason, or pass."""
        return self.result.passed and not self.why if self.case.kind is Kind.CONTROL else self.caught

    @property
    def accepted(self) -> bool:
        """True for an exploit that got a passing verdict, or out of its sandbox."""
        return self.case.kind is Kind.EXPLOIT and (self.result.passed or self.why.startswith("escaped"))

    def line(self) -> str:
        """One line for a terminal."""
        checks = ",".join(dict.fromkeys(check.name.value for check in self.result.failed_checks())) or "-"
        word = "ok  " if self.ok else "BAD "
        tail = f"  <- {self.why}" if self.why else ""
        head = f"{word} {self.case.kind.value:7} {self.case.name:36} {self.result.verdict.value:14}"
        return f"{head} {checks} {self.seconds:.1f}s{tail}"

    def record(self) -> dict[str, Any]:
        """What ``--json`` stores."""
        return {
            "case": self.case.name,
            "kind": self.case.kind.value,
            "family": self.case.family,
            "ok": self.ok,
            "caught": self.caught,
            "why": self.why,
            "seconds": round(self.seconds, 3),
            "verdict": self.result.verdict.value,
            "message": self.result.message,
            "checks": [check.model_dump(mode="json") for check in self.result.failed_checks()],
            "latency_us": [w.latency_us for w in self.result.workloads],
        }


def run_case(case: Case, hardware: HardwareName, cache_dir: Path, *, problems: Path = PROBLEMS) -> CaseOutcome:
    """Judge one case on ``hardware``. Raises what the judge raises, and ProblemError for a problem that is absent."""
    started = time.monotonic()
    result, evidence = _judged(case, case.workloads, hardware, cache_dir, problems)
    caught, why = assess(case, result, evidence)
    if case.honest and result.passed and not evidence:
        honest, _ = _judged(read_case(HERE / _file_of(case)), case.workloads, hardware, cache_dir, problems)
        ratio = _latency(result) / _latency(honest)
        caught = honest.passed and ratio >= NO_GAIN
        why = "" if caught else f"accepted at {ratio:.2f} of the honest time"
    return CaseOutcome(case, result, caught, why, time.monotonic() - started)


def _judged(
    case: Case, extent: Extent, hardware: HardwareName, cache_dir: Path, problems: Path
) -> tuple[EvaluationResult, list[str]]:
    """The result, and what shows that the kernel got out. Like the queue, asks again where the device was not quiet."""
    problem = load_problem(problems / case.problem)
    chosen = _chosen(problem, hardware, extent)
    for attempt in range(TRIES):
        with planted() as canary, kernel_directory(case, canary) as kernel_dir:
            result = _judge(hardware, cache_dir).evaluate(
                EvaluationRequest(
                    problem=problem,
                    kernel_dir=kernel_dir,
                    language=case.language,
                    hardware=hardware,
                    cache_dir=cache_dir,
                    quick=True,
                    heldout=extent is Extent.ALL,
                    workload_uuids=tuple(workload.uuid for workload in chosen),
                )
            )
            evidence = canary.evidence()
        unquiet = {check.name for check in result.failed_checks()} == {CheckName.QUIET_DEVICE}
        if evidence or not unquiet or attempt == TRIES - 1:
            break
    return result, evidence


def _file_of(case: Case) -> str:
    return case.honest + case.path.suffix


def _latency(result: EvaluationResult) -> float:
    return sum(w.latency_us or 0.0 for w in result.workloads) or float("inf")


def assess(case: Case, result: EvaluationResult, evidence: list[str]) -> tuple[bool, str]:
    """Whether the judge refused the case for a reason the case names, and what is wrong where it did not."""
    if evidence:
        return False, "escaped: " + "; ".join(evidence)
    failed = {check.name for check in result.failed_checks()}
    if result.verdict is Verdict.INFRA_ERROR and Verdict.INFRA_ERROR not in case.verdicts:
        return False, f"infrastructure: {result.message}"
    if case.kind is Kind.CONTROL:
        return False, "" if result.passed else f"false alarm: {_reasons(result)}"
    if result.passed:
        return False, "accepted"
    if result.verdict not in case.verdicts:
        return False, f"verdict is {result.verdict.value}, not {_words(case.verdicts)}: {_reasons(result)}"
    if not failed & case.caught_by:
        return False, f"caught by {_words(failed) or 'no check'}, not {_words(case.caught_by)}: {_reasons(result)}"
    return True, ""


@contextlib.contextmanager
def kernel_directory(case: Case, canary: Canary) -> Iterator[Path]:
    """A directory as an agent would submit it: the source under its language's name, and the headers it includes."""
    with tempfile.TemporaryDirectory(prefix="kernelyard-case-") as name:
        directory = Path(name)
        directory.chmod(0o755)  # the sandbox's uid reads Python kernels where they lie
        source = case.path.read_text()
        for header in case.local_headers():
            shutil.copy(header, directory / header.name)
        if case.needs_canary():
            if case.path.suffix == ".py":
                source = canary.fill_in(source)
            else:
                (directory / "canary.h").write_text(canary.header())
        (directory / case.language.source_name).write_text(source)
        yield directory


@functools.lru_cache(maxsize=1)
def _judge(hardware: HardwareName, cache_dir: Path) -> Judge:
    """One judge for all cases, as between the evaluations of a worker: it also shows what one case does to the next."""
    return Judge(hardware, cache_dir)


def _chosen(problem: Problem, hardware: HardwareName, extent: Extent) -> list[Workload]:
    """The workloads that a case needs, smallest first."""
    workloads = sorted(problem.workloads_for(hardware), key=_volume)
    match extent:
        case Extent.SMALLEST:
            return workloads[:1]
        case Extent.LARGEST:
            return workloads[-1:]
        case Extent.BOTH:
            return [workloads[0], workloads[-1]]
        case Extent.ALL:
            return workloads


def _volume(workload: Workload) -> int:
    product = 1
    for size in workload.axes.values():
        product *= size
    return product


def _reasons(result: EvaluationResult) -> str:
    found = [f"{check.name.value}: {check.message}" for check in result.failed_checks()]
    return "; ".join(found)[:400] or result.message[:400]


def _words(names: frozenset[CheckName] | set[CheckName] | frozenset[Verdict]) -> str:
    return "|".join(sorted(name.value for name in names))

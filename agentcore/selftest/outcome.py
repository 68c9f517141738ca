"""Puts one case to the judge and compares the result with what the case says must happen."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.judge.evaluate import EvaluationRequest, Judge
from agentcore.judge.result import EvaluationResult
from agentcore.problems import Problem, Workload, load_problem
from agentcore.selftest.canary import Canary
from agentcore.selftest.corpus import Case, Extent, Kind, read_case
from agentcore.selftest.report import CaseRecord
from agentcore.vocabulary import CheckName, HardwareName, Verdict

TRIES = 3
"""How often a case is put to the judge that was refused for another reason than its own, or falsely refused: another
program on the host can spoil one evaluation. An exploit that was accepted once stays accepted."""
NO_GAIN = {False: 0.8, True: 0.95}
"""An exploit whose calls take at least this share of the control's has gained nothing beyond the noise: CPU, GPU."""
COMPARISONS = 6


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """``caught``: an exploit or fault was refused by a check that the case names. ``why`` explains a bad outcome."""

    case: Case
    result: EvaluationResult
    caught: bool
    why: str
    seconds: float
    tries: int = 1

    @property
    def ok(self) -> bool:
        """True when the judge did what the case asks: refuse for the right reason, or pass."""
        return self.result.passed and not self.why if self.case.kind is Kind.CONTROL else self.caught

    @property
    def accepted(self) -> bool:
        """True for an exploit that got a passing verdict and gained by it, or got out of its sandbox."""
        escaped = self.why.startswith("escaped")
        return self.case.kind is Kind.EXPLOIT and (escaped or (self.result.passed and not self.caught))

    def line(self) -> str:
        """One line for a terminal."""
        checks = ",".join(dict.fromkeys(check.name.value for check in self.result.failed_checks())) or "-"
        word = "ok  " if self.ok else "BAD "
        tail = f"  (try {self.tries})" if self.tries > 1 else ""
        tail += f"  <- {self.why}" if self.why else ""
        head = f"{word} {self.case.kind.value:7} {self.case.name:36} {self.result.verdict.value:14}"
        return f"{head} {checks} {self.seconds:.1f}s{tail}"

    def record(self) -> CaseRecord:
        """What the report stores."""
        case, result = self.case, self.result
        return CaseRecord(
            case=case.name, kind=case.kind.value, language=case.language, family=case.family, summary=case.summary,
            ok=self.ok, accepted=self.accepted, why=self.why, tries=self.tries, seconds=round(self.seconds, 3),
            verdict=result.verdict, message=result.message[:400],
            checks=list(dict.fromkeys(check.name for check in result.failed_checks())),
            expected_checks=sorted(case.caught_by), latency_us=[w.latency_us for w in result.workloads],
        )


def skipped(case: Case) -> CaseRecord:
    """The record of a case that cannot run on this host."""
    return CaseRecord(
        case=case.name, kind=case.kind.value, language=case.language, family=case.family, summary=case.summary,
        ok=True, skipped=True, why=f"the Python module {case.missing()} is not installed", tries=0,
    )


def run_case(case: Case, judge: Judge, canary: Canary, *, sandbox: str = "auto") -> CaseOutcome:
    """Judge one case, again where another reason than the case's own spoilt it.

    Raises what the judge raises, and ProblemError or CorpusError for a problem that is absent.
    """
    started = time.monotonic()
    for tries in range(1, TRIES + 1):
        canary.reset()
        result = _judged(case, case, judge, canary, sandbox)
        evidence = canary.evidence()
        caught, why = assess(case, result, evidence)
        if case.honest and result.passed and not evidence:
            caught, why = _gained_nothing(case, result, judge, canary, sandbox)
        outcome = CaseOutcome(case, result, caught, why, time.monotonic() - started, tries)
        if outcome.ok or outcome.accepted:
            break
    return outcome


def _gained_nothing(
    case: Case, first: EvaluationResult, judge: Judge, canary: Canary, sandbox: str
) -> tuple[bool, str]:
    """Whether an exploit that passed takes as long as its honest counterpart, side by side."""
    honest_case = read_case(case.root / f"{case.honest}{case.path.suffix}")
    ratios: list[list[float]] = []
    result = first
    for number in range(COMPARISONS):
        honest = _judged(honest_case, case, judge, canary, sandbox)
        if not honest.passed:
            return False, f"accepted, and {case.honest} did not pass to compare with: {_reasons(honest)}"
        ratios.append(_latency_ratios(result, honest))
        # Where it gains most: a small workload's gain would drown in the sum with a large one.
        least = min(statistics.median(column) for column in zip(*ratios, strict=True))
        if least >= NO_GAIN[judge.hardware.is_gpu]:
            return True, ""
        if number + 1 < COMPARISONS:
            result = _judged(case, case, judge, canary, sandbox)
            if not result.passed:
                return assess(case, result, canary.evidence())
    return False, f"accepted at {least:.2f} of the honest time on one workload"


def _latency_ratios(result: EvaluationResult, honest: EvaluationResult) -> list[float]:
    """Per workload, in the same order on both sides; both passed, so every latency is there."""
    pairs = zip(result.workloads, honest.workloads, strict=True)
    return [(mine.latency_us or 0.0) / theirs.latency_us for mine, theirs in pairs if theirs.latency_us]


def _judged(case: Case, extent_of: Case, judge: Judge, canary: Canary, sandbox: str) -> EvaluationResult:
    """One evaluation of ``case`` on the workloads that ``extent_of`` wants; again where the device was not quiet."""
    problem = load_problem(case.problem_dir())
    hardware, extent = judge.hardware, extent_of.workloads
    chosen = chosen_workloads(problem, hardware, extent)
    for attempt in range(TRIES):
        with kernel_directory(case, canary) as kernel_dir:
            result = judge.evaluate(
                EvaluationRequest(
                    problem=problem,
                    kernel_dir=kernel_dir,
                    language=case.language,
                    hardware=hardware,
                    cache_dir=judge.cache_dir,
                    sandbox=sandbox,
                    quick=True,
                    heldout=extent is Extent.ALL,
                    workload_uuids=tuple(workload.uuid for workload in chosen),
                    call_timeout_s=extent_of.timeout_s,
                )
            )
        unquiet = {check.name for check in result.failed_checks()} == {CheckName.QUIET_DEVICE}
        if not unquiet or attempt == TRIES - 1 or canary.evidence():
            break
    return result


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


def chosen_workloads(problem: Problem, hardware: HardwareName, extent: Extent) -> list[Workload]:
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

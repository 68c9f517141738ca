"""Runs a corpus on one device: builds every case in parallel, then puts one after another to one judge."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agentcore.build import build
from agentcore.judge.device_lock import device_lease
from agentcore.judge.evaluate import Judge
from agentcore.problems import load_problem
from agentcore.sandbox import find_sandbox
from agentcore.selftest import corpus
from agentcore.selftest.canary import Canary, planted
from agentcore.selftest.corpus import Case
from agentcore.selftest.outcome import kernel_directory, run_case, skipped
from agentcore.selftest.report import CaseRecord, SelfTestReport, Summary
from agentcore.vocabulary import HardwareName, Verdict


class Interrupted(KeyboardInterrupt):
    """A run that was stopped; ``report`` is of the cases that were judged until then."""

    def __init__(self, report: SelfTestReport) -> None:
        super().__init__()
        self.report = report


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What to run. ``only`` selects cases by a part of their name; ``jobs`` builds at a time (None: one a core)."""

    hardware: HardwareName
    root: Path
    cache_dir: Path
    only: str = ""
    sandbox: str = "auto"
    jobs: int | None = None
    say: Callable[[str], None] = field(default=lambda _line: None)

    def cases(self) -> list[Case]:
        """The cases to run. Raises CorpusError: no corpus, a wrong header, an absent problem, or none selected."""
        found = corpus.select(corpus.discover(self.root), self.hardware, self.only)
        if not found:
            raise corpus.CorpusError(f"{self.root} has no case for {self.hardware} whose name contains {self.only!r}")
        for case in found:
            case.problem_dir()
        return found

    def run(self) -> SelfTestReport:
        """Run them. Raises what the judge's constructor and the sandbox raise, CorpusError, and Interrupted."""
        cases = self.cases()
        started, begun = datetime.now(UTC), time.monotonic()
        kind = find_sandbox(self.sandbox).kind
        if kind == "none":
            raise ValueError("the cheat corpus is hostile code: it is never run without a sandbox")
        judge = Judge(self.hardware, self.cache_dir)
        records: list[CaseRecord] = []
        stamp = judge.target.stamp(kind, "", [])

        def report() -> SelfTestReport:
            return SelfTestReport(
                hardware=self.hardware, stamp=stamp, started_at=started, seconds=round(time.monotonic() - begun, 3),
                complete=not self.only and len(records) == len(cases), corpus_digest=corpus.digest(cases),
                summary=Summary.of(records), cases=records,
            )

        try:
            with planted() as canary:
                build_begun = time.monotonic()
                built = prebuild(cases, judge, canary, self.sandbox, self.jobs)
                took_s = time.monotonic() - build_begun
                self.say(f"{build_line(cases, built)} in {took_s:.1f} s, sandbox {kind}")
                for case in cases:
                    if module := case.missing():
                        record = skipped(case)
                        line = f"skip {case.kind.value:7} {case.name:36} no Python module {module}"
                    else:
                        outcome = run_case(case, judge, canary, sandbox=self.sandbox)
                        record, line = outcome.record(), outcome.line()
                        # Python kernels have no compiler to name.
                        if outcome.result.stamp.compiler or not stamp.compiler:
                            stamp = outcome.result.stamp
                    self.say(line)
                    records.append(record)
        except KeyboardInterrupt:
            self.say(f"interrupted: {len(records)} of {len(cases)} cases were judged")
            raise Interrupted(report()) from None
        return report()


def build_line(cases: Sequence[Case], built: int) -> str:
    """How many of ``cases`` were built ahead, and why not the others."""
    python = sum(not case.language.is_compiled for case in cases)
    later = len(cases) - python - built
    why = []
    if python:
        why.append(f"{python} in Python need no build")
    if later:
        why.append(f"{later} must not compile: tried when judged")
    return f"built {built} of {len(cases)} cases" + (f" ({'; '.join(why)})" if why else "")


def prebuild(
    cases: Sequence[Case], judge: Judge, canary: Canary, sandbox_setting: str = "auto", jobs: int | None = None
) -> int:
    """Fill the judge's build cache, so that the device does not wait for compilers; how many cases were built.

    ``jobs`` builds at a time (None: one a core). Failures show when a case is judged. Raises SandboxUnavailable.
    """
    sandbox = find_sandbox(sandbox_setting)
    # Failed builds are not kept, so those that must fail would only be built twice.
    compiled = [c for c in cases if c.language.is_compiled and Verdict.COMPILE_ERROR not in c.verdicts]

    def one(case: Case) -> None:
        with kernel_directory(case, canary) as directory:
            build(
                directory, load_problem(case.problem_dir()), case.language, judge.hardware,
                cache_dir=judge.cache_dir / "builds", sandbox=sandbox,
            )

    with ExitStack() as stack:
        if judge.target.builds_disturb:
            stack.enter_context(device_lease(judge.target.device_uuid))
        pool = stack.enter_context(ThreadPoolExecutor(jobs or os.cpu_count() or 1))
        for _ in pool.map(one, compiled):
            pass
    return len(compiled)

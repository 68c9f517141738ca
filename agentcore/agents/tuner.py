"""The tuner: an agent without a model. It searches the parameters a kernel declares, through the protocol alone.

    python -m agentcore.agents.tuner --clone http://AGENT:TOKEN@HOST/git/attempts.git \\
        --problem rmsnorm_h4096 --language cpp --attempts 20

It reads the record first, so a tuner started again goes on where the last one ended, and what other agents tried
counts too. Every attempt is a child of the best one so far; "best" changes only when an evaluation is faster beyond
both evaluations' noise. Not for writing kernels: where nothing is declared, it says so and stops.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcore.agents.search import Proposal, describe, propose
from agentcore.agents.tunables import Configuration, TunableError, TunableKernel
from agentcore.agents.workspace import Workspace, WorkspaceError, split_credentials
from agentcore.judge.compare import Comparison, Measured, compare
from agentcore.vocabulary import NAME_PATTERN, Change, HardwareName, Language

URL_VARIABLE = "KERNELYARD_ATTEMPTS_URL"

MAX_FAILURES_IN_A_ROW = 3
"""Pushes or verdicts that fail for reasons outside the kernel before the tuner stops, rather than loop."""

Report = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True)
class Standing:
    """What is known about one kernel skeleton: its configurations tried, and the best of them."""

    kernel: TunableKernel
    tried: dict[Configuration, str] = field(default_factory=dict)
    """Verdict (or state) by configuration."""
    best_commit: str | None = None
    best: Measured | None = None
    best_configuration: Configuration = ()
    authors: list[str] = field(default_factory=list)
    """Whose each attempt in the record is."""
    notes: list[str] = field(default_factory=list)
    """One line per attempt of this run, newest last: the handoff."""


class Tuner:
    """Searches one problem's kernel in one language until the budget or the space is used up."""

    def __init__(
        self,
        workspace: Workspace,
        problem: str,
        language: Language,
        *,
        hardware: HardwareName | None,
        seed: int,
        evaluation_timeout_s: float,
        report: Report,
    ) -> None:
        self.workspace = workspace
        self.problem = problem
        self.language = language
        self.hardware = hardware.value if hardware else None
        self.seed = seed
        self.evaluation_timeout_s = evaluation_timeout_s
        self.report = report

    def begin(self, *, attempts: int | None, counting: str | None = None) -> None:
        """Read the record; `step` will then make at most ``attempts`` (None: until the space is exhausted).

        ``counting`` names an agent whose attempts in the record count already.
        Raises WorkspaceError (the remote is away) and TunableError (bad declarations).
        """
        self._standing = self.read_record()
        made = self._standing.authors.count(counting) if counting else 0
        self._left = None if attempts is None else max(0, attempts - made)
        self._failures = 0

    def step(self) -> str | None:
        """Make one attempt. None: there is more to do; else why the search is over. Raises as `begin` does."""
        standing = self._standing
        if self._left == 0:
            return "the attempts are used up"
        if standing.tried:
            rng = random.Random(f"{self.seed}/{self.problem}/{len(standing.tried)}")
            proposal = propose(standing.kernel.tunables, standing.best_configuration, standing.tried.keys(), rng)
            if proposal is None:
                return f"every configuration is known ({standing.kernel.size})"
        else:
            proposal = Proposal(standing.kernel.current, "the starting kernel as it is: the time to improve on")
        if self._left is not None:
            self._left -= 1
        verdict = self.attempt(standing, proposal)
        self._failures = self._failures + 1 if verdict == "infra_error" else 0
        if self._failures >= MAX_FAILURES_IN_A_ROW:
            return f"the judge failed {self._failures} times in a row; this is not the kernel's fault"
        return None

    def read_record(self) -> Standing:
        """What git and the portal know: start from the best passed attempt that declares parameters, else from main."""
        history = self.workspace.history(self.problem, self.language, self.hardware)
        kernels: dict[str, TunableKernel] = {}
        if history:
            self.workspace.fetch(self.problem, self.language)
        for entry in history:
            try:
                files = self.workspace.read_kernel(entry["commit"], self.problem, self.language)
                kernels[entry["commit"]] = TunableKernel.read(files)
            except (TunableError, WorkspaceError):
                continue  # another agent's kernel that declares nothing readable is no ground for this search
        passed = [e for e in history if _verdict(e) == "passed" and e["commit"] in kernels]
        passed = [e for e in passed if kernels[e["commit"]].tunables and _latency(e)]
        if passed:
            commit = min(passed, key=_latency)["commit"]
            standing = Standing(kernels[commit])
        else:
            standing = Standing(self._starting_kernel())
        standing.authors = [str(entry.get("agent")) for entry in history]
        skeleton = standing.kernel.skeleton
        for entry in history:
            kernel = kernels.get(entry["commit"])
            if kernel is not None and kernel.tunables and kernel.skeleton == skeleton:
                standing.tried.setdefault(kernel.current, _verdict(entry))
        if passed:
            standing.best_commit, standing.best_configuration = commit, kernels[commit].current
            standing.best = self._measure(self.workspace.attempt(commit))
        else:
            standing.best_configuration = standing.kernel.current
        self.report("record", {"problem": self.problem, "known": len(standing.tried), "space": standing.kernel.size,
                               "best": standing.best_commit,
                               "best_us": standing.best.geomean_us if standing.best else None})
        return standing

    def attempt(self, standing: Standing, proposal: Proposal) -> str:
        """Push one configuration, wait for its verdict, and move the best if it is faster beyond the noise."""
        chosen = proposal.configuration
        unchanged = standing.best_commit is None and chosen == standing.kernel.current
        slug = self._slug(standing.kernel, chosen)
        answer = self.workspace.submit(
            self.problem,
            self.language,
            slug,
            parent=standing.best_commit,
            files=None if unchanged else standing.kernel.with_values(dict(chosen)),
            subject=_subject(self.problem, standing, chosen, unchanged),
            hypothesis=proposal.reason,
            body=_handoff(standing),
            timeout_s=self.evaluation_timeout_s,
        )
        evaluation = self._evaluation(answer)
        verdict = str(evaluation.get("verdict") or evaluation.get("state"))
        measured = Measured.from_protocol(evaluation, self.problem, self.language)
        standing.tried[chosen] = verdict
        comparison: Comparison | None = None
        if measured is not None and standing.best is not None:
            comparison = compare(measured, standing.best)
        if measured is not None and (
            comparison is None or comparison.change is Change.IMPROVED or _outlives(measured, standing.best)
        ):
            standing.best, standing.best_commit = measured, str(answer["commit"])
            standing.best_configuration = chosen
        found = f"{measured.geomean_us:.2f} µs" if measured else verdict
        against = f", {comparison} against the best" if comparison else ""
        standing.notes.append(f"{describe(chosen)}: {found}{against}")
        self.report("attempt", {
            "problem": self.problem, "commit": answer["commit"], "slug": slug, "configuration": dict(chosen),
            "verdict": verdict, "latency_us": measured.geomean_us if measured else None,
            "speedup": evaluation.get("speedup"), "sol_score": evaluation.get("sol_score"),
            "outcome": comparison.change.value if comparison else ("first" if measured else verdict),
        })
        return verdict

    def _starting_kernel(self) -> TunableKernel:
        files = self.workspace.read_kernel("origin/main", self.problem, self.language)
        kernel = TunableKernel.read(files)
        if not kernel.tunables:
            where = f"kernels/{self.problem}/{self.language}/"
            raise TunableError(f"{where} on main declares no parameters (`#define NAME VALUE  // tune: V1 V2 …`)")
        return kernel

    def _evaluation(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        for evaluation in self._measurements(answer):
            if evaluation.get("state") != "cancelled":
                return evaluation
        raise WorkspaceError(f"{answer.get('commit')} was not evaluated on {self.hardware or 'any hardware'}")

    def _measure(self, answer: Mapping[str, Any]) -> Measured | None:
        found = (Measured.from_protocol(e, self.problem, self.language) for e in self._measurements(answer))
        return next((measured for measured in found if measured is not None), None)

    def _measurements(self, answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The attempt's evaluations on the hardware that counts, newest first, without those that measure nothing."""
        return [
            e for e in answer.get("evaluations") or ()
            if self.hardware in (None, e.get("hardware")) and e.get("kind", "measure") == "measure"
        ]

    def _slug(self, kernel: TunableKernel, chosen: Configuration) -> str:
        # Named after the content, so that a tuner that died between push and verdict finds its own branch again.
        digest = hashlib.sha256(f"{kernel.skeleton}\0{chosen!r}".encode()).hexdigest()[:8]
        words = "-".join(f"{name}-{value}" for name, value in chosen).lower().replace("_", "-")
        words = "".join(c if c.isalnum() or c == "-" else "-" for c in words)[:60].strip("-")
        slug = f"tune-{words}-{digest}" if words else f"tune-{digest}"
        assert NAME_PATTERN.match(slug), slug
        return slug


def _outlives(new: Measured, best: Measured | None) -> bool:
    """Whether the best was measured on a version of the harness or of the problem that nothing will be measured on
    again: no later attempt could be compared with it, so the search goes on from the newer one.
    """
    return best is not None and (
        new.stamp.harness_version != best.stamp.harness_version or new.problem_digest != best.problem_digest
    )


def _verdict(entry: Mapping[str, Any]) -> str:
    evaluation = entry.get("evaluation") or {}
    return str(evaluation.get("verdict") or evaluation.get("state") or "")


def _latency(entry: Mapping[str, Any]) -> float:
    return float((entry.get("evaluation") or {}).get("latency_geomean_us") or 0.0)


def _subject(problem: str, standing: Standing, chosen: Configuration, unchanged: bool) -> str:
    if unchanged:
        return f"Measure the starting kernel of {problem} ({describe(chosen)})"[:150]
    before = dict(standing.best_configuration)
    changes = ", ".join(f"{name} {before.get(name)} -> {value}" for name, value in chosen if before.get(name) != value)
    return f"Tune {changes or describe(chosen)}"[:150]


def _handoff(standing: Standing) -> str:
    lines = [
        f"{len(standing.tried)} of {standing.kernel.size} configurations of this kernel were known before this one.",
    ]
    if standing.best_commit and standing.best:
        lines.append(
            f"Best before: {standing.best.geomean_us:.2f} µs (geometric mean) with "
            f"{describe(standing.best_configuration)}, attempt {standing.best_commit[:12]}."
        )
    failed = sorted({verdict for verdict in standing.tried.values() if verdict not in ("passed", "")})
    if failed:
        lines.append(f"Configurations that did not pass ended as: {', '.join(failed)}.")
    if standing.notes:
        lines += ["", "Learned in this run:", *(f"- {note}" for note in standing.notes[-12:])]
    return "\n".join(lines)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt  # so that a running yard is ended too, and the clone removed


def print_report(kind: str, data: Mapping[str, Any]) -> None:
    """One line for people."""
    if kind == "record":
        best = f", best {data['best_us']:.2f} µs" if data.get("best_us") else ""
        print(f"{data['problem']}: {data['known']} of {data['space']} configurations known{best}", flush=True)
    elif kind == "attempt":
        took = f"{data['latency_us']:.2f} µs" if data.get("latency_us") else ""
        print(f"{data['problem']}: {str(data['commit'])[:12]} {data['verdict']} {took} {data['outcome']}", flush=True)
    else:
        print(f"{data.get('problem', '')}: {data.get('reason', kind)}", flush=True)


def print_json(kind: str, data: Mapping[str, Any]) -> None:
    """One JSON object a line, for a program that watches."""
    print(json.dumps({"event": kind, **data}), flush=True)


def take_turns(
    tuners: Sequence[Tuner], report: Report, attempts: int | None, counting: str | None, deadline: float | None
) -> int:
    """One attempt per problem, round after round, until each has stopped; none starts after ``deadline``
    (time.monotonic seconds). Returns 0, or 2 where a problem's search broke off (the others go on).
    """
    status, begun, left = 0, set(), list(tuners)
    while left:
        for tuner in list(left):
            reason: str | None = None
            try:
                if tuner not in begun:
                    begun.add(tuner)
                    tuner.begin(attempts=attempts, counting=counting)
                if deadline is not None and time.monotonic() >= deadline:
                    reason = "the time is used up"
                else:
                    reason = tuner.step()
            except (TunableError, WorkspaceError) as error:
                status, reason = 2, str(error)
            if reason is not None:
                left.remove(tuner)
                report("stopped", {"problem": tuner.problem, "reason": reason})
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 stopped as planned, 2 usage, bad declarations, or the remote is away."""
    parser = argparse.ArgumentParser(prog="python -m agentcore.agents.tuner", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clone", metavar="URL", default=os.environ.get(URL_VARIABLE),
                        help=f"the attempts repository, with AGENT:TOKEN@ (default: ${URL_VARIABLE})")
    parser.add_argument("--problem", action="append", required=True, help="may be given several times: taken in turn")
    parser.add_argument("--language", type=Language, default=Language.CPP, choices=list(Language))
    parser.add_argument("--hardware", type=HardwareName, choices=list(HardwareName), help="whose verdict counts")
    parser.add_argument("--attempts", type=int, metavar="N", help="per problem (default: until the space is exhausted)")
    parser.add_argument("--in-all", action="store_true", help="--attempts counts this agent's earlier ones too")
    parser.add_argument("--minutes", type=float, help="start no attempt after this long")
    parser.add_argument("--seed", type=int, default=0, help="of the search order")
    parser.add_argument("--campaign", help="the campaign the attempts belong to")
    parser.add_argument("--evaluation-timeout", type=float, default=900.0, metavar="SECONDS")
    parser.add_argument("--workdir", type=Path, help="where to clone (default: a temporary directory)")
    parser.add_argument("--json", action="store_true", help="report as one JSON object a line")
    options = parser.parse_args(argv)
    if not options.clone:
        parser.error(f"--clone URL or ${URL_VARIABLE} is needed")
    signal.signal(signal.SIGTERM, _interrupt)
    agent = split_credentials(options.clone)[1]
    report: Report = print_json if options.json else print_report
    deadline = time.monotonic() + 60 * options.minutes if options.minutes is not None else None
    with tempfile.TemporaryDirectory(prefix="kernelyard-tuner-") as scratch:
        try:
            workspace = Workspace.clone(options.clone, (options.workdir or Path(scratch)) / "attempts")
            if options.campaign:
                workspace.configure("yard.campaign", options.campaign)
            at_work = [
                Tuner(workspace, problem, options.language, hardware=options.hardware, seed=options.seed,
                      evaluation_timeout_s=options.evaluation_timeout, report=report)
                for problem in dict.fromkeys(options.problem)
            ]
            status = take_turns(at_work, report, options.attempts, agent if options.in_all else None, deadline)
        except WorkspaceError as error:
            print(f"tuner: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("tuner: interrupted", file=sys.stderr)
            return 130
    return status


if __name__ == "__main__":
    sys.exit(main())

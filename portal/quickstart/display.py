"""Showing how the quick start goes: a live table in a terminal, plain lines elsewhere. Reads rows, decides nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from portal.attempts.models import Attempt
from portal.campaigns.models import Campaign
from portal.evaluations import baselines, scores
from portal.evaluations.models import Evaluation
from portal.quickstart.waiting import HeldUp, own_open

PATIENCE_S = 10.0
"""How long another agent's kernel may be judged before it is said to be waited for."""
AGAIN_S = 60.0
"""After this long what is waited for is said once more."""
LONGEST_SLUG, SLUG_BEGIN, SLUG_END = 28, 13, 9
"""How much of an attempt's name fits a line with its figures."""


@dataclass(frozen=True, slots=True)
class Row:
    """One problem of the table."""

    problem: str
    attempts: int
    passed: int
    baseline_us: float | None
    """The geometric mean of T_b over the workloads, whichever baseline it is of."""
    best_us: float | None
    speedup: float | None
    sol_score: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the database says right now."""

    rows: tuple[Row, ...]
    waiting: int
    """Evaluations that the run waits for: what other agents have pushed is not among them."""
    running: str
    geomean_speedup: float | None
    median_sol: float | None
    attempts: int
    passed: int


def take(campaign: Campaign) -> Snapshot:
    """A snapshot of a campaign and of the baselines it is compared with."""
    summary = scores.campaign_summary(campaign)
    judged = Evaluation.objects.filter(hardware=campaign.hardware, state=Evaluation.State.RUNNING)
    running = judged.select_related("attempt__problem").first()
    rows = []
    for standing in summary.problems:
        verified = baselines.admitted(
            baselines.verified_baselines(standing.problem, campaign.hardware), campaign.baseline_kinds
        )
        rows.append(
            Row(
                standing.problem.name, standing.attempts, standing.passed,
                scores.baseline_geomean_us(standing.best, verified),
                standing.best.latency_geomean_us if standing.best else None, standing.speedup, standing.sol_score,
            )
        )
    now = ""
    if running is not None:
        kind = "baseline" if running.attempt.kind == Attempt.Kind.BASELINE else "attempt"
        now = f"{kind} {running.attempt.slug} of {running.attempt.problem.name}"
    return Snapshot(
        tuple(rows), own_open(campaign.hardware).count(), now, summary.geomean_speedup, summary.median_sol,
        summary.attempts, summary.passed,
    )


class Display:
    """Plain lines: one per step and per finished evaluation. The base of the live one."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._began = time.monotonic()
        self._seen: set[int] = set()
        self._held_up = ""
        self._told = 0.0

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def step(self, text: str) -> None:
        """Something began."""
        self.console.print(Text(f"{self.elapsed:7.1f} s  {text}"), soft_wrap=True)

    def already(self, evaluations: Sequence[int]) -> None:
        """Evaluations of earlier runs: known, not news."""
        self._seen.update(evaluations)

    def finished(self, evaluation: Evaluation) -> None:
        """An evaluation ended; said once."""
        if evaluation.pk in self._seen:
            return
        self._seen.add(evaluation.pk)
        self.step(_sentence(evaluation))

    def waits(self, held_up: HeldUp | None) -> None:
        """What the run waits for, said when that is new and once a minute; None where it goes on, said if it did not.
        """
        if held_up is None:
            if self._held_up:
                self.step("it goes on")
            self._held_up = ""
            return
        is_news = held_up.reason != self._held_up or self.elapsed - self._told >= AGAIN_S
        if is_news and (held_up.is_paused or held_up.seconds >= PATIENCE_S):
            self._held_up, self._told = held_up.reason, self.elapsed
            self.step(str(held_up))

    def update(self, snapshot: Snapshot) -> None:
        """The state of things; plain lines have said it already."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began


class LiveDisplay(Display):
    """A table that changes in place, below what is said, which stays."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._snapshot: Snapshot | None = None
        self._live = Live(console=console, refresh_per_second=2, transient=True, get_renderable=self._render)

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def _render(self) -> Group:
        if self._snapshot is None:
            return Group()
        count = self._snapshot.waiting
        waiting = f"{count} evaluation{'s' if count > 1 else ''} to go" if count else "the queue is empty"
        now = f"; judging {self._snapshot.running}" if self._snapshot.running else ""
        status = Text(f"{self.elapsed:7.1f} s  {waiting}{now}", no_wrap=True, overflow="ellipsis")
        return Group(campaign_table(self._snapshot), status)


def make_display(console: Console) -> Display:
    """A live one in a terminal, else plain lines."""
    return LiveDisplay(console) if console.is_terminal else Display(console)


def campaign_table(snapshot: Snapshot, only: Collection[str] | None = None) -> Table:
    """The figures per problem (``only``: of these), and the whole campaign's own in the last row."""
    rows = [row for row in snapshot.rows if only is None or row.problem in only]
    left_out = len(snapshot.rows) - len(rows)
    whole = f"campaign ({len(snapshot.rows)} problems)" if left_out else "campaign"
    table = Table(title="", box=None, pad_edge=False, show_footer=True)
    widest = max((len(row.problem) for row in rows), default=8)
    table.add_column("problem", whole, no_wrap=True, min_width=widest)
    table.add_column("attempts", str(snapshot.attempts), justify="right")
    table.add_column("passed", str(snapshot.passed), justify="right")
    table.add_column("baseline µs", justify="right")
    table.add_column("best µs", justify="right")
    table.add_column("speedup", _figure(snapshot.geomean_speedup, "×"), justify="right")
    table.add_column("SOL score", _figure(snapshot.median_sol), justify="right")
    for row in rows:
        table.add_row(
            row.problem, str(row.attempts), str(row.passed), _figure(row.baseline_us), _figure(row.best_us),
            _figure(row.speedup, "×"), _figure(row.sol_score),
        )
    return table


def _sentence(evaluation: Evaluation) -> str:
    attempt, measured = evaluation.attempt, evaluation.duplicate_of or evaluation
    words = [
        f"{attempt.problem.name}: {_short(attempt.slug)} by {attempt.agent.name}", measured.verdict or evaluation.state
    ]
    if measured.latency_geomean_us is not None and measured.verdict == "passed":
        words.append(f"{measured.latency_geomean_us:.1f} µs")
        if measured.speedup and attempt.kind != Attempt.Kind.BASELINE:
            words.append(f"{measured.speedup:.2f}×")
    elif measured.message:
        words.append("".join(c if c.isprintable() else " " for c in measured.message[:160]))
    return "  ".join(words)


def _short(slug: str) -> str:
    """Both ends of a long one: a tuner's begins with what it set first and ends with a digest of all."""
    return slug if len(slug) <= LONGEST_SLUG else f"{slug[:SLUG_BEGIN]}…{slug[-SLUG_END:]}"


def _figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}{unit}" if value >= 1000 else f"{value:.3g}{unit}"

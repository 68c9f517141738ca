"""Results and comparisons as text, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentcore.bounds.score import geomean, sol_score
from agentcore.judge.compare import Comparison
from agentcore.judge.findings import plain
from agentcore.judge.result import EvaluationResult
from agentcore.vocabulary import Verdict

if TYPE_CHECKING:
    from agentcore.baselines.judged import FastestBaseline


def render(result: EvaluationResult, baseline: EvaluationResult | Mapping[str, FastestBaseline] | None) -> str:
    """The result as text: verdict, failed checks and a line per workload, with T_b and S where a baseline is known.

    ``baseline``: one evaluation, or the fastest of several by workload uuid; then each line ends with its kind.
    """
    lines = [f"{result.problem} [{_kind(result)}] on {result.stamp.device_name or result.hardware}: {result.verdict}"]
    if result.stamp.sandbox == "none":
        lines.append("  NO SANDBOX: the kernel could do whatever you can. Believe none of it; it cannot be merged.")
    if result.quick:
        lines.append("  quick: few calls, for a look and not for a record")
    if result.message:
        lines.append(f"  {_said(result.message)}")
    lines += [f"  {c.status:4} {c.name}: {_said(c.message)}" for c in result.failed_checks()]
    if result.workloads:
        lines += _table(result, baseline)
    lines.append("  " + ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()))
    return "\n".join(lines)


def _table(
    result: EvaluationResult, baseline: EvaluationResult | Mapping[str, FastestBaseline] | None
) -> list[str]:
    """A header, a line per workload, and the figures over all of them where the kernel passed."""
    base, kinds = _baseline_times(baseline)
    names = [f"held-out {w.index}" if w.heldout else _axes(w.axes) for w in result.workloads]
    width = min(44, max(map(len, ("workload", *names))))
    lines = [
        f"  {'workload':>{width}} {'T_k us':>10} {'±':>7} {'T_b us':>10} {'T_SOL us':>10} {'T_b/T_k':>8} {'S':>6}"
        + ("  T_b of" if kinds else "")
    ]
    latencies, speedups, scores = [], [], []
    for name, w in zip(names, result.workloads, strict=True):
        t_k, t_b, t_sol = w.latency_us, base.get(w.uuid), w.bound.t_sol_us if w.bound else None
        half = ((w.latency_high_us or 0) - (w.latency_low_us or 0)) / 2
        score = sol_score(t_k, t_b, t_sol) if t_k and t_b and t_sol is not None else None
        speedup = t_b / t_k if t_b and t_k else None
        if not w.heldout:
            latencies.append(t_k)
            speedups.append(speedup)
            scores.append(score)
        lines.append(
            f"  {name[:width]:>{width}} {_number(t_k, 2):>10} {_spread(half if t_k else None):>7} {_number(t_b, 2):>10}"
            f" {_number(t_sol, 2):>10} {_number(speedup, 2):>8} {_number(score, 3):>6}"
            + (f"  {kinds.get(w.uuid, '-')}" if kinds else "")
            + ("" if w.verdict is Verdict.PASSED else f"  {w.verdict}")
        )
    if result.passed and any(latencies):
        lines.append(_summary(latencies, speedups, scores))
    return lines


def _baseline_times(
    baseline: EvaluationResult | Mapping[str, FastestBaseline] | None,
) -> tuple[dict[str, float | None], dict[str, str]]:
    """T_b, µs, and where it is known the kind that it is the time of, by workload uuid."""
    if baseline is None:
        return {}, {}
    if isinstance(baseline, EvaluationResult):
        return {w.uuid: w.latency_us for w in baseline.workloads}, {}
    return {uuid: b.latency_us for uuid, b in baseline.items()}, {uuid: b.kind.value for uuid, b in baseline.items()}


def _axes(axes: Mapping[str, int]) -> str:
    return " ".join(f"{k}={v}" for k, v in axes.items())


def _summary(
    latencies_us: Sequence[float | None], speedups: Sequence[float | None], scores: Sequence[float | None]
) -> str:
    """The figures over all workloads but the held-out ones; each only where every workload has it."""
    said = []
    if measured := _all_known(latencies_us):
        said.append(f"geometric mean {geomean(measured):.2f} us")
    if compared := _all_known(speedups):
        said.append(f"{geomean(compared):.2f} times as fast as the baseline")
    if scored := _all_known(scores):
        said.append(f"SOL score {math.fsum(scored) / len(scored):.3f} (0.5 = the baseline, 1 = the limit)")
    return "  " + ", ".join(said)


def _all_known(values: Sequence[float | None]) -> list[float]:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def render_compiled(result: EvaluationResult) -> str:
    """A compile-only result as text: the verdict, what failed, and what each device function uses."""
    lines = [f"{result.problem} [{_kind(result)}] for {result.hardware}: {result.verdict}, never run or measured"]
    lines += [f"  {c.status:4} {c.name}: {_said(c.message)}" for c in result.failed_checks()]
    for kernel in result.build.resources if result.build else []:
        lines.append(
            f"  {kernel.name[:80]} [{kernel.arch}]: {_known(kernel.registers)} registers,"
            f" {kernel.shared_bytes} B shared, {kernel.stack_bytes} B stack,"
            f" {_known(kernel.spill_store_bytes)} + {_known(kernel.spill_load_bytes)} B spilled"
        )
    if result.build and result.build.resources:
        lines.append(f"  {_said(result.build.resources_said)}")
    lines.append("  " + ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()))
    return "\n".join(lines)


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def render_comparison(comparison: Comparison, old: str, new: str) -> str:
    """A comparison as text: the outcome, a line per workload, and what to know of it. ``old`` and ``new`` are names."""
    lines = [f"{new} against {old}: {comparison}"]
    if comparison.workloads:
        lines.append(f"{'workload':>44} {'old us':>10} {'new us':>10} {'old/new':>8} {'interval':>13}  change")
    for w in comparison.workloads:
        name = _axes(w.axes) or f"#{w.index}"
        lines.append(
            f"{name[:44]:>44} {_number(w.old_us, 2):>10} {_number(w.new_us, 2):>10} {w.ratio:>8.3f}"
            f" {f'{w.low:.3f}–{w.high:.3f}':>13}  {w.change}"
        )
    lines += [f"  note: {note}" for note in comparison.notes]
    return "\n".join(lines)


def render_paired(result: EvaluationResult, old: str, new: str) -> str:
    """An A/B comparison as text: the outcome, a line per workload, and what it rests on."""
    found = result.comparison
    assert found is not None, "not a comparison"
    device = result.stamp.device_name or result.hardware
    if found.ratio is None:
        said = "; ".join(filter(None, (*found.reasons, result.message, found.old_message)))
        return f"{new} against {old} on {device}: {found.change}: {_said(said)}"
    repeated = f", {found.repeated} more were disturbed" if found.repeated else ""
    interval = f"{found.low:.4f}–{found.high:.4f}"
    lines = [
        f"{new} against {old} on {device}: {found.change} ({found.ratio:.4f}×, interval {interval},"
        f" {len(found.rounds)} rounds{repeated})",
        f"{'workload':>44} {'old us':>10} {'new us':>10} {'old/new':>8} {'interval':>15}  change",
    ]
    for w in found.workloads:
        name = _axes(w.axes) or f"#{w.index}"
        times = (geomean([getattr(r, side)[w.uuid] for r in found.rounds]) for side in ("old_us", "new_us"))
        old_us, new_us = (_number(t, 2) for t in times)
        interval = f"{w.low:.4f}–{w.high:.4f}"
        lines.append(f"{name[:44]:>44} {old_us:>10} {new_us:>10} {w.ratio:>8.4f} {interval:>15}  {w.change}")
    lines.append("  " + ", ".join(f"{name} {value:.2f} s" for name, value in result.seconds.items()))
    return "\n".join(lines)


def _said(message: str) -> str:
    """A message that may quote a kernel, its further lines marked: none of them can pass for one of ours."""
    return "\n    | ".join(plain(message).splitlines())


def _kind(result: EvaluationResult) -> str:
    return f"{result.language}, {result.interface}" if result.interface else str(result.language)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spread(half_us: float | None) -> str:
    """Half an interval with two decimals, and more where its first digits lie behind them; 0 only where it is 0."""
    if not half_us or half_us <= 0:
        return "-" if half_us is None else "0"
    return f"{half_us:.{min(6, max(2, 1 - math.floor(math.log10(half_us))))}f}"

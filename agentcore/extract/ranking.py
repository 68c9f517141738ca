"""Which candidates matter: occurrences × T_SOL, as a share of what all candidates of a forward need at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentcore.bounds.bound import BoundUnavailable, bound
from agentcore.bounds.cpu import CpuRates
from agentcore.extract.writing import Written
from agentcore.problems.tensors import InputFactory
from agentcore.vocabulary import HardwareName


@dataclass(frozen=True, slots=True)
class WorkloadBound:
    """T_SOL of one workload and how often each example call (by number) meets it."""

    uuid: str
    axes: dict[str, int]
    calls: dict[int, int]
    t_sol_us: float | None
    limiter: str
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate on one hardware. ``call_us`` and ``call_share``: per example call, all its occurrences together."""

    candidate: str
    occurrences: int
    share: float
    call_us: dict[int, float]
    call_share: dict[int, float]
    workloads: list[WorkloadBound]


def rank(
    written: Sequence[Written], hardware: HardwareName, calls: Sequence[int], cpu_rates: CpuRates | None = None
) -> list[Row]:
    """Rows by share, largest first. ``share`` is the mean of the shares in each call, so that no call outweighs
    another by its size. A workload without a bound counts nothing and says why.
    """
    found = [(w, _bounds(w, hardware, cpu_rates)) for w in written]
    call_us = [
        {
            call: sum((b.t_sol_us or 0.0) * b.calls.get(call, 0) for b in bounds) for call in calls
        }
        for _, bounds in found
    ]
    total = {call: sum(us[call] for us in call_us) for call in calls}
    rows = []
    for (w, bounds), us in zip(found, call_us, strict=True):
        share = {call: us[call] / total[call] if total[call] else 0.0 for call in calls}
        occurrences = len(w.candidate.occurrences)
        rows.append(Row(w.problem.name, occurrences, sum(share.values()) / max(1, len(share)), us, share, bounds))
    return sorted(rows, key=lambda row: (-row.share, row.candidate))


def _bounds(written: Written, hardware: HardwareName, cpu_rates: CpuRates | None) -> list[WorkloadBound]:
    factory = InputFactory(written.problem, "cpu")
    result = []
    for workload in written.problem.workloads:
        calls = written.calls[workload.uuid]
        try:
            record = bound(written.problem, workload, hardware, factory=factory, cpu_rates=cpu_rates)
        except BoundUnavailable as error:
            result.append(WorkloadBound(workload.uuid, workload.axes, calls, None, "", str(error)))
            continue
        result.append(WorkloadBound(workload.uuid, workload.axes, calls, record.t_sol_us, record.limiter))
    return result


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as JSON has them: call numbers become text."""
    return [asdict(row) for row in rows]


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Header and cells: rank, candidate, times, T_SOL per occurrence (range over workloads), sum per call, share."""
    lines = [["#", "candidate", "times", "T_SOL us", "per forward us", "limited by", "share"]]
    for position, row in enumerate(rows, start=1):
        single = [b.t_sol_us for b in row.workloads if b.t_sol_us is not None]
        limiters = ", ".join(dict.fromkeys(b.limiter for b in row.workloads if b.limiter)) or "no bound"
        lines.append(
            [
                str(position), row.candidate, str(row.occurrences), _range(single), _range(list(row.call_us.values())),
                limiters, f"{row.share:.1%}",
            ]
        )
    return lines


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"

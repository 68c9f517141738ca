"""The benchmark's own bounds and baselines of a problem, as a sidecar states them. Kept beside ours, not for scores.

``official.json`` or ``metadata.json``: ``{"hardware", "source", "workloads": [{"index" or "uuid", "sol_us",
"baseline_us"}]}``; times in other units by their suffix (``sol_ms``), workloads also as an object by uuid, or named
``per_workload``, or within a member of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentcore.problems.problem import Problem
from agentcore.problems.workload import Workload

_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
_BOUND = ("sol", "t_sol", "sol_time", "sol_latency", "sol_bound", "speed_of_light", "bound")
_BASELINE = ("baseline", "t_b", "baseline_time", "baseline_latency", "scoring_baseline")
_TEXT = 200
_MAX_US = 1e12
"""A figure above this is none: twelve days."""


@dataclass(frozen=True, slots=True)
class OfficialTimes:
    """µs per call; None where the sidecar states none."""

    sol_us: float | None
    baseline_us: float | None


@dataclass(frozen=True, slots=True)
class Official:
    """``hardware`` and ``source`` in the sidecar's words, at most 200 characters; ``workloads`` by uuid."""

    hardware: str
    source: str
    workloads: Mapping[str, OfficialTimes]


def official_of(problem: Problem) -> Official | None:
    """What the sidecar of ``problem`` says of its workloads; None without one. What fits no workload is left out.

    A row that states axes fits only a workload that has these.
    """
    stated = problem.official
    if stated is None:
        return None
    by_uuid = {workload.uuid: workload for workload in problem.workloads}
    times: dict[str, OfficialTimes] = {}
    for key, row in _rows(_stated_rows(stated)):
        workload = by_uuid.get(str(row.get("uuid", key)))
        index = row.get("index")
        if workload is None and isinstance(index, int) and 0 <= index < len(problem.workloads):
            workload = problem.workloads[index]
        if workload is None or not _same_axes(problem, workload, row.get("axes")):
            continue
        found = OfficialTimes(_time(row, _BOUND), _time(row, _BASELINE))
        if found.sol_us is not None or found.baseline_us is not None:
            times[workload.uuid] = found
    return Official(_text(stated.get("hardware")), _text(stated.get("source")), times)


def _stated_rows(stated: Mapping[str, Any]) -> Any:
    sections = [stated, *(member for member in stated.values() if isinstance(member, dict))]
    return next((s[key] for s in sections for key in ("workloads", "per_workload") if s.get(key)), None)


def _rows(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        yield from ((str(key), row) for key, row in value.items() if isinstance(row, dict))


def _same_axes(problem: Problem, workload: Workload, axes: Any) -> bool:
    if not isinstance(axes, dict):
        return True
    values = problem.definition.axis_values(workload.axes)
    return all(values.get(name, value) == value for name, value in axes.items())


def _time(row: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        for unit, factor in _US.items():
            value = row.get(f"{name}_{unit}")
            # Bounded first: a whole number of JSON may be larger than any float.
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MAX_US / factor:
                return float(value) * factor
    return None


def _text(value: Any) -> str:
    return value[:_TEXT] if isinstance(value, str) else ""

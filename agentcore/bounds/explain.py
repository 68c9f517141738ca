"""A bound's own numbers as lines to read: what ``kernelyard bounds --verbose`` prints below each workload."""

from __future__ import annotations

from agentcore.judge.result import BoundRecord

_OF_BYTES = frozenset(["memory", "l2"])


def explain(record: BoundRecord) -> list[str]:
    """FLOPs by precision, bytes by tensor, time (µs) and rate by resource, with the rates' sources and assumptions."""
    lines = [f"FLOPs     {amount:>22,.0f}  {unit}" for unit, amount in record.flops.items()]
    lines += [f"bytes     {amount:>22,}  {tensor}" for tensor, amount in record.bytes_moved.items()]
    lines += [f"time      {time_us:>19,.3f} µs  {name}" for name, time_us in record.resource_us.items()]
    for name, rate in record.rates.items():
        source = record.rate_sources.get(name, "source not recorded")
        lines.append(f"rate      {_shown(name, rate):>22}  {name}: {source}")
    return lines + [f"assumed   {assumption}" for assumption in record.assumptions]


def _shown(name: str, rate: float) -> str:
    unit = "B/s" if name in _OF_BYTES else "FLOP/s"
    factor, prefix = next(((f, p) for f, p in ((1e15, "P"), (1e12, "T"), (1e9, "G")) if rate >= f), (1.0, ""))
    return f"{rate / factor:,.4g} {prefix}{unit}"

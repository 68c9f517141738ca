"""T_SOL of a workload: the larger of the times that its necessary bytes and products take at peak rates.

No launch latency, no cache misses beyond the first, no arithmetic outside matrix products: what is left out only makes
the bound faster, and a bound must never exceed an honest kernel's time. Output may still be in the cache when a kernel
ends; a rate table can credit that (``deferred_write_bytes``), but nothing measured on an H200 beat full accounting.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentcore.bounds.cache import cached_count
from agentcore.bounds.count import BoundUnavailable, Work
from agentcore.bounds.cpu import CalibrationError, CpuRates, calibrate_cpu, default_cache_dir
from agentcore.bounds.hardware import rate_table
from agentcore.bounds.trace import ORIGINS
from agentcore.judge.result import BoundRecord
from agentcore.problems.loading import Problem
from agentcore.problems.tensors import InputFactory
from agentcore.problems.workload import Workload
from agentcore.vocabulary import HardwareName

__all__ = ["BoundUnavailable", "bound", "bound_from_work"]

_FLOOR_US = 1e-3
_CPU_MARGIN = 1.1
_HALF_RTOL = 2.0**-11
_HALF_ATOL = 1e-3


def bound(
    problem: Problem,
    workload: Workload,
    hardware: HardwareName,
    *,
    factory: InputFactory | None = None,
    cpu_rates: CpuRates | None = None,
    profile: str | None = None,
) -> BoundRecord:
    """The bound of ``workload`` on ``hardware``, with every number it was made of.

    ``factory`` saves compiling the reference again; ``cpu_rates`` are this host's (measured and cached on first use);
    ``profile`` picks another clock regime of a GPU's rate table. Raises BoundUnavailable with the reason.
    """
    work = cached_count(problem, workload, factory)
    if not hardware.is_gpu and cpu_rates is None:
        try:
            cpu_rates = calibrate_cpu(default_cache_dir())
        except CalibrationError as error:
            raise BoundUnavailable(f"the CPU's rates cannot be measured: {error}") from error
    return bound_from_work(problem, workload, hardware, work, cpu_rates=cpu_rates, profile=profile)


def bound_from_work(
    problem: Problem,
    workload: Workload,
    hardware: HardwareName,
    work: Work,
    *,
    cpu_rates: CpuRates | None = None,
    profile: str | None = None,
) -> BoundRecord:
    """As :func:`bound`, for work already counted: one count serves every hardware."""
    assumptions = list(work.notes)
    read, written = sum(work.input_bytes.values()), sum(work.output_bytes.values())
    resource_us: dict[str, float] = {}
    sources: dict[str, str] = {}
    ceilings: dict[str, float] = {}
    if hardware.is_gpu:
        table = rate_table(hardware)
        profile = profile or table.default_profile
        peaks = table.rates(profile)
        rates = {name: rate.value for name, rate in peaks.items()}
        sources = {name: rate.described for name, rate in peaks.items()}
        ceilings = {name: rate.value for name, rate in table.ceilings.items()}
        moved = work.input_bytes | work.output_bytes
        cache = table.deferred_write_bytes.value
        resource_us["memory"] = (read + max(0, written - cache)) / rates["memory"] * 1e6
        resource_us["l2"] = (read + written) / rates["l2"] * 1e6
        assumptions.append(
            f"peak rates, {profile} clocks; every needed input byte comes from memory once;"
            " every output byte is written once"
            + (f", at most {cache / 1e6:.0f} MB of them still in L2 at the end" if cache else "")
        )
    else:
        if cpu_rates is None:
            raise ValueError("the CPU's bound needs cpu_rates; measure them with calibrate_cpu")
        moved = dict(work.input_bytes)
        rates = _cpu_rate_table(cpu_rates, read)
        profile = "measured"
        others = 0.0 if cpu_rates.was_quiet else cpu_rates.others_share or 0.0
        busy = f" while others used {others:.0%} of it," if others else ""
        sources = dict.fromkeys(
            rates, f"measured on this host at {cpu_rates.measured_at:%Y-%m-%d %H:%M} UTC, {cpu_rates.threads} threads,"
            f"{busy} raised by {_CPU_MARGIN - 1:.0%}"
        )  # fmt: skip
        ceilings = {name: rate / _CPU_MARGIN for name, rate in rates.items()}
        resource_us["memory"] = read / rates["memory"] * 1e6
        assumptions.append(
            f"CPU rates measured on this host with {cpu_rates.threads} threads, raised by {_CPU_MARGIN - 1:.0%};"
            " inputs may arrive from the shared cache, outputs may still be in a cache when the call ends (not counted)"
        )
    flops = _by_unit(problem, workload, work.flops, rates, assumptions)
    resource_us["products"] = sum(amount / rates[unit] for unit, amount in flops.items()) * 1e6
    limiter = max(resource_us, key=lambda name: resource_us[name])
    used = [name for name in rates if name in resource_us or name in flops]
    return BoundRecord(
        t_sol_us=max(resource_us[limiter], _FLOOR_US),
        limiter=limiter,
        hardware=hardware,
        flops=flops,
        bytes_moved=moved,
        resource_us=resource_us,
        rates={name: rates[name] for name in used},
        rate_sources={name: sources[name] for name in used},
        ceilings={name: ceilings[name] for name in used if name in ceilings},
        profile=profile or "",
        assumptions=assumptions,
    )


def _cpu_rate_table(rates: CpuRates, size: int) -> dict[str, float]:
    # Everything that is not 16 bits or narrower counts at the fp32 rate, fp64 too: faster than it can be.
    wide, narrow = rates.fp32_flops * _CPU_MARGIN, rates.half_flops * _CPU_MARGIN
    return {"memory": rates.read_rate(size) * _CPU_MARGIN, "half": narrow, "tf32": wide, "fp32": wide, "fp64": wide}


def _by_unit(
    problem: Problem, workload: Workload, flops: Mapping[str, int], rates: Mapping[str, float], assumptions: list[str]
) -> dict[str, float]:
    """FLOPs by the fastest unit of the device that may do them."""
    by_unit: dict[str, float] = {}
    for origin, amount in flops.items():
        if origin == "fp32":
            unit = "half" if _half_is_enough(problem, workload) else "tf32"
            why = "the tolerance permits 16-bit operands" if unit == "half" else "no fp32-accurate scheme is faster"
            assumptions.append(f"products of fp32 operands at the {unit} rate: {why}")
        else:
            # A device without a narrow unit uses the next wider one it has.
            unit = next(name for name in ORIGINS[ORIGINS.index(origin) :] if name in rates)
            assumptions.append(f"products of operands that come from {origin} at the {unit} rate")
        by_unit[unit] = by_unit.get(unit, 0.0) + amount
    return by_unit


def _half_is_enough(problem: Problem, workload: Workload) -> bool:
    """Whether 16-bit operands could meet the tolerance: when in doubt, yes (the faster unit, the lower bound)."""
    tolerance = workload.tolerance
    wide_outputs = all(spec.dtype in ("float32", "float64") for spec in problem.definition.outputs.values())
    tight = tolerance.max_rtol < _HALF_RTOL and tolerance.max_atol < _HALF_ATOL
    return not (wide_outputs and tight)

"""How well one evaluation repeats another of the same kernel: what two measurements must differ by to mean anything.

An evaluation's own interval covers the noise *within* its run. Between runs more things move: an offset in microseconds
that a runner keeps for its whole life (where its memory, page tables and marks came to lie), a share of the time itself
(clocks, temperature, neighbours), and on the CPU target what other processes of the host take away. All are taken as
common to the workloads of a run, so that measuring many of them does not average the noise away.

The figures are measured, and tests hold them against the records: five evaluations of three kernels on an H200
(tests/data/h200: repeatability.json, ab_same.json), 32 of four kernels on a shared two-core host, now quiet, now busy
(tests/data/cpu/repeatability.json).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentcore.judge.result import EnvironmentStamp

Z_95 = 1.959964
"""The 97.5 % quantile of the normal distribution: the half-width of a 95 % interval in standard deviations."""

LEAST_REMAINDER = 0.05
"""A time is never taken to be offset to less than this share of itself, so that its logarithm stays finite."""


@dataclass(frozen=True, slots=True)
class Repeatability:
    """From run to run: standard deviations of ``offset_us`` microseconds and of ``share`` of the time.

    ``unit_share`` comes on top where the two runs were on two devices of one model. GPUs of one model differ by several
    percent in the same job (Sinha et al., "Not All GPUs Are Created Equal", SC 2022); hosts with one CPU model by more.
    """

    offset_us: float
    share: float
    unit_share: float


_GPU = Repeatability(offset_us=0.12, share=0.006, unit_share=0.025)
_CPU = Repeatability(offset_us=1.5, share=0.05, unit_share=0.125)

QUIET_SHARE = 0.05
"""Other processes may use this share of a host's cores before the times of its CPU target begin to grow."""
DELAY_US_PER_SHARE, MOST_DELAY_US = 400.0, 40.0
"""How much a call on a busier host may be delayed, and at most: half the cores taken made 12 µs into 40 µs."""
UNKNOWN_SHARE = 0.1
"""Assumed where a record does not say how busy its host was."""


def repeatability(stamp: EnvironmentStamp) -> Repeatability:
    """What to expect of the device that ``stamp`` names."""
    return _GPU if stamp.hardware.is_gpu else _CPU


def run_limits(stamp: EnvironmentStamp, latencies_us: Sequence[float]) -> tuple[float, float]:
    """How far the mean logarithm of one run's times may lie (above, below) what the next run would say, 95 %, for the
    offset and the host's load alone; ``share`` is the caller's to add.

    A run whose offset is δ reports T where the kernel takes T − δ: the mean of ln(T / (T − δ)). Load only ever delays.
    Raises ValueError on no latencies.
    """
    if not latencies_us:
        raise ValueError("no latencies to give limits for")
    offset_us = Z_95 * repeatability(stamp).offset_us
    too_high_us = math.hypot(offset_us, delay_us(stamp))
    above = [math.log(t / max(t - too_high_us, LEAST_REMAINDER * t)) for t in latencies_us]
    below = [math.log((t + offset_us) / t) for t in latencies_us]
    return sum(above) / len(above), sum(below) / len(below)


def delay_us(stamp: EnvironmentStamp) -> float:
    """By how much others on the host may have delayed a call, 0 on a GPU and on a quiet host."""
    if stamp.hardware.is_gpu:
        return 0.0
    share = stamp.host_load.others_share if stamp.host_load else UNKNOWN_SHARE
    return min(MOST_DELAY_US, DELAY_US_PER_SHARE * max(0.0, share - QUIET_SHARE))

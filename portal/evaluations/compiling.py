"""Compile-only evaluations: for hardware that no host of the fleet has, so that work for it can be prepared.

An attempt for such a hardware is compiled instead of measured, and says so. Once a host joins that has the hardware,
what was only compiled is queued to be measured. Not for compiling: agentcore.judge.compile_only does that.
"""

from __future__ import annotations

from functools import cache

from django.db.models import Exists, OuterRef

from agentcore.build.toolchain import ToolMissing, find_tool
from agentcore.vocabulary import HardwareName, Language
from portal.evaluations.models import Device, Evaluation
from portal.events.models import Event
from portal.events.models import log as log_event

COMPILING = "compile"
"""The cluster for compile-only evaluations of every hardware class: they need a compiler, and no device."""

_JOINED = "fleet.joined"


@cache
def can_compile() -> bool:
    """Whether this host has the compiler that compile-only evaluations need."""
    try:
        find_tool("nvcc")
    except ToolMissing:
        return False
    return True


def announce(hardware: HardwareName) -> None:
    """Log that a host joined which measures ``hardware``, unless that is known already."""
    if not is_measured(hardware):
        log_event(_JOINED, "system", hardware=hardware.value)


def is_measured(hardware: HardwareName) -> bool:
    """Whether any host of the fleet has ever joined for ``hardware``, or reported a device of it."""
    return (
        not hardware.is_gpu
        or Device.objects.filter(hardware=hardware.value).exists()
        or Event.objects.filter(kind=_JOINED, data__hardware=hardware.value).exists()
    )


def kind_for(language: Language | str, hardware: HardwareName) -> str:
    """What to ask for when an attempt is pushed: a measurement, or compiling only where nobody could measure it."""
    if Language(language).compiles_anywhere and not is_measured(hardware):
        return Evaluation.Kind.COMPILE
    return Evaluation.Kind.MEASURE


def only_compiled(limit: int) -> list[Evaluation]:
    """Compile-only evaluations of attempts that were never asked to be measured on a hardware that now can be."""
    measured = [hardware.value for hardware in HardwareName if hardware.is_gpu and is_measured(hardware)]
    asked = Evaluation.objects.filter(kind=Evaluation.Kind.MEASURE)
    rows = Evaluation.objects.filter(kind=Evaluation.Kind.COMPILE, hardware__in=measured).exclude(
        Exists(asked.filter(attempt=OuterRef("attempt"), hardware=OuterRef("hardware")))
    )
    return list(rows.select_related("attempt__problem").order_by("id")[:limit])

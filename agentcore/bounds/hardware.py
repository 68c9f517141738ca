"""Peak rates of each GPU class, with the clock and the source of every number. Packaged data, no measurement.

To add a class of GPU: a name in ``agentcore.vocabulary.HardwareName`` (with its ``arch``) and a table of that name in
``hardware.json`` beside this file. A table has at least one profile (a clock regime) with the rates ``memory`` and
``l2`` in byte/s and those of fp4, fp8, half, tf32, fp32 and fp64 that the device has, in dense FLOP/s; each states its
source and, where it depends on one, its clock. Rates are peaks: nothing may ever be measured above them. What was
measured at best goes under ``ceilings``, by the same names; bounds show it and never use it.

The CPU's rates are measured on the host instead: see ``agentcore.bounds.cpu``.
"""

from __future__ import annotations

import functools
import json
from importlib import resources

from pydantic import BaseModel, ConfigDict

from agentcore.vocabulary import HardwareName


class Rate(BaseModel):
    """One peak rate: ``value`` per second in ``unit`` (``byte/s`` or ``FLOP/s``), at ``clock_mhz`` where it has one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    unit: str
    source: str
    clock_mhz: int | None = None

    @property
    def described(self) -> str:
        """The source, with the clock where the rate depends on one."""
        return f"{self.source} (at {self.clock_mhz} MHz)" if self.clock_mhz else self.source


class Size(BaseModel):
    """A number of bytes, with its source."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: int
    source: str


class RateTable(BaseModel):
    """What a class of GPU can do at best. A profile is a set of rates under one clock regime.

    ``ceilings`` are the best rates measured on such a device, for information.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str
    default_profile: str
    deferred_write_bytes: Size
    ceilings: dict[str, Rate] = {}
    profiles: dict[str, dict[str, Rate]]

    def rates(self, profile: str | None = None) -> dict[str, Rate]:
        """Rates by resource (``memory``, ``l2``) and by product unit (``half``, ``tf32``, ``fp32`` and so on).

        A device without a unit has no entry for it. Raises KeyError naming the profiles there are.
        """
        name = profile or self.default_profile
        if name not in self.profiles:
            raise KeyError(f"{self.device} has no rate profile {name!r}; it has {', '.join(self.profiles)}")
        return self.profiles[name]


@functools.cache
def _tables() -> dict[str, RateTable]:
    text = resources.files("agentcore.bounds").joinpath("hardware.json").read_text("utf-8")
    return {name: RateTable.model_validate(table) for name, table in json.loads(text).items()}


def rate_table(hardware: HardwareName) -> RateTable:
    """The rate table of a GPU class. Raises KeyError for the CPU, whose rates are measured on its host."""
    if not hardware.is_gpu:
        raise KeyError("the CPU has no rate table; measure it with agentcore.bounds.cpu.calibrate_cpu")
    return _tables()[hardware.value]

"""One problem as everything else sees it: validated, immutable, and with a digest of what decides its results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcore.problems.definition import Definition
from agentcore.problems.workload import Workload
from agentcore.vocabulary import HardwareName


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel to optimise, with everything the judge needs to know about it."""

    name: str
    definition: Definition
    reference: str = field(repr=False)
    workloads: tuple[Workload, ...] = field(repr=False)
    cpu_workloads: tuple[Workload, ...] = field(repr=False)
    heldout: tuple[Workload, ...] = field(repr=False)
    brief: str = field(repr=False)
    root: Path
    digest: str
    official: dict[str, Any] | None = field(repr=False, default=None)
    """The benchmark's own bounds and baselines as they came (see ``official``)."""
    original_name: str = ""
    """What its source calls it; differs from ``name`` where that cannot be a name here."""
    source: str = ""
    """Where it was imported from, in words; empty for a directory that is used in place."""
    warnings: tuple[str, ...] = field(repr=False, compare=False, default=())
    """What its author may not have meant, each with its place: it loads, and the results do not depend on it."""

    @property
    def all_workloads(self) -> tuple[Workload, ...]:
        return (*self.workloads, *self.cpu_workloads, *self.heldout)

    def workloads_for(self, hardware: HardwareName) -> tuple[Workload, ...]:
        """The workloads that are measured on ``hardware``: the CPU has its own list where the problem gives one."""
        return self.cpu_workloads if not hardware.is_gpu and self.cpu_workloads else self.workloads

    def heldout_for(self, hardware: HardwareName) -> tuple[Workload, ...]:
        """The held-out workloads for ``hardware``; for the CPU all of them where the problem has no CPU list."""
        if not hardware.is_gpu and not self.cpu_workloads:
            return self.heldout
        return tuple(w for w in self.heldout if (w.target == "cpu") != hardware.is_gpu)


def digest_of(definition: Definition, reference: str, *lists: tuple[Workload, ...]) -> str:
    """One sha256 over what decides a result, independent of how the JSON was laid out."""
    described: Mapping[str, Any] = definition.model_dump(mode="json", exclude={"reference"})
    content = {
        # Fields that came later count where they say something, so that older digests stay.
        "definition": {key: value for key, value in described.items() if key != "constraints" or value},
        "reference": reference,
        "lists": [[workload.model_dump(mode="json") for workload in workloads] for workloads in lists],
    }
    # Order matters: the order of inputs, outputs and axes is the kernel's ABI.
    return hashlib.sha256(json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()

"""What an evaluation is asked for. Makes no judge, and needs neither torch nor a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.problems import Problem
from agentcore.vocabulary import HardwareName, Language


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to judge. ``workload_uuids`` restricts the workloads (empty: all); ``heldout`` adds the held-out shapes.

    ``call_timeout_s`` bounds every call, the first included, instead of what the effort allows.
    """

    problem: Problem
    kernel_dir: Path
    language: Language
    hardware: HardwareName
    cache_dir: Path
    sandbox: str = "auto"
    quick: bool = False
    heldout: bool = True
    workload_uuids: tuple[str, ...] = ()
    call_timeout_s: float | None = None
    progress: Callable[[str], None] = field(default=lambda _text: None)

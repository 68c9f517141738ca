"""What an evaluation is asked for. Makes no judge, and needs neither torch nor a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcore.official.solution import OfficialSolution
from agentcore.problems import Problem, Workload, missing_blobs
from agentcore.vocabulary import HardwareName, Language


def unheard(_text: str) -> None:
    """Progress that nobody wants to know of."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to judge. ``workload_uuids`` restricts the workloads (empty: all); ``heldout`` adds the held-out shapes.

    ``call_timeout_s`` bounds every call, the first included, and ``memory_bytes`` what the candidate's processes hold
    together, instead of what the effort allows. ``first_call_timeout_s`` bounds the loading and the first call of every
    workload alone, where a program is compiled. ``official`` is the solution.json that ``kernel_dir`` was staged from,
    where it was (``agentcore.official``).
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
    first_call_timeout_s: float | None = None
    memory_bytes: int | None = None
    official: OfficialSolution | None = None
    progress: Callable[[str], None] = unheard

    @property
    def runs_as(self) -> Language:
        """The language whose runner and rules apply. Official solutions are called from Python and may call torch."""
        return Language.TORCH if self.official is not None else self.language

    @property
    def interface(self) -> str:
        """How the kernel is called, where that is not by our own interface."""
        return self.official.interface if self.official is not None else ""

    def chosen(self) -> list[tuple[Workload, bool]]:
        """The workloads to measure that can run here, and whether they are held out."""
        absent = missing_blobs(self.problem)
        chosen = [
            (w, False) for w in self.problem.workloads_for(self.hardware)
            if not self.workload_uuids or w.uuid in self.workload_uuids
        ]
        if self.heldout:
            chosen += [(w, True) for w in self.problem.heldout_for(self.hardware)]
        return [(w, heldout) for w, heldout in chosen if w.uuid not in absent]

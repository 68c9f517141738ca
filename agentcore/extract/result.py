"""What an extraction gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agentcore.extract.candidates import Left
from agentcore.extract.capture import Agreement
from agentcore.extract.ranking import Row
from agentcore.extract.writing import Written


@dataclass(slots=True)
class Extraction:
    """Problems written, what was left out, how well they agree with the model, and a ranking per hardware."""

    model: str
    output: Path
    shapes: dict[int, list[str]]
    """Per example call (by number), its tensor arguments as ``name dtype[sizes]``."""

    parameters: int
    written: list[Written]
    left: list[Left]
    whole: Agreement
    was_run: bool
    rankings: dict[str, list[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """What must not be relied on: disagreement with the model."""
        return [f"the exported model {f}" for f in self.whole.failures] + [
            f"{w.problem.name}: {failure}" for w in self.written for failure in w.agreement.failures
        ]

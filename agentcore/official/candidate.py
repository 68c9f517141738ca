"""What ``kernelyard judge`` is given: a kernel directory of ours, or an official solution, staged as one.

Not for judging it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcore.kernel_language import language_of
from agentcore.official.reading import SOURCE_SUFFIXES, SolutionError, is_solution, read_solution
from agentcore.official.solution import MODULES, OfficialSolution
from agentcore.official.staging import staged
from agentcore.paths import shown
from agentcore.problems import Problem
from agentcore.vocabulary import HardwareName, Language


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel to judge. ``official`` is the solution it was staged from, None for a directory of ours."""

    kernel_dir: Path
    language: Language
    official: OfficialSolution | None = None


@contextmanager
def candidate(path: Path, language: Language | None, problem: Problem) -> Iterator[Candidate]:
    """The candidate at ``path``; a staged one is gone afterwards. A directory of ours shows its ``language`` mostly.

    Raises SolutionError: nothing there, a solution that is invalid, for another problem, or in need of a Python
    package that is not installed. Raises LanguageUnclear.
    """
    if path.is_dir() and (language is not None or not is_solution(path)):
        yield Candidate(path.resolve(), language or language_of(path))
        return
    if not path.exists():
        raise SolutionError.at(path, None, "", "does not exist; name a directory with a kernel, or a solution.json")
    if path.name in {language.source_name for language in Language}:
        raise SolutionError.at(path, None, "", f"is a kernel's source; name the directory that holds it: {path.parent}")
    if path.suffix in SOURCE_SUFFIXES:
        raise SolutionError.at(
            path, None, "", "is one source file; a kernel is the directory that holds its source, or a solution.json"
        )
    solution = read_solution(path)
    if language not in (None, solution.language):
        raise SolutionError.at(path, None, "spec.languages", f"is {solution.language} here; leave --language out")
    if solution.definition != problem.name:
        raise SolutionError.at(path, None, "definition", f"is {shown(solution.definition)}, not {problem.name!r}")
    if absent := missing_modules(solution):
        raise SolutionError.at(
            path, None, "spec.languages", f"needs the Python package {', '.join(absent)}, which is not installed here"
        )
    with staged(solution, problem.definition) as directory:
        yield Candidate(directory, solution.language, solution)


def missing_modules(solution: OfficialSolution) -> list[str]:
    """The modules that the solution's languages import and this Python does not have. Imports none of them."""
    return [name for name in map(MODULES.get, solution.spec.languages) if name is not None and not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def is_made_for(solution: OfficialSolution, hardware: HardwareName) -> bool:
    """Whether ``target_hardware`` names ``hardware``, or whatever device is there."""
    words = [target.lower() for target in solution.spec.target_hardware]
    anything = ("local", "cuda") if hardware.is_gpu else ("local",)
    return any(word in anything or hardware.value in word for word in words)

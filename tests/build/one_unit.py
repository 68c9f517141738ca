"""Several kernels as one source, each in a namespace of its own: most are short, and the headers they need long.

Only kernels that include the same standard headers, or ever more of them, share a source, the modest ones first, so
that none sees a header before it that it does not include itself. What a kernel defines ends with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from agentcore.build.header import problem_header
from agentcore.problems import Problem
from agentcore.vocabulary import Language

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<(?P<standard>[^>]+)>|"(?P<own>[^"]+)").*$', re.M)
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once.*$", re.M)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)


@dataclass(frozen=True, slots=True)
class Piece:
    """A kernel's text with its own headers in place of their includes, and the standard headers it had, in order."""

    name: str
    text: str
    standard: tuple[str, ...]

    @staticmethod
    def of(name: str, files: Mapping[str, bytes], problem: Problem, language: Language = Language.CUDA) -> Piece:
        """From a kernel's files. Raises KeyError for an include that is not among them."""
        texts = {file: content.decode() for file, content in files.items()}
        texts["problem.h"] = problem_header(problem.definition, language)
        standard: dict[str, None] = {}
        begun: set[str] = set()

        def written_out(file: str) -> str:
            begun.add(file)  # every header says #pragma once

            def included(match: re.Match[str]) -> str:
                if match["standard"]:
                    standard[match["standard"]] = None
                    return ""
                return written_out(match["own"]) + "\n" if match["own"] not in begun else ""

            return f'#line 1 "{file}"\n' + _INCLUDE.sub(included, _PRAGMA_ONCE.sub("", texts[file]))

        # As in a build, problem.h is seen first.
        text = written_out("problem.h") + written_out(language.source_name)
        return Piece(name, text, tuple(standard))


def units(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """The pieces in as few sources as their standard headers allow, each in the order in which they stand there."""
    found: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda each: (len(each.standard), each.standard, each.name)):
        fitting = [unit for unit in found if set(unit[-1].standard) <= set(piece.standard)]
        if fitting:
            max(fitting, key=lambda unit: len(unit[-1].standard)).append(piece)
        else:
            found.append([piece])
    return found


def unit_source(unit: Iterable[Piece], functions: Collection[str] = ("kernel_launch",)) -> str:
    """One source of all pieces. The C ``functions``, which each has, are numbered in their order: kernel_launch_0.

    Line numbers are those of the kernels as far as their own headers' includes.
    """
    lines: list[str] = []
    seen: set[str] = set()
    for number, piece in enumerate(unit):
        defined = sorted({*functions, *_DEFINE.findall(piece.text)})
        lines += [f"#include <{header}>" for header in piece.standard if header not in seen]
        seen.update(piece.standard)
        lines += [f"#undef {name}" for name in defined]
        lines += [f"#define {name} {name}_{number}" for name in functions]
        lines += [f"namespace kernel_{number} {{", piece.text, f"}}  // {piece.name}"]
        lines += [f"#undef {name}" for name in defined]
    return "\n".join(lines)

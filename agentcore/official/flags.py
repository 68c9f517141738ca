"""Which compiler and linker flags a ``solution.json`` may ask for: those that shape the code, none that name files.

The compilers run in the sandbox, so this is not what keeps the host safe. It keeps a solution from depending on files
of one machine, and from loading code into the compiler. Architectures are chosen by the hardware that is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LIBRARIES = frozenset(
    "cuda cudart cublas cublasLt cudnn cudnn_ops cudnn_cnn cudnn_adv cudnn_graph cufft curand cusolver cusparse nvrtc"  # noqa: SIM905
    " nvJitLink gomp m pthread dl rt".split()
)
"""What ``-l`` may name."""

_VALUE = r"[A-Za-z0-9_.,:+=\-]*"
_FILES = "plugin|dump|profile|save|stack-usage|auto-profile|callgraph|record|sanitize|module|use-ld|lto"
# No flag that reads, writes, loads or runs something: -include, -I, -L, -o, -x, @file, -B, -fplugin, -specs, -wrapper.
_COMMON = (
    r"-O(?:[0-3sgz]|fast)?",
    r"-g[0-3]?",
    r"-w",
    r"-W(?![alp],)[A-Za-z0-9=+_\-]*",
    r"-std=(?:c|gnu)\+\+(?:11|14|17|20|23)",
    rf"-[DU][A-Za-z_][A-Za-z0-9_]*(?:={_VALUE})?",
    r"-m[a-z0-9][A-Za-z0-9_.=\-]*",
    rf"-f(?!{_FILES})[a-z][a-z0-9\-]*(?:=[A-Za-z0-9_.\-]+)?",
    r"-pthread",
    r"-fopenmp",
)
_NVCC = (
    r"--?use_fast_math",
    r"--?(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)",
    r"--?expt-(?:relaxed-constexpr|extended-lambda)",
    r"--?extended-lambda",
    r"--?(?:maxrregcount)=\d+",
    r"--?(?:lineinfo|generate-line-info|extra-device-vectorization|restrict|split-compile=\d+|threads=\d+)",
    r"--?(?:default-stream)[= ](?:legacy|null|per-thread)",
    r"--?(?:diag-suppress|diag_suppress)[= ]?[0-9,]+",
    r"--optimize=[0-3]",
    rf"--?(?:ptxas-options)=?{_VALUE}",
)
_ARCHITECTURE = re.compile(
    r"--?(?:gencode|generate-code|arch|gpu-architecture|code|gpu-code)(?:=[A-Za-z0-9_,=\[\]]+)?"
)
_PASS_ON = re.compile(r"(-Xptxas|--ptxas-options|-Xcompiler|--compiler-options|-Xcudafe)(?:=(.+))?")
_TAKES_A_WORD = re.compile(
    r"-Xptxas|-Xcompiler|--ptxas-options|--compiler-options|-Xcudafe|--?maxrregcount|--?gencode|--?generate-code|--?arch"
    r"|--?gpu-architecture|--?code|--?gpu-code|--?default-stream|--?threads|--?t"
)
_PLAIN = re.compile("|".join(_COMMON))
_DEVICE = re.compile("|".join((*_COMMON, *_NVCC)))
_PTXAS = re.compile(r"--?[A-Za-z][A-Za-z0-9\-]*(?:=[A-Za-z0-9,\-]+)?|[0-9]+|-O[0-4]")
_CUDAFE = re.compile(r"--diag_suppress=[a-z0-9_]+|--display_error_number")
_LINKER = re.compile(rf"-l(?:{'|'.join(sorted(map(re.escape, LIBRARIES)))})|-fopenmp|-pthread|-O[0-3]|-s")


def compiler_flag_faults(flags: Sequence[str]) -> list[str]:
    """What is wrong with flags for the host compiler or nvcc, one line a flag. Empty if nothing is."""
    faults = []
    for words in _grouped(flags):
        if not _accepted(words):
            faults.append(f"flag {' '.join(words)!r:.80} is not one that a solution may set")
    return faults


def linker_flag_faults(flags: Sequence[str]) -> list[str]:
    """What is wrong with linker flags, one line a flag. Empty if nothing is."""
    return [
        f"flag {flag!r:.80} is not one that a solution may set; libraries are -l with {', '.join(sorted(LIBRARIES))}"
        for flag in flags
        if not _LINKER.fullmatch(flag)
    ]


def without_architectures(flags: Sequence[str]) -> tuple[str, ...]:
    """Flags less those that choose a GPU architecture, of which the judge has its own."""
    return tuple(word for words in _grouped(flags) if not _is_architecture(words) for word in words)


def language_standard(flags: Sequence[str], least: int = 20) -> tuple[tuple[str, ...], str]:
    """(flags without any ``-std``, the ``-std`` flag to use): the one asked for, or C++``least`` if that is newer.

    torch's headers need a standard of their own; an older one that a solution was written for is a subset of it.
    """
    asked = [match for flag in flags if (match := re.fullmatch(r"-std=(c|gnu)\+\+(\d+)", flag))]
    rest = tuple(flag for flag in flags if not re.fullmatch(r"-std=(?:c|gnu)\+\+\d+", flag))
    if asked and int(asked[-1][2]) > least:
        return rest, asked[-1].group()
    return rest, f"-std={asked[-1][1] if asked else 'c'}++{least}"


def _grouped(flags: Sequence[str]) -> list[tuple[str, ...]]:
    """Flags with the word that belongs to them: ``-Xptxas -v``, ``-gencode arch=…``, ``-maxrregcount 64``."""
    groups: list[tuple[str, ...]] = []
    pending: str | None = None
    for flag in flags:
        if pending is not None:
            groups.append((pending, flag))
            pending = None
        elif _TAKES_A_WORD.fullmatch(flag):
            pending = flag
        else:
            groups.append((flag,))
    if pending is not None:
        groups.append((pending,))
    return groups


def _accepted(words: tuple[str, ...]) -> bool:
    if _TAKES_A_WORD.fullmatch(words[0]) and len(words) == 1:
        return False
    if _is_architecture(words):
        return all(re.fullmatch(r"[A-Za-z0-9_,=\-\[\]]+", word) for word in words)
    if match := _PASS_ON.fullmatch(words[0]):
        value = match[2] if match[2] is not None else words[1] if len(words) == 2 else ""
        pattern = {"-Xptxas": _PTXAS, "--ptxas-options": _PTXAS, "-Xcudafe": _CUDAFE}.get(match[1], _PLAIN)
        return bool(value) and all(pattern.fullmatch(part) for part in value.split(","))
    if len(words) == 2:
        return bool(re.fullmatch(r"\d+|legacy|per-thread|null", words[1]))
    return bool(_DEVICE.fullmatch(words[0]))


def _is_architecture(words: tuple[str, ...]) -> bool:
    return bool(_ARCHITECTURE.fullmatch(words[0]))

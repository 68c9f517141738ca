"""Which launched kernels a language does not allow, by their names.

The names come from the runner: a claim, which a candidate that patches its process can forge. It can flag a kernel
and never clear one, and catches the honest mistake and the lazy cheat: leaving the work to torch or a library.
"""

from __future__ import annotations

import re
from typing import Any

from agentcore.vocabulary import Language

ASKED = frozenset({Language.TRITON, Language.CUTE})
"""Languages whose kernels share a process with torch, and must not leave the work to it."""

MAX_SHOWN = 3

# Triton and CuTe DSL give kernels plain identifiers, so these are torch's and other C++ ones; of them, some only copy.
_CPLUSPLUS = re.compile(r"::|<")
_HARMLESS = re.compile(r"FillFunctor|direct_copy_kernel|float16_copy_kernel")
# Plain identifiers too: kernels of cuBLAS and cuDNN, and what torch.compile generates.
_LIBRARY = re.compile(
    r"(?:ampere|volta|turing|hopper|blackwell|maxwell|sm\d{2,3})_\w*(?:gemm|xmma|cudnn|tensorop)"
    r"|nvjet_|cutlass_?\d+_|cublas|cudnn|triton_(?:poi|red|per|tem|mm|for)_"
)


def foreign_kernels(names: list[str]) -> list[str]:
    """Those of the names that belong to torch's or a library's kernels, shortened."""
    return [
        name[:160] for name in names
        if _LIBRARY.match(name) or (_CPLUSPLUS.search(name) and not _HARMLESS.search(name))
    ]


def read_claim(answer: dict[str, Any]) -> list[str] | None:
    """The names in a runner's answer, or None where it is no list of names."""
    names = answer.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return names[:64]

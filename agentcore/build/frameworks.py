"""The Python packages that kernel languages need on a host: which are here, and what to install for one that is not."""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib import metadata

from agentcore.vocabulary import Language

_NEEDED = {
    Language.CUTE: ("nvidia-cutlass-dsl", "in the checkout: .venv/bin/pip install -e '.[cute]'"),
    Language.TRITON: ("triton", "it comes with the CUDA builds of torch: pip install triton"),
}


class FrameworkMissing(RuntimeError):
    """A language's package is not installed on this host; the message says what to install. No fault of a kernel."""


@cache
def framework_version(language: Language) -> str:
    """The version of what ``language`` is written in, '' where that is Python or a compiler's own.

    Raises FrameworkMissing. Looks at what is installed and imports nothing.
    """
    if language not in _NEEDED:
        return ""
    package, remedy = _NEEDED[language]
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        if language is Language.TRITON and importlib.util.find_spec("triton") is not None:
            return "triton"  # some builds of torch bring it under a package name of their own
        raise FrameworkMissing(f"{language} kernels need {package}, which this host lacks; {remedy}") from None

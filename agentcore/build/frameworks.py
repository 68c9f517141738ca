"""The Python packages that kernel languages need on a host: which are here, and what to install for one that is not."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from importlib import metadata

from agentcore.vocabulary import Language

_NEEDED = {
    Language.CUTE: ("nvidia-cutlass-dsl", "in the checkout: .venv/bin/pip install -e '.[cute]'"),
    Language.TRITON: ("triton", "it comes with the CUDA builds of torch: pip install triton"),
}


_LEAST = {Language.CUTE: (4, 8)}
"""As in pyproject.toml: earlier versions want a driver to compile, or do not say what a kernel uses."""


class FrameworkMissing(RuntimeError):
    """A language's package is not installed on this host, or is too old; the message says what to install.

    No fault of a kernel.
    """


@cache
def framework_version(language: Language) -> str:
    """The version of what ``language`` is written in, '' where that is Python or a compiler's own.

    Raises FrameworkMissing. Looks at what is installed and imports nothing.
    """
    if language not in _NEEDED:
        return ""
    package, remedy = _NEEDED[language]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        if language is Language.TRITON and importlib.util.find_spec("triton") is not None:
            return "triton"  # some builds of torch bring it under a package name of their own
        raise FrameworkMissing(f"{language} kernels need {package}, which this host lacks; {remedy}") from None
    least = _LEAST.get(language, ())
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < least:
        wanted = ".".join(map(str, least))
        raise FrameworkMissing(f"{language} kernels need {package} {wanted}, and this host has {version}; {remedy}")
    return f"{package} {version}"

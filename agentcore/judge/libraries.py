"""Which files a candidate's processes have mapped, read from ``/proc`` by the judge, and what its language allows.

A compiled kernel may use the toolchain's own libraries and nothing else. Python kernels share a process with torch and
all that torch brings, so there only libraries of ready-made kernels stand out. The runner is never asked. What is
unmapped again between two looks is not seen; see README.md for what is left to a candidate, and prebuilt.py, which
keeps such libraries out of its reach.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from agentcore.build.prebuilt import product
from agentcore.vocabulary import Language

WRITABLE = ("/tmp/", "/dev/shm/", "/memfd:", "/SYSV")  # noqa: S108  where a sandboxed candidate can put a file
MAX_NAMED = 5

_TOOLCHAIN = re.compile(
    r"(?:ld-linux[\w-]*|ld|libc|libm|libmvec|libdl|librt|libpthread|libutil|libresolv|libanl|libnss_\w+|libgcc_s"
    r"|libstdc\+\+|libgomp|libatomic|libquadmath|libitm|lib(?:a|l|t|ub)san"
    r"|libcuda|libcudart|libcudadebugger|libnvrtc(?:-builtins)?|libnvJitLink|libnvvm|libnvidia-[\w-]+)"
    r"[-.\d]*\.so(?:\.[\w.]+)?\Z"
)
_READY_MADE = frozenset({"FlashInfer", "FlashAttention", "TensorRT", "ONNX Runtime", "GGML"})
_PACKAGES = re.compile(
    r"/(?:site|dist)-packages/(?:flash_attn|flashinfer|xformers|vllm|sgl_kernel|deep_gemm|transformer_engine|apex"
    r"|bitsandbytes|fbgemm_gpu|cudnn|liger_kernel|natten)",
    re.IGNORECASE,
)


def mapped_files(pids: Iterable[int]) -> dict[str, bool]:
    """The files mapped by these processes, by path as the kernel names it, and whether any part is executable.

    A few tenths of a millisecond for a compiled kernel's runner. A process that ends meanwhile counts for nothing.
    """
    found: dict[str, bool] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            # surrogateescape: the candidate chose some of these names.
            for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
                fields = line.split(maxsplit=5)
                if len(fields) == 6 and fields[5].startswith("/"):
                    path = fields[5].removesuffix(" (deleted)")
                    found[path] = found.get(path, False) or "x" in fields[1]
    return found


class LibraryRules:
    """What one candidate may have mapped: what its runner had before, itself, and what the language allows."""

    def __init__(self, language: Language, artifact: Path, before: Iterable[str]) -> None:
        self.language = language
        self._known = {*before, str(artifact), str(artifact.resolve())}

    def foreign(self, mapped: dict[str, bool]) -> list[str]:
        """The libraries among ``mapped`` that the language does not allow, each with what it is, sorted."""
        if self.language is Language.TORCH:
            return []  # calling libraries is what it is for
        return sorted(
            f"{path} ({name})" if (name := product(Path(path).name)) else path
            for path, executable in mapped.items()
            if path not in self._known and not self._allowed(path, executable)
        )

    def _allowed(self, path: str, executable: bool) -> bool:
        name = Path(path).name
        if not self.language.is_compiled:
            return product(name) not in _READY_MADE and not _PACKAGES.search(path)
        if not executable and ".so" not in name:
            return True  # data: a locale, a shared buffer
        return bool(_TOOLCHAIN.match(name)) and not path.startswith(WRITABLE)


def named(libraries: list[str], language: Language) -> str:
    """What to tell the author of a kernel that brought these in."""
    shown = ", ".join(library[:200] for library in libraries[:MAX_NAMED])
    more = f" and {len(libraries) - MAX_NAMED} more" if len(libraries) > MAX_NAMED else ""
    rule = "may use only the toolchain's own libraries" if language.is_compiled else "may not use ready-made kernels"
    return f"the kernel brought in {shown}{more}; a {language} kernel {rule}"

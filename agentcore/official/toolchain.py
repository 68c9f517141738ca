"""What a torch extension is compiled and linked with on this host: torch's headers and libraries, CUDA's, CUTLASS's.

Found without importing torch, which takes seconds. Not for compiling; see ``extension``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentcore.build.toolchain import ToolMissing
from agentcore.sandbox.view import cuda_toolkit


class FileMissing(RuntimeError):
    """A header is not on this host; the message names what brings it and what it is for."""

    def __init__(self, file: str, package: str, why: str) -> None:
        super().__init__(f"{file} is not on this host ({why}); install {package}")


@dataclass(frozen=True, slots=True)
class TorchFiles:
    """The installed torch. ``digest`` changes with version and build; ``has_cuda``: it can load a CUDA extension."""

    root: Path
    version: str
    digest: str
    has_cuda: bool

    @property
    def includes(self) -> tuple[Path, ...]:
        return self.root / "include", self.root / "include" / "torch" / "csrc" / "api" / "include"

    @property
    def library_dir(self) -> Path:
        return self.root / "lib"

    def libraries(self, cuda: bool) -> tuple[str, ...]:
        """What an extension is linked with. A torch without CUDA lacks two, so that its extensions cannot be loaded."""
        devices = ("c10_cuda",) if cuda and self.has_cuda else ()
        operators = ("torch_cuda",) if cuda and self.has_cuda else ()
        return "c10", *devices, "torch_cpu", *operators, "torch", "torch_python"

    @property
    def needs_no_cmake_macros(self) -> bool:
        """A torch built without CUDA ships its CUDA headers, but for the one that its CUDA build generates."""
        return not (self.root / "include/c10/cuda/impl/cuda_cmake_macros.h").is_file()


def torch_files() -> TorchFiles:
    """The torch of this interpreter. Raises FileMissing if there is none or it came without headers."""
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or ()) if spec else []
    root = Path(places[0]) if places else None
    if root is None or not (root / "include/torch/csrc/utils/pybind.h").is_file():
        raise FileMissing("torch/csrc/utils/pybind.h", "torch with its headers", "torch's binding needs it")
    version = (root / "version.py").read_bytes()
    return TorchFiles(
        root, importlib.metadata.version("torch"), hashlib.sha256(version).hexdigest(),
        (root / "lib/libtorch_cuda.so").is_file(),
    )


def python_include() -> Path:
    """Where Python.h is. Raises FileMissing."""
    place = Path(sysconfig.get_path("include", scheme="posix_prefix"))
    if not (place / "Python.h").is_file():
        raise FileMissing("Python.h", "the Debian package python3-dev", "torch's binding needs it")
    return place


def cuda_includes() -> tuple[Path, ...]:
    """Header directories of the CUDA toolkit and of NVIDIA's Python packages beside torch. Raises ToolMissing."""
    toolkit = cuda_toolkit()
    if toolkit is None:
        raise ToolMissing("nvcc", "NVIDIA's cuda-toolkit 13.0 or newer, or set CUDA_HOME", "it compiles CUDA kernels")
    return toolkit / "include", *(place for place in _packages() if (place / "cudnn.h").is_file())


def cutlass_includes() -> tuple[Path, ...]:
    """CUTLASS's header directories. Raises FileMissing."""
    root = Path(os.environ.get("CUTLASS_DIR") or "/usr/local/cutlass")
    if not (root / "include/cutlass/cutlass.h").is_file():
        raise FileMissing("cutlass/cutlass.h", f"CUTLASS in {root}, or set CUTLASS_DIR", "the solution uses it")
    return tuple(place for place in (root / "include", root / "tools/util/include") if place.is_dir())


def cuda_link_flags(names: Iterable[str]) -> tuple[str, ...]:
    """Linker flags for ``-l`` names: in the toolkit, else in NVIDIA's Python packages, which lack the plain names."""
    toolkit = cuda_toolkit()
    places = [toolkit / part for part in ("lib64", "lib", "lib64/stubs", "lib/stubs")] if toolkit else []
    flags = [f"-L{place}" for place in places if place.is_dir()]
    for name in names:
        own = any((place / f"lib{name}.so").exists() for place in places)
        found = next((f for place in _packages("lib") for f in sorted(place.glob(f"lib{name}.so*"))), None)
        if own or found is None:
            flags.append(f"-l{name}")
        else:
            flags += [f"-L{found.parent}", f"-Wl,-rpath,{found.parent}", f"-l:{found.name}"]
    return tuple(flags)


def _packages(part: str = "include") -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return sorted(found for place in places for found in Path(place).glob(f"*/{part}") if found.is_dir())

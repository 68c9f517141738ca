"""Prebuilt numerical libraries of this host, which a compiled kernel may neither build upon nor call: hidden from it.

`hidden` gives mounts that put nothing in the place of each, for the sandboxes of the compiler and of the runner. What
a kernel then brings in all the same is seen by agentcore.judge.libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from agentcore.sandbox import Bind, Sandbox
from agentcore.sandbox.view import cuda_toolkit, host_view, python_prefixes

_NO_FILE = Path("/dev/null")  # on a mount without devices it cannot even be opened
_NO_DIRECTORY = Path(__file__).with_name("nothing")

PRODUCTS = {
    "cuBLAS": r"(?:cu|nv)blas\w*", "cuDNN": r"cudnn\w*", "cuFFT": r"cufft\w*", "cuSPARSE": r"cusparse\w*",
    "cuSOLVER": r"cusolver\w*", "cuRAND": r"curand", "cuTENSOR": r"cutensor\w*", "cuDSS": r"cudss\w*",
    "NCCL": r"nccl", "NVSHMEM": r"nvshmem\w*", "NPP": r"npp\w+", "nvJPEG": r"nvjpeg\w*", "TensorRT": r"nvinfer\w*",
    "MKL": r"(?:mkl|iomp5|mklml)\w*", "oneDNN": r"(?:dnnl|mkldnn)\w*", "OpenBLAS": r"\w*openblas\w*",
    "BLIS": r"blis\w*", "ATLAS": r"(?:atlas|satlas|tatlas)", "NVPL": r"nvpl\w*", "Arm PL": r"armpl\w*",
    "BLAS": r"(?:c|R|gslc|ref)?blas\w*", "LAPACK": r"R?lapack\w*", "FFTW": r"fftw3\w*",
    "PyTorch": r"(?:torch|c10|caffe2|shm|aten)\w*", "TensorFlow": r"tensorflow\w*", "JAX": r"(?:jax|xla)\w*",
    "ONNX Runtime": r"onnxruntime\w*", "FlashInfer": r"flashinfer\w*", "FlashAttention": r"flash_attn\w*",
    "ArrayFire": r"af(?:cpu|cuda|opencl)?", "GGML": r"(?:ggml|llama)\w*", "TVM": r"tvm\w*", "CUTLASS": r"cutlass\w*",
}
"""Libraries by product: what follows ``lib`` in a file's name, up to the first ``-``, ``.`` or ``_static``."""

_NAME = re.compile(r"(?:lib)?(?P<stem>[A-Za-z0-9_+]+?)(?:_static|[-.@][^/]*)?\.(?:so(?:\.[\d.]+)?|a)\Z")
_STEMS = [(product, re.compile(pattern + r"\Z", re.IGNORECASE)) for product, pattern in PRODUCTS.items()]
_SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
_ELSEWHERE = ("*.so*", "*.a", "*/*.so*", "*/*.a", "*/*/*.so*")
_IN_PACKAGES = ("*/*.so*", "*/lib/*.so*", "*/lib64/*.so*", "*/*/lib/*.so*", "*/*/lib64/*.so*")


def product(name: str) -> str:
    """The product a library file belongs to by its name (``libcublas.so.13`` gives cuBLAS), or '' for any other."""
    match = _NAME.match(name)
    if match is None:
        return ""
    return next((known for known, stem in _STEMS if stem.match(match["stem"])), "")


def hidden(sandbox: Sandbox, *, python: bool) -> tuple[Bind, ...]:
    """Mounts that hide every such library ``sandbox`` would show, with the prefixes of the running Python or without.

    None where there is no sandbox: nothing can be hidden there, which is one reason why its results are not merged.
    """
    return () if sandbox.kind == "none" else _hidden(python)


@cache
def _hidden(python: bool) -> tuple[Bind, ...]:
    """Looked for once, where linkers, Python and CUDA keep their libraries.

    In Python packages the whole directory of one goes, since every mount costs a sandbox time to start; elsewhere it is
    the toolchain's as well, and only the file goes.
    """
    roots = [Path(root) for root in _SYSTEM] + [prefix / "lib" for prefix in python_prefixes()]
    if (toolkit := cuda_toolkit()) is not None:
        roots += [toolkit / "lib64", toolkit / "lib", *toolkit.glob("targets/*/lib")]
    packages = [found for root in roots for found in root.glob("python3*/*-packages")]
    directories = {path.parent.resolve() for path in _libraries(packages, _IN_PACKAGES)}
    # Links lead to a file that is itself among these, or stand for a name of the same file.
    files = {path.resolve() for path in _libraries(roots, _ELSEWHERE)}
    left = {file for file in files if file.is_file() and not directories.intersection(file.parents)}
    binds = [
        *(Bind(_NO_DIRECTORY, directory) for directory in _outermost(directories)),
        *(Bind(_NO_FILE, file) for file in sorted(left)),
    ]
    shown = host_view(python).paths
    return tuple(bind for bind in binds if any(bind.inside.is_relative_to(path) for path in shown))


def _libraries(roots: Iterable[Path], patterns: Iterable[str]) -> Iterator[Path]:
    for root in dict.fromkeys(roots):
        for pattern in patterns:
            yield from (path for path in root.glob(pattern) if product(path.name))


def _outermost(directories: Iterable[Path]) -> list[Path]:
    """Without those inside another: a mount point must exist, and inside a hidden directory none does."""
    kept: list[Path] = []
    for directory in sorted(directories):
        if not any(directory.is_relative_to(outer) for outer in kept):
            kept.append(directory)
    return kept

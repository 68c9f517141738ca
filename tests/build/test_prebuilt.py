"""Numerical libraries of the host are known by name, and a compiled kernel's sandboxes do not show them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from agentcore.build.prebuilt import hidden, product
from agentcore.sandbox import Sandbox, find_sandbox

LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("libcublas.so.13", "cuBLAS"), ("libcublasLt.so.13.1.0", "cuBLAS"), ("libcublas_static.a", "cuBLAS"),
        ("libcudnn_ops.so.9", "cuDNN"), ("libtorch_cuda.so", "PyTorch"), ("libc10.so", "PyTorch"),
        ("libscipy_openblas64_-32a4b2a6.so", "OpenBLAS"), ("libopenblasp-r0.3.26.so", "OpenBLAS"),
        ("libmkl_rt.so.2", "MKL"), ("libblas.so.3.11.0", "BLAS"), ("liblapack.so.3", "LAPACK"),
        ("flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", "FlashAttention"),
        ("libcudart.so.13", ""), ("libnvrtc.so.13", ""), ("libcuda.so.1", ""), ("libc.so.6", ""), ("libm.so.6", ""),
        ("libstdc++.so.6.0.30", ""), ("libgomp.so.1", ""), ("libcudart_static.a", ""), ("libcudadevrt.a", ""),
        ("cublas.h", ""), ("libblas.txt", ""), ("kernel.so", ""),
    ],
)
def test_a_library_is_known_by_its_files_name(name: str, known: str) -> None:
    assert product(name) == known


def test_what_numpy_and_torch_bring_cannot_be_loaded_in_a_compiled_kernels_sandbox(sandbox: Sandbox) -> None:
    if sandbox.kind == "none":
        pytest.skip("hiding needs a sandbox")
    library = Path(torch.__file__).resolve().parent / "lib" / "libc10.so"
    command = [sys.executable, "-I", "-S", "-c", LOAD, str(library)]
    assert sandbox.run(command).returncode == 0
    refused = sandbox.run(command, readable=hidden(sandbox, python=True))
    assert refused.returncode != 0 and b"cannot open shared object file" in refused.stderr
    allowed = sandbox.run([*command[:-1], "libm.so.6"], readable=hidden(sandbox, python=True))
    assert allowed.returncode == 0


def test_only_what_a_sandbox_would_show_is_hidden(sandbox: Sandbox) -> None:
    torch_lib = Path(torch.__file__).resolve().parent / "lib"
    assert torch_lib in {bind.inside for bind in hidden(sandbox, python=True)}
    assert not any(bind.inside.is_relative_to(Path(sys.prefix)) for bind in hidden(sandbox, python=False))
    for python in (True, False):
        places = [bind.inside for bind in hidden(sandbox, python=python)]
        assert len(places) == len(set(places)) and all(place.exists() for place in places)
        # A mount point inside a hidden directory would not exist.
        assert not any(a != b and a.is_relative_to(b) for a in places for b in places)


def test_without_a_sandbox_nothing_can_be_hidden() -> None:
    assert hidden(find_sandbox("none"), python=True) == ()

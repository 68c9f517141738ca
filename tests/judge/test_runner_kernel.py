"""The runner's binding of parameters to a call, on a real shared object and a real Python kernel."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentcore.judge.runner.kernel import CompiledKernel, PythonKernel, call_arguments

SOURCE = r"""
#include <stdint.h>
extern "C" const int ky_abi_version = VERSION;
// args: x (float[4]), scale (double), flag (int64), y (double[5]), rows (int64), half (int64)
extern "C" int ky_call(void* const* args, void* stream) {
    const float* x = (const float*)args[0];
    double* y = (double*)args[3];
    y[0] = x[0] + x[3];
    y[1] = *(const double*)args[1];
    y[2] = (double)*(const int64_t*)args[2];
    y[3] = (double)*(const int64_t*)args[4];
    y[4] = (double)*(const int64_t*)args[5];
    return (int)(intptr_t)stream;
}
"""
PARAMETERS: list[dict[str, Any]] = [
    {"name": "x", "role": "input", "type": ""}, {"name": "scale", "role": "scalar", "type": "float", "value": 0.1},
    {"name": "flag", "role": "scalar", "type": "int", "value": True}, {"name": "y", "role": "output", "type": ""},
    {"name": "rows", "role": "axis", "type": "int", "value": 2**40}, {"name": "half", "role": "axis", "type": "int",
                                                                     "value": 0},
]


def compiled(directory: Path, version: int = 1) -> Path:
    source, library = directory / "k.cpp", directory / f"k{version}.so"
    source.write_text(SOURCE)
    subprocess.run(
        ["g++", "-shared", "-fPIC", f"-DVERSION={version}", str(source), "-o", str(library)], check=True
    )
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("binding"))


def test_tensors_scalars_and_axes_reach_the_kernel_in_their_own_types(library: Path) -> None:
    x, y = (ctypes.c_float * 4)(1.5, 0, 0, 2.5), (ctypes.c_double * 5)()
    addresses = [ctypes.addressof(x), None, None, ctypes.addressof(y), None, None]
    call = CompiledKernel(str(library)).bind(PARAMETERS, addresses, 0)
    assert call() == 0
    assert list(y) == [4.0, 0.1, 1.0, float(2**40), 0.0]


def test_a_calls_values_live_as_long_as_the_call(library: Path) -> None:
    kernel = CompiledKernel(str(library))
    x, y = (ctypes.c_float * 4)(), (ctypes.c_double * 5)()
    addresses = [ctypes.addressof(x), None, None, ctypes.addressof(y), None, None]
    calls = [
        kernel.bind([{**p, "value": 10 * i} if p["name"] == "rows" else p for p in PARAMETERS], addresses, 0)
        for i in range(20)
    ]
    _ = [bytearray(64) for _ in range(1000)]  # whatever was freed is written over
    for i, call in enumerate(calls):
        call()
        assert y[3] == 10 * i


def test_the_kernels_status_is_returned(library: Path) -> None:
    x, y = (ctypes.c_float * 4)(), (ctypes.c_double * 5)()
    addresses = [ctypes.addressof(x), None, None, ctypes.addressof(y), None, None]
    assert CompiledKernel(str(library)).bind(PARAMETERS, addresses, 7)() == 7


def test_a_library_of_another_abi_is_refused_by_number(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ABI version 2, this runner speaks 1"):
        CompiledKernel(str(compiled(tmp_path, version=2)))


@pytest.fixture
def untouched_modules() -> Iterator[None]:
    path, module = list(sys.path), sys.modules.get("kernel")
    yield
    sys.path[:] = path
    sys.modules.pop("kernel", None)
    if module is not None:
        sys.modules["kernel"] = module


@pytest.mark.usefixtures("untouched_modules")
def test_a_python_kernel_gets_inputs_and_scalars_then_outputs_and_no_axes(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("NAME = 'beside it'\n")
    (tmp_path / "kernel.py").write_text("import part\nseen = []\ndef run(*a):\n    seen.append(a)\n")
    kernel = PythonKernel(str(tmp_path / "kernel.py"))
    arguments = call_arguments(PARAMETERS, lambda p: p["name"].upper())
    assert kernel.bind(arguments)() == 0
    assert sys.modules["kernel"].seen == [("X", 0.1, True, "Y")]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("untouched_modules")
def test_a_python_kernel_without_run_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("run = 3\n")
    with pytest.raises(RuntimeError, match="defines no function run"):
        PythonKernel(str(tmp_path / "kernel.py"))


def test_what_torch_made_is_walked_by_no_later_collection() -> None:
    # In a process of its own: this one's objects are frozen already.
    code = (
        "import gc, sys; sys.path.insert(0, sys.argv[1]); import kernel; torch = kernel.import_torch();"
        "assert gc.isenabled() and torch.ones(1).item() == 1;"
        "assert gc.get_freeze_count() > 10 * len(gc.get_objects()), (gc.get_freeze_count(), len(gc.get_objects()))"
    )
    runner = Path(sys.modules[PythonKernel.__module__].__file__ or "").parent
    subprocess.run([sys.executable, "-c", code, runner], check=True)

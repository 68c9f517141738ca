"""The generated interface, called the way the runner calls it."""

from __future__ import annotations

import copy
import ctypes
import re
import shutil
import subprocess

import pytest
import torch

from agentcore.build.header import ABI_VERSION, entry_source, problem_header
from agentcore.problems import DTYPE_BYTES
from agentcore.vocabulary import Language
from tests.build.kernels import DEFINITION, KERNEL_CPP, problem_of


def call(library: ctypes.CDLL, *arguments: object) -> int:
    """``ky_call`` with tensors by their data and numbers by their address."""
    kept = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            kept.append(value.data_ptr())
        else:
            box = ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)
            kept.append(ctypes.addressof(box))
            kept_boxes.append(box)
    pointers = (ctypes.c_void_p * len(kept))(*kept)
    return library.ky_call(pointers, None)


kept_boxes: list[object] = []


def test_a_built_kernel_is_called_with_tensors_scalars_and_axes_in_the_agreed_order(compiled):
    built = compiled(KERNEL_CPP)
    assert built.report.ok, built.report.log
    library = ctypes.CDLL(str(built.artifact))
    assert ctypes.c_int.in_dll(library, "ky_abi_version").value == ABI_VERSION
    x, y = torch.arange(6, dtype=torch.float32), torch.zeros(6)
    assert call(library, x, 2.5, -3, 1, y, 2, 6) == 0
    assert torch.equal(y, -x * 2.5 - 3)
    assert call(library, x, 2.5, -3, 1, y, 2, 7) == 1


def test_constant_axes_are_macros_and_the_rest_parameters(problem):
    header = problem_header(problem.definition, Language.CPP)
    assert "#define KY_COLUMNS 3\n" in header
    declaration = header[header.index("kernel_launch(") :]
    names = [line.split("//")[0].strip().rstrip(",") for line in declaration.splitlines()[1:-1]]
    assert names == ["const float* x", "float gain", "int32_t shift", "bool negate", "float* y", "int64_t rows",
                     "int64_t cells"]  # fmt: skip


def test_cuda_kernels_take_a_stream_last(problem):
    header = problem_header(problem.definition, Language.CUDA)
    assert "    cudaStream_t stream  " in header
    assert "static_cast<cudaStream_t>(stream)" in entry_source(problem.definition, Language.CUDA)


def test_a_cuda_kernel_gets_the_headers_of_its_types_and_the_entry_none(problem, tmp_path):
    def included(text):
        return re.findall(r"#include <cuda_(\w+)\.h>", text)

    every = every_dtype().definition
    header = problem_header(every, Language.CUDA)
    assert included(header) == ["bf16", "fp16", "fp8", "runtime"]
    assert included(problem_header(problem.definition, Language.CUDA)) == ["runtime"]
    (tmp_path / "problem.h").write_text(header)
    (tmp_path / "entry.cpp").write_text(entry_source(every, Language.CUDA))
    # No toolkit is needed for it.
    subprocess.run(["g++", "-std=c++20", "-Werror", "-c", "entry.cpp", "-o", "entry.o"], cwd=tmp_path, check=True)


def test_python_languages_have_no_c_interface(problem):
    with pytest.raises(ValueError, match="triton kernels have no C interface"):
        problem_header(problem.definition, Language.TRITON)


def every_dtype():
    return problem_of(
        {
            "name": "every_dtype",
            "axes": {"n": {"type": "var"}},
            "inputs": {f"in_{dtype}": {"shape": ["n"], "dtype": dtype} for dtype in DTYPE_BYTES}
            | {f"scalar_{dtype}": {"shape": None, "dtype": dtype} for dtype in ("float16", "float64", "int8", "int64")},
            "outputs": {f"out_{dtype}": {"shape": [], "dtype": dtype} for dtype in DTYPE_BYTES},
        }
    )


def declared(problem, language: Language) -> str:
    """A kernel that defines exactly what the header declares, and checks the width of every element type."""
    header = problem_header(problem.definition, language)
    signature = header[header.index('extern "C" int kernel_launch(') :].rstrip().rstrip(";")
    body = "".join(f"static_assert(sizeof(*in_{dtype}) == {size});\n" for dtype, size in DTYPE_BYTES.items())
    return f'#include "problem.h"\n{signature} {{\n{body}return 0; }}\n'


@pytest.mark.parametrize("language", [Language.CPP, Language.CUDA])
def test_every_dtype_has_a_type_of_its_width(compiled, language):
    if language is Language.CUDA and shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    problem = every_dtype()
    built = compiled(declared(problem, language), language, of=problem)
    assert built.report.ok, built.report.log


def test_names_that_mean_something_in_cpp_are_made_harmless(compiled):
    definition = copy.deepcopy(DEFINITION)
    definition["axes"] = {"int": {"type": "var"}, "stream": {"type": "var"}, "double": {"type": "const", "value": 2}}
    definition["inputs"] = {"operator": {"shape": ["int", "double"], "dtype": "float32"},
                            "args": {"shape": ["stream"], "dtype": "float32"}}  # fmt: skip
    definition["outputs"] = {"return": {"shape": ["int"], "dtype": "float32"}}
    problem = problem_of(definition)
    header = problem_header(problem.definition, Language.CPP)
    assert "const float* operator_," in header and "int64_t stream_" in header and "#define KY_DOUBLE 2" in header
    source = """
#include "problem.h"
extern "C" int kernel_launch(const float*, const float*, float* out, int64_t, int64_t) { *out = 1; return 0; }
"""
    built = compiled(source, of=problem)
    assert built.report.ok, built.report.log


def test_text_of_a_definition_cannot_leave_its_comment(compiled):
    definition = copy.deepcopy(DEFINITION)
    definition["name"] = "x\n#error injected \\"
    definition["axes"]["cells"]["expression"] = "(rows\n#error injected\n * columns)"
    problem = problem_of(definition)
    assert not any(line.startswith("#error") for line in problem_header(problem.definition, Language.CPP).splitlines())
    built = compiled(KERNEL_CPP, of=problem)
    assert built.report.ok, built.report.log


CONVERSIONS = """
#include "problem.h"
extern "C" int kernel_launch(const ky::bf16* half, const float* wide, const uint8_t* bytes, float* widened,
                             ky::bf16* narrowed, float* decoded, int64_t n) {
    for (int64_t i = 0; i < 65536; ++i) widened[i] = half[i];
    for (int64_t i = 0; i < n; ++i) narrowed[i] = wide[i];
    for (int i = 0; i < 256; ++i) {
        decoded[i] = ky::from_e4m3(bytes[i]);
        decoded[256 + i] = ky::from_e5m2(bytes[i]);
        decoded[512 + i] = ky::from_e8m0(bytes[i]);
        decoded[768 + i] = ky::from_e2m1(bytes[i] & 15);
    }
    return 0;
}
"""


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return bool((ours == theirs).logical_or(ours.isnan() & theirs.isnan()).all())


def test_narrow_types_convert_as_torch_converts_them(compiled):
    problem = problem_of(
        {
            "name": "conversions",
            "axes": {"n": {"type": "var"}},
            "inputs": {
                "half": {"shape": [65536], "dtype": "bfloat16"},
                "wide": {"shape": ["n"], "dtype": "float32"},
                "bytes": {"shape": [256], "dtype": "uint8"},
            },
            "outputs": {
                "widened": {"shape": [65536], "dtype": "float32"},
                "narrowed": {"shape": ["n"], "dtype": "bfloat16"},
                "decoded": {"shape": [1024], "dtype": "float32"},
            },
        }
    )
    built = compiled(CONVERSIONS, of=problem)
    assert built.report.ok, built.report.log
    half = torch.arange(-32768, 32768).to(torch.int16).view(torch.bfloat16)
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (1 << 20,), generator=generator).to(torch.int32)
    edges = torch.tensor([0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF, 0x00007FFF, 0x00008000, 0x3F808000,
                          0x3F818000, 0x00000001], dtype=torch.int32)  # fmt: skip
    wide = torch.cat([bits, edges]).view(torch.float32)
    codes = torch.arange(256).to(torch.uint8)
    widened, narrowed = torch.zeros(65536), torch.zeros(wide.numel(), dtype=torch.bfloat16)
    decoded = torch.zeros(1024)
    assert call(ctypes.CDLL(str(built.artifact)), half, wide, codes, widened, narrowed, decoded, wide.numel()) == 0
    assert same(widened, half.float())
    assert same(narrowed, wide.to(torch.bfloat16))
    assert same(decoded[:256], codes.view(torch.float8_e4m3fn).float())
    assert same(decoded[256:512], codes.view(torch.float8_e5m2).float())
    assert same(decoded[512:768], codes.view(torch.float8_e8m0fnu).float())
    assert decoded[768:776].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert decoded[776:784].tolist() == [0, -0.5, -1, -1.5, -2, -3, -4, -6]

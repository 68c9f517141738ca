"""A small problem with every kind of parameter, and honest kernels for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentcore.build import build
from agentcore.problems import Definition, Problem
from agentcore.sandbox import find_sandbox
from agentcore.vocabulary import HardwareName, Language

DEFINITION: dict[str, Any] = {
    "name": "scale_rows",
    "axes": {
        "rows": {"type": "var"},
        "columns": {"type": "const", "value": 3},
        "cells": {"type": "expr", "expression": "rows * columns"},
    },
    "inputs": {
        "x": {"shape": ["rows", "columns"], "dtype": "float32"},
        "gain": {"shape": None, "dtype": "float32"},
        "shift": {"shape": None, "dtype": "int32"},
        "negate": {"shape": None, "dtype": "bool"},
    },
    "outputs": {"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
}

KERNEL_CPP = """
#include "problem.h"

extern "C" int kernel_launch(const float* x, float gain, int32_t shift, bool negate, float* y,
                             int64_t rows, int64_t cells) {
    if (cells != rows * KY_COLUMNS) return 1;
    for (int64_t i = 0; i < cells; ++i) y[i] = (negate ? -1.0f : 1.0f) * x[i] * gain + shift;
    return 0;
}
"""

KERNEL_CU = """
#include "problem.h"

template <int Threads>
__global__ void scale(const float* x, float gain, int shift, bool negate, float* y, int64_t cells) {
    __shared__ float staged[Threads];
    int64_t i = blockIdx.x * int64_t(Threads) + threadIdx.x;
    staged[threadIdx.x] = i < cells ? x[i] : 0.0f;
    __syncthreads();
    if (i < cells) y[i] = (negate ? -1.0f : 1.0f) * staged[threadIdx.x ^ 1] * gain + shift;
}

extern "C" int kernel_launch(const float* x, float gain, int32_t shift, bool negate, float* y,
                             int64_t rows, int64_t cells, cudaStream_t stream) {
    scale<128><<<(cells + 127) / 128, 128, 0, stream>>>(x, gain, shift, negate, y, cells);
    return cudaGetLastError();
}
"""


def problem_of(definition: dict[str, Any], root: Path = Path("/nowhere")) -> Problem:
    parsed = Definition.model_validate(definition)
    return Problem(parsed.name, parsed, "", (), (), (), "", root, "0" * 64)


def build_once(source: Path, cache: Path) -> tuple[bool, str]:
    """Build a C++ kernel of the small problem; to be called in other processes."""
    problem = problem_of(DEFINITION)
    built = build(source, problem, Language.CPP, HardwareName.CPU, cache_dir=cache, sandbox=find_sandbox())
    return built.report.ok, str(built.artifact)

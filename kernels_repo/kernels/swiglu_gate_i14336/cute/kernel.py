"""SwiGLU gate in CuTe DSL: a thread takes eight neighbouring columns of a row, gate and up as 16-byte vectors."""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

INTERMEDIATE = 14336
VECTOR = 8
THREADS = 256  # tune: 64 128 256
BLOCKS = INTERMEDIATE // (VECTOR * THREADS)


@cute.kernel
def gate(gate_up: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    part, token, _ = cute.arch.block_idx()
    column = part * THREADS + thread
    gates = cute.local_tile(gate_up, (1, VECTOR), (token, column)).load().to(cutlass.Float32)
    ups = cute.local_tile(gate_up, (1, VECTOR), (token, column + INTERMEDIATE // VECTOR)).load().to(cutlass.Float32)
    # g / (1 + e^-g); for g far below 0 the exponential is infinite and the quotient 0.
    gated = gates / (1.0 + cute.math.exp(-gates, fastmath=True)) * ups
    cute.local_tile(y, (1, VECTOR), (token, column)).store(gated.to(cutlass.BFloat16))


@cute.jit
def launch(gate_up: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    gate(gate_up, y).launch(grid=[BLOCKS, y.shape[0], 1], block=[THREADS, 1, 1], stream=stream)


_compiled = {}


def rows(tensor: torch.Tensor) -> cute.Tensor:
    """A matrix of any number of rows, so that one compiled kernel serves every shape."""
    return from_dlpack(tensor, assumed_align=16).mark_compact_shape_dynamic(mode=0, stride_order=(0, 1))


def run(gate_up: torch.Tensor, y: torch.Tensor) -> None:
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    # Tokens are the second dimension of the grid, which ends at 65,535, and elements are counted in 32 bits: more of
    # them are taken in parts.
    for first in range(0, y.shape[0], 65535):
        arguments = rows(gate_up[first : first + 65535]), rows(y[first : first + 65535]), stream
        if "launch" not in _compiled:
            _compiled["launch"] = cute.compile(launch, *arguments)
        _compiled["launch"](*arguments)

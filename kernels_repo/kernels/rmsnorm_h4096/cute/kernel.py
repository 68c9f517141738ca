"""RMSNorm in CuTe DSL: a block normalises one row, a thread eight channels of it, loaded as one 16-byte vector."""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

HIDDEN, EPSILON = 4096, 1e-5
VECTOR = 8
THREADS = HIDDEN // VECTOR
WARPS = THREADS // 32
MAX_ROWS = (1 << 30) // HIDDEN


@cute.kernel
def rmsnorm(x: cute.Tensor, weight: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    # The gains do not depend on the row: their load is under way before the reduction waits for the row.
    gains = cute.local_tile(weight, (VECTOR,), (thread,)).load().to(cutlass.Float32)
    values = cute.local_tile(x, (1, VECTOR), (row, thread)).load().to(cutlass.Float32).reshape((VECTOR,))
    square_sum = (values * values).reduce(cute.ReductionOp.ADD, 0.0, reduction_profile=0)
    parts = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(WARPS))
    of_warp = cute.arch.warp_reduction_sum(square_sum)
    # Asked of the whole warp: its number comes by a shuffle, which would wait for ever for lanes that are elsewhere.
    warp = cute.arch.warp_idx()
    if cute.arch.lane_idx() == 0:
        parts[warp] = of_warp
    cute.arch.sync_threads()
    total = parts.load().reduce(cute.ReductionOp.ADD, 0.0, reduction_profile=0)
    inverse_rms = cute.math.rsqrt(total / HIDDEN + EPSILON)
    out = cute.local_tile(y, (1, VECTOR), (row, thread))
    out.store((values * inverse_rms * gains).to(cutlass.BFloat16).reshape(out.shape))


@cute.jit
def launch(x: cute.Tensor, weight: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    rmsnorm(x, weight, y).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1], stream=stream)


_compiled = {}


def rows(tensor: torch.Tensor) -> cute.Tensor:
    """A matrix of any number of rows, so that one compiled kernel serves every shape."""
    return from_dlpack(tensor, assumed_align=16).mark_compact_shape_dynamic(mode=0, stride_order=(0, 1))


def run(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    gains = from_dlpack(weight, assumed_align=16)
    # Elements are counted in 32 bits, so very many tokens are taken in parts.
    for first in range(0, x.shape[0], MAX_ROWS):
        arguments = rows(x[first : first + MAX_ROWS]), gains, rows(y[first : first + MAX_ROWS]), stream
        if "launch" not in _compiled:
            _compiled["launch"] = cute.compile(launch, *arguments)
        _compiled["launch"](*arguments)

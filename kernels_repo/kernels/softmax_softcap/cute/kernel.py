"""Soft-capped softmax in CuTe DSL. A row that fits is held in the registers of a group of threads and read once; a
longer one is read twice by a block, with a running maximum and sum. Columns come as 16-byte vectors where they divide.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

HELD = 4  # tune: 2 4 8
BLOCK_THREADS = 256  # tune: 128 256 512
MAX_GROUP = 512
MAX_ELEMENTS = 1 << 30


@cute.jit
def exponents(raw, ratio, limit, into):
    """The power of two that each raw score gets: log2(e) * cap * tanh(scale * score / cap), by 1 - 2 / (e^2v + 1).

    ``ratio`` is 2 log2(e) scale / cap. Right at both ends, where the exponential is infinite or 0.
    """
    for i in cutlass.range_constexpr(cute.size(into)):
        growth = cute.math.exp2(raw[i].to(cutlass.Float32) * ratio, fastmath=True)
        into[i] = limit - 2.0 * limit * cute.arch.rcp_approx(growth + 1.0)
    return into.load()


@cute.jit
def of_group(value, operation, parts, group: cutlass.Constexpr):
    """``value`` reduced over the threads of a row. ``parts`` is one number a warp, of this reduction alone."""
    value = cute.arch.warp_reduction(value, operation, threads_in_group=min(group, 32))
    if cutlass.const_expr(group > 32):
        warps = group // 32
        warp = cute.arch.warp_idx()
        if cute.arch.lane_idx() == 0:
            parts[warp] = value
        cute.arch.sync_threads()
        first = warp // warps * warps
        value = parts[first]
        for other in cutlass.range_constexpr(1, warps):
            value = operation(value, parts[first + other])
    return value


def add(a, b):
    return a + b


@cute.kernel
def held(
    scores: cute.Tensor, probs: cute.Tensor, ratio: cutlass.Float32, limit: cutlass.Float32,
    vector: cutlass.Constexpr, group: cutlass.Constexpr, threads: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row = block * (threads // group) + thread // group
    place = thread % group
    vectors = scores.shape[1] // vector if row < scores.shape[0] else 0
    parts = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((threads // 32, 2)))

    values = cute.make_rmem_tensor((vector, HELD), cutlass.Float32)
    values.fill(-cutlass.Float32.inf)  # past the row's end: its power is 0
    for i in cutlass.range_constexpr(HELD):
        at = place + i * group
        if at < vectors:
            raw = cute.local_tile(scores, (1, vector), (row, at)).load().reshape((vector,))
            exponents(raw, ratio, limit, values[(None, i)])
    # A group without a row must not subtract infinities.
    highest = values.load().reduce(cute.ReductionOp.MAX, -3.0e38, reduction_profile=0)
    highest = of_group(highest, cute.arch.fmax, parts[(None, 0)], group)
    powers = cute.math.exp2(values.load() - highest, fastmath=True)
    total = of_group(powers.reduce(cute.ReductionOp.ADD, 0.0, reduction_profile=0), add, parts[(None, 1)], group)
    values.store(powers * (1.0 / total))
    for i in cutlass.range_constexpr(HELD):
        at = place + i * group
        if at < vectors:
            out = cute.local_tile(probs, (1, vector), (row, at))
            out.store(values[(None, i)].load().to(cutlass.BFloat16).reshape(out.shape))


@cute.kernel
def streamed(
    scores: cute.Tensor, probs: cute.Tensor, ratio: cutlass.Float32, limit: cutlass.Float32,
    vector: cutlass.Constexpr, threads: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    vectors = scores.shape[1] // vector
    parts = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((threads // 32, 2)))

    values = cute.make_rmem_tensor((vector,), cutlass.Float32)
    highest, total = cutlass.Float32(-3.0e38), cutlass.Float32(0.0)
    for at in cutlass.range(thread, vectors, threads):
        raw = cute.local_tile(scores, (1, vector), (row, at)).load().reshape((vector,))
        block = exponents(raw, ratio, limit, values)
        higher = cute.arch.fmax(highest, block.reduce(cute.ReductionOp.MAX, -3.0e38, reduction_profile=0))
        powers = cute.math.exp2(block - higher, fastmath=True)
        total = total * cute.math.exp2(highest - higher, fastmath=True) + powers.reduce(
            cute.ReductionOp.ADD, 0.0, reduction_profile=0
        )
        highest = higher
    of_row = of_group(highest, cute.arch.fmax, parts[(None, 0)], threads)
    total = of_group(total * cute.math.exp2(highest - of_row, fastmath=True), add, parts[(None, 1)], threads)
    inverse = 1.0 / total
    for at in cutlass.range(thread, vectors, threads):
        raw = cute.local_tile(scores, (1, vector), (row, at)).load().reshape((vector,))
        powers = cute.math.exp2(exponents(raw, ratio, limit, values) - of_row, fastmath=True)
        out = cute.local_tile(probs, (1, vector), (row, at))
        out.store((powers * inverse).to(cutlass.BFloat16).reshape(out.shape))


@cute.jit
def launch(
    scores: cute.Tensor, probs: cute.Tensor, ratio: cutlass.Float32, limit: cutlass.Float32, stream: cuda.CUstream,
    vector: cutlass.Constexpr, group: cutlass.Constexpr,
):
    if cutlass.const_expr(group > 0):
        threads = max(group, BLOCK_THREADS)
        blocks = cute.ceil_div(scores.shape[0], threads // group)
        held(scores, probs, ratio, limit, vector, group, threads).launch(
            grid=[blocks, 1, 1], block=[threads, 1, 1], stream=stream
        )
    else:
        streamed(scores, probs, ratio, limit, vector, MAX_GROUP).launch(
            grid=[scores.shape[0], 1, 1], block=[MAX_GROUP, 1, 1], stream=stream
        )


_compiled = {}


def matrix(tensor: torch.Tensor, vector: int) -> cute.Tensor:
    """A matrix of any size whose columns divide into vectors, so that one compiled kernel serves many shapes."""
    given = from_dlpack(tensor, assumed_align=16 if vector > 1 else 2)
    given = given.mark_compact_shape_dynamic(mode=0, stride_order=(0, 1))
    return given.mark_compact_shape_dynamic(mode=1, stride_order=(0, 1), divisibility=vector)


def run(scores: torch.Tensor, scale: float, cap: float, probs: torch.Tensor) -> None:
    rows, columns = scores.shape
    if rows == 0 or columns == 0:
        return
    vector = 8 if columns % 8 == 0 else 1
    needed = -(-columns // (vector * HELD))
    group = max(32, 1 << (needed - 1).bit_length())  # threads of a row: whole warps, a power of two
    if group > MAX_GROUP:
        group = 0
    log2_e = math.log2(math.e)
    numbers = cutlass.Float32(2.0 * log2_e * scale / cap), cutlass.Float32(cap * log2_e)
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    most = max(1, MAX_ELEMENTS // columns)  # elements are counted in 32 bits
    for first in range(0, rows, most):
        part = slice(first, first + most)
        arguments = matrix(scores[part], vector), matrix(probs[part], vector), *numbers, stream
        if (vector, group) not in _compiled:
            _compiled[vector, group] = cute.compile(launch, *arguments, vector, group)
        _compiled[vector, group](*arguments)

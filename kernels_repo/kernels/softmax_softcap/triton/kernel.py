"""Soft-capped softmax, one program a row. Short rows stay in registers; long ones are read twice, with a running sum.

A capped score lies within ±|cap|, so exp(capped − |cap|) cannot overflow, and no pass is needed to find the maximum. It
could vanish for a large cap: beyond CAP_LIMIT the true maximum is found first.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096         # tune: 2048 4096 8192
HELD_COLUMNS = 8192  # tune: 2048 4096 8192
CAP_LIMIT = 40.0
WARPS = 8            # tune: 4 8 16


@triton.jit
def capped(scores, ratio, cap):
    # tanh(v) = 1 − 2 / (e^2v + 1), right at both ends: the exponential becomes infinite or 0.
    return cap * (1.0 - 2.0 / (tl.exp(2.0 * ratio * scores.to(tl.float32)) + 1.0))


@triton.jit
def softmax_held(scores, probs, columns, ratio, cap, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.program_id(0).to(tl.int64) * columns
    values = tl.where(inside, capped(tl.load(scores + row + at, mask=inside, other=0.0), ratio, cap), float("-inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(probs + row + at, (powers / tl.sum(powers, axis=0)).to(tl.bfloat16), mask=inside)


@triton.jit
def softmax_long(scores, probs, columns, ratio, cap, shift, FIND: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    if FIND:
        highest = tl.full((BLOCK,), float("-inf"), tl.float32)
        for first in range(0, columns, BLOCK):
            at = first + tl.arange(0, BLOCK)
            block = capped(tl.load(scores + row + at, mask=at < columns, other=0.0), ratio, cap)
            highest = tl.maximum(highest, tl.where(at < columns, block, float("-inf")))
        shift = tl.max(highest, axis=0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        block = capped(tl.load(scores + row + at, mask=at < columns, other=0.0), ratio, cap)
        sums += tl.where(at < columns, tl.exp(block - shift), 0.0)
    inverse = 1.0 / tl.sum(sums, axis=0)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        block = capped(tl.load(scores + row + at, mask=at < columns, other=0.0), ratio, cap)
        tl.store(probs + row + at, (tl.exp(block - shift) * inverse).to(tl.bfloat16), mask=at < columns)


def run(scores: torch.Tensor, scale: float, cap: float, probs: torch.Tensor) -> None:
    rows, columns = scores.shape
    if rows == 0 or columns == 0:
        return
    ratio = scale / cap
    if columns <= HELD_COLUMNS:
        block = triton.next_power_of_2(columns)
        warps = max(1, min(WARPS, block // 256))
        softmax_held[(rows,)](scores, probs, columns, ratio, cap, BLOCK=block, num_warps=warps)
    else:
        find = abs(cap) > CAP_LIMIT
        softmax_long[(rows,)](
            scores, probs, columns, ratio, cap, float(abs(cap)), FIND=find, BLOCK=BLOCK, num_warps=WARPS
        )

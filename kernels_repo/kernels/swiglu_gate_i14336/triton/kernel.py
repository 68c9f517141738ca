"""SwiGLU gate: a program takes one stretch of one row, small stretches where there are few rows to share out."""

import torch
import triton
import triton.language as tl

BLOCK = 2048      # tune: 512 1024 2048 4096
FEW_BLOCK = 512   # tune: 256 512 1024
FEW_TOKENS = 64   # tune: 8 64 256
WARPS = 4         # tune: 2 4 8


@triton.jit
def gate(gate_up, y, INTERMEDIATE: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < INTERMEDIATE
    token = tl.program_id(1).to(tl.int64)
    packed = gate_up + token * (2 * INTERMEDIATE) + columns
    gates = tl.load(packed, mask=inside).to(tl.float32)
    ups = tl.load(packed + INTERMEDIATE, mask=inside).to(tl.float32)
    tl.store(y + token * INTERMEDIATE + columns, (gates * tl.sigmoid(gates) * ups).to(tl.bfloat16), mask=inside)


def run(gate_up: torch.Tensor, y: torch.Tensor) -> None:
    tokens, intermediate = y.shape
    block = FEW_BLOCK if tokens <= FEW_TOKENS else BLOCK
    # Tokens are the second dimension of the grid, which ends at 65,535: more of them are taken in parts.
    for first in range(0, tokens, 65535):
        rows = min(65535, tokens - first)
        gate[(triton.cdiv(intermediate, block), rows)](
            gate_up[first:], y[first:], INTERMEDIATE=intermediate, BLOCK=block, num_warps=WARPS
        )

"""RMSNorm in destination-passing style: PyTorch's fused operator on a GPU, in-place steps block by block on a CPU."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5
CPU_BLOCK_ROWS = 128  # a single-precision copy of a block is 2 MiB and stays in cache


@torch.no_grad()
def run(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
    if x.is_cuda:
        # The operator has no out= form; the copy still costs less than any composition of out= operators.
        y.copy_(F.rms_norm(x, (x.shape[-1],), weight, EPSILON))
        return
    for rows, out in zip(x.split(CPU_BLOCK_ROWS), y.split(CPU_BLOCK_ROWS), strict=True):
        values = rows.float()
        inverse_rms = values.square().mean(dim=-1, keepdim=True).add_(EPSILON).rsqrt_()
        out.copy_(values.mul_(inverse_rms).mul_(weight))

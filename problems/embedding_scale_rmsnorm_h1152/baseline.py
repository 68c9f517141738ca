"""Lookup and scale in the output itself, then RMSNorm: fused on a GPU, block by block in place on a CPU."""

import torch
import torch.nn.functional as F

SCALE = 34.0
EPSILON = 1e-6
CPU_BLOCK_ROWS = 256  # a single-precision copy of a block is 1.1 MiB and stays in cache


@torch.no_grad()
def run(
    ids: torch.Tensor, table: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, residual: torch.Tensor
) -> None:
    torch.index_select(table, 0, ids, out=residual)
    residual.mul_(SCALE)
    gain = weight.float().add_(1.0)
    if table.is_cuda:
        # A single-precision gain would leave the fused path, so it is rounded once more: within the tolerance.
        y.copy_(F.rms_norm(residual, (residual.shape[-1],), gain.to(table.dtype), EPSILON))
        return
    for rows, out in zip(residual.split(CPU_BLOCK_ROWS), y.split(CPU_BLOCK_ROWS), strict=True):
        values = rows.float()
        inverse_rms = values.square().mean(dim=-1, keepdim=True).add_(EPSILON).rsqrt_()
        out.copy_(values.mul_(inverse_rms).mul_(gain))
